"""When to end the script: after a number of optimizer steps, or once they change nothing."""


class StopRule:
    """A step changes nothing where its figures are those of the same optimizer's step before it. The run is stable once
    every optimizer has done so twice in a row (a script with two of them, or with one per parameter, takes turns)."""

    def __init__(self, steps, until_stable):
        self.steps = steps
        self.until_stable = until_stable
        self.last = {}  # optimizer -> its last figures
        self.unchanged = {}  # optimizer -> how many steps in a row changed nothing

    def after(self, index, optimizer, figures):
        """The reason to stop after step `index` ("steps", "until-stable"), or None. `optimizer`: what tells optimizers
        apart. `figures`: the devices' part of the step's event."""
        if self.until_stable:
            same = bool(figures) and self.last.get(optimizer) == _what_must_not_change(figures)
            self.unchanged[optimizer] = self.unchanged.get(optimizer, 0) + 1 if same else 0
            self.last[optimizer] = _what_must_not_change(figures)
            if min(self.unchanged.values()) >= 2:
                return "until-stable"
        if self.steps and index >= self.steps:
            return "steps"
        return None


def _what_must_not_change(figures):
    return {
        device: (step["peak"]["allocated"], step["peak"]["reserved"], step["live"], step["segments"])
        for device, step in figures.items()
    }

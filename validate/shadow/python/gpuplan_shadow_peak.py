"""Reports what was alive at the highest peak, each time a higher one is seen."""

import time

import gpuplan_shadow_alive as alive
import gpuplan_shadow_marks as marks

# Where finding out has already taken this many seconds, and this part of the run, a slightly higher peak waits.
PATIENCE_SECONDS = 5.0
PATIENCE_SHARE = 0.2
SLIGHTLY = 1.01

# Below this part of PyTorch's own peak, the highest point in the record is another one than the peak.
NEARLY = 0.98

LOST = "what was alive at the peak of GPU %d: it lies before the oldest allocation that PyTorch's record still has"


class PeakReports:
    def __init__(self, torch, session, figures, history, places):
        self.torch = torch
        self.session = session
        self.figures = figures
        self.history = history
        self.places = places
        self.reported = {}  # device -> the allocated bytes of the last report
        self.allocations = {}  # device -> how many there had been when the step began
        self.marks = []  # of what was alive at the last report
        self.gradients = {}  # optimizer -> addresses of its gradients at its last step
        self.seconds = 0.0

    def look(self, device, when, optimizers):
        """Reports where this step's peak (since the last begin_step) is the run's highest. To be called after a look at
        the device's figures, and before the step's end."""
        peak = self.figures.devices[device].step["allocated"]
        last = self.reported.get(device, 0)
        if peak <= last or not self.history.on:
            return
        tired = self.seconds > PATIENCE_SECONDS
        tired = tired and self.seconds > PATIENCE_SHARE * (time.monotonic() - self.session.started)
        if tired and peak < last * SLIGHTLY:
            return
        began = time.monotonic()
        try:
            event = self._event(device, peak, when, optimizers)
        except Exception:
            self.history.give_up()  # once is enough: the next step would fail alike
            raise
        took = time.monotonic() - began
        self.seconds += took
        self.reported[device] = peak
        if event is not None:
            event["seconds"] = round(took, 6)
            self.session.write(event)

    def begin_step(self, optimizer, key):
        """A step has ended and the next begins; `optimizer` made the step."""
        if len(self.gradients) > 4096:  # optimizers that come and go
            self.gradients.clear()
        with self.torch._C.DisableTorchFunction():
            self.gradients[key] = marks.gradients(optimizer)
        if self.history.keep:
            for device in self.figures.devices:
                self.allocations[device] = self.figures.allocations(device)
        self.history.clear()

    def _event(self, device, peak, when, optimizers):
        snapshot = self.history.snapshot()
        if snapshot is None:
            return None
        entries = alive.entries_of(snapshot, device)
        full = self.history.full(entries)
        if self.history.keep:
            made = self.figures.allocations(device) - self.allocations.get(device, 0)
            entries = alive.last_entries(entries, made)
        now = alive.blocks_now(snapshot, device)
        del snapshot
        highest, position = alive.highest(entries, now)
        if full and highest < peak * NEARLY:
            self.session.unknown(LOST % device)
            return None
        blocks = alive.alive_at(entries, now, position)
        with self.torch._C.DisableTorchFunction():
            marks_now = marks.everything(optimizers)
        before = self.marks + [(at, "gradients") for found in self.gradients.values() for at in found]
        self.marks = marks_now
        built = self.places.built_by_module
        categories = alive.categories(blocks, marks_now, before, built)
        if peak > highest:
            categories["unused ends of blocks"] = peak - highest
        run = self.figures.devices[device].run
        return {
            "event": "peak",
            "device": device,
            "allocated": peak,
            "requested": run["requested"],
            "reserved": run["reserved"],
            "when": when,
            "categories": categories,
            "lines": alive.lines(blocks, self.places) if self.session.settings.python_lines else [],
        }

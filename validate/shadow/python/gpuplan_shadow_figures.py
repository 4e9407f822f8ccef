"""The allocator's figures: per optimizer step and for the whole run, whatever the script resets.

PyTorch keeps one peak for each figure. To have a step's own peak it is really reset after each step, and the script is
given what it would have read without that: the highest of what the peaks were when we reset them and what they are now.
A reset by the script is passed on, and forgets ours.
"""

KINDS = (("allocated", "allocated_bytes"), ("requested", "requested_bytes"), ("reserved", "reserved_bytes"))


def each_peak(stats, path=()):
    """(path, figure) of every figure with a peak in the nested dictionary of torch._C._cuda_memoryStats."""
    for key, value in stats.items():
        if isinstance(value, dict):
            if "peak" in value:
                yield path + (key,), value
            else:
                for found in each_peak(value, path + (key,)):
                    yield found


def read(stats, moment):
    """{"allocated", "requested", "reserved"} in bytes; `moment`: "peak" or "current"."""
    return {name: stats.get(key, {}).get("all", {}).get(moment, 0) for name, key in KINDS}


class _Device:
    def __init__(self):
        self.hidden = {}  # path -> the peak before our resets, since the script's last reset
        self.step = {}  # this step's peaks, where the script reset them within it
        self.run = {name: 0 for name, _ in KINDS}
        self.segments = 0  # the most there were
        # When the script reset the counters.
        self.before = {"num_alloc_retries": 0, "num_ooms": 0, "allocations": 0, "frees": 0}


class Figures:
    """`memory_stats(device)` and `reset_peak(device)` are PyTorch's own functions."""

    def __init__(self, memory_stats, reset_peak):
        self.memory_stats = memory_stats
        self.reset_peak = reset_peak
        self.devices = {}

    def look(self, device):
        """The allocator's figures now, noted for the step and the run."""
        stats = self.memory_stats(device)
        known = self.devices.setdefault(device, _Device())
        for name, value in read(stats, "peak").items():
            known.run[name] = max(known.run[name], value)
            known.step[name] = max(known.step.get(name, 0), value)
        known.segments = max(known.segments, stats.get("segment", {}).get("all", {}).get("peak", 0))
        return stats

    def end_step(self, device, stats):
        """The step's figures, of which `stats` is the last look; the next step begins."""
        known = self.devices[device]
        figures = {
            "peak": known.step,
            "live": read(stats, "current"),
            "segments": stats.get("segment", {}).get("all", {}).get("current", 0),
            "retries": _counted(stats, "num_alloc_retries") + known.before["num_alloc_retries"],
        }
        known.step = {}
        for path, figure in each_peak(stats):
            known.hidden[path] = max(figure["peak"], known.hidden.get(path, 0))
        self.reset_peak(device)
        return figures

    def whole_run(self, device):
        stats = self.look(device)
        known = self.devices[device]
        return {
            "peak": dict(known.run),
            "live": read(stats, "current"),
            "segments": known.segments,
            "retries": _counted(stats, "num_alloc_retries") + known.before["num_alloc_retries"],
            "ooms": _counted(stats, "num_ooms") + known.before["num_ooms"],
        }

    def allocations(self, device):
        """How many there have been."""
        known = self.devices.setdefault(device, _Device())
        return _counted(self.memory_stats(device), "allocations") + known.before["allocations"]

    def allocations_and_frees(self, device):
        """How many there have been of both."""
        before = self.devices.setdefault(device, _Device()).before
        stats = self.memory_stats(device)
        return sum(_counted(stats, name) + before[name] for name in ("allocations", "frees"))

    # --- what the script sees

    def as_the_script_sees(self, device, stats):
        """`stats` with the peaks that are there without our resets."""
        known = self.devices.get(device)
        if known is not None and known.hidden:
            for path, figure in each_peak(stats):
                figure["peak"] = max(figure["peak"], known.hidden.get(path, 0))
        return stats

    def script_resets_peak(self, device):
        """To be called before the script's own reset."""
        self.look(device)
        self.devices[device].hidden = {}

    def script_resets_counters(self, device):
        """To be called before the script's own reset of the accumulated figures."""
        stats = self.look(device)
        before = self.devices[device].before
        for name in before:
            before[name] += _counted(stats, name)


def _counted(stats, name):
    if name == "allocations":
        return stats.get("allocation", {}).get("all", {}).get("allocated", 0)
    if name == "frees":
        return stats.get("allocation", {}).get("all", {}).get("freed", 0)
    return stats.get(name, 0)

"""--learn: every allocation of the run and when it was freed, in order, with marks between them: the steps, the phases
within a step, and each torch.cuda.empty_cache(). What PyTorch's own record has becomes SESSION/allocations.PID.tsv:

  a SIZE STREAM NAME PLACE   an allocation of SIZE bytes; PLACE: the script's line. They count from 0.
  f NUMBER                   that allocation's block is in its pool again
  m STEP PHASE               what follows belongs there; step 0: before the first
  e                          torch.cuda.empty_cache()
  end RESERVED ALLOCATED REQUESTED RETRIES   PyTorch's peaks of the run, in bytes, and its count of emptied caches

A mark is known by how many allocations and frees came before it, which PyTorch counts.
"""

import functools
import os
import re

from gpuplan_shadow_alive import HOOK

# Functions that are called so in every module: their file's name says more.
EVERYWHERE = ("forward", "__init__", "<module>", "__call__", "step", "wrapper", "<lambda>")

SEVERAL = "--learn: memory of %d GPUs was used, and a trace is of one process on one GPU"
LOST = "--learn: %d allocations were made and %d are in PyTorch's record"
NO_RECORD = "--learn: there is no record of PyTorch's allocations (another allocator, or the script records its own)"


# In backward a module that is called is a checkpoint's, which computes again.
BEFORE_FORWARD = ("build", "start", "after backward")
MODULE = os.path.join("torch", "nn", "modules", "module.py")


def in_module(frames):
    """Whether a module is being called. A hook of every module's call would say so, too, but torch.compile follows hooks: it
    breaks its graph at each of ours, and another program is learned."""
    return any(f["name"].endswith("_call_impl") and f["filename"].endswith(MODULE) for f in frames)


class Learning:
    """The marks of one process, and what is written at its end. `figures`: PyTorch's statistics."""

    def __init__(self, session, figures, history, places):
        self.session = session
        self.figures = figures
        self.history = history
        self.places = places
        self.step = 0
        self.phase = "build"
        self.marks = []  # (allocations and frees so far, line)

    # --- marks

    def after_step(self, index):
        self.step = index + 1
        self.enter("start")

    def leave_backward(self):
        self.enter("after backward")

    def enter(self, phase):
        if phase != self.phase:
            self.step = max(self.step, 1)
            self.phase = phase
            self.mark("m\t%d\t%s" % (self.step, phase))

    def mark(self, line):
        self.marks.append((self.figures.allocations_and_frees(0), line))

    # --- the file

    def write(self, devices):
        """`devices`: the whole run's figures by device, of those that were used."""
        if not devices:
            return
        if list(devices) != ["0"]:
            self.session.problem(SEVERAL % len(devices), 4)
            return
        snapshot = self.history.snapshot()
        if snapshot is None:
            self.session.problem(NO_RECORD, 4)
            return
        lines, allocations = self._lines(snapshot["device_traces"][0])
        made = self.figures.allocations(0)
        if made != allocations:
            self.session.problem(LOST % (made, allocations), 4)
            return
        run = devices["0"]
        peak = run["peak"]
        lines.append("end\t%d\t%d\t%d\t%d" % (peak["reserved"], peak["allocated"], peak["requested"], run["retries"]))
        path = os.path.join(self.session.directory, "allocations.%d.tsv" % os.getpid())
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write("\n".join(lines) + "\n")

    def _lines(self, entries):
        lines, alive, streams = [], {}, {0: 0}
        allocations = counted = 0
        step, phase = 0, "build"
        marks = iter(self.marks)
        mark = next(marks, None)
        for entry in entries:
            action = entry["action"]
            if action in ("alloc", "free_requested"):
                while mark is not None and mark[0] <= counted:
                    lines.append(mark[1])
                    if mark[1].startswith("m"):
                        step, phase = int(mark[1].split("\t")[1]), mark[1].split("\t")[2]
                    mark = next(marks, None)
                counted += 1
            if action == "alloc":
                if phase in BEFORE_FORWARD and in_module(entry.get("frames") or []):
                    step, phase = max(step, 1), "forward"
                    lines.append("m\t%d\t%s" % (step, phase))
                stream = streams.setdefault(entry["stream"], len(streams))
                name, place = self._names(entry.get("frames") or [])
                lines.append("a\t%d\t%d\t%s\t%s" % (entry["size"], stream, name, place))
                alive[entry["addr"]] = allocations
                allocations += 1
            elif action == "free_completed" and entry["addr"] in alive:
                lines.append("f\t%d" % alive.pop(entry["addr"]))
        while mark is not None:
            lines.append(mark[1])
            mark = next(marks, None)
        return lines, allocations

    def _names(self, frames):
        """(a word for the tensor, the script's line); backward runs in threads without Python frames."""
        if not frames:
            return "backward", ""
        inner = next((frame for frame in frames if not frame["filename"].startswith(HOOK)), frames[0])
        name = inner["name"]
        if name in EVERYWHERE:
            name = os.path.splitext(os.path.basename(inner["filename"]))[0]
        file, line, function = self.places.line(frames)
        place = "%s:%d %s" % (os.path.basename(file), line, function)
        return re.sub(r"[^A-Za-z0-9_]", "_", name) or "_", re.sub(r"\s+", " ", place)


def watch(torch, learning, safe):
    """Marks of `learning()`, this process's Learning, where backward and the optimizer begin and where caches are emptied."""
    from torch.optim import optimizer

    optimizer.register_optimizer_step_pre_hook(safe(lambda *args: learning().enter("optimizer")))
    leave = safe(lambda: learning().leave_backward())
    for name in ("backward", "grad"):
        _around(torch.autograd, name, safe(lambda: learning().enter("backward")), leave)
    _around(torch._C, "_cuda_emptyCache", safe(lambda: learning().mark("e")), lambda: None)


def _around(owner, name, before, after):
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def watched(*args, **kwargs):
        before()
        try:
            return original(*args, **kwargs)
        finally:
            after()

    setattr(owner, name, watched)

"""PyTorch's record of allocations and frees, with the Python stack of each allocation, kept for one step at a time.

A script that records a history of its own has it to itself: ours is dropped before its first call, and lines and
categories are then unknown. A script that only looks (torch.cuda.memory._snapshot without recording) sees ours.
"""

import functools
import inspect
import sys

THEIRS = "what was alive at the peak: the script records PyTorch's memory history itself, so ours is off"

MOST_ENTRIES = 200000  # about 600 bytes each with a stack of 30 frames; a step of a large model has some 30,000
MOST_ENTRIES_LEARNED = 5000000  # of a few steps from the first allocation on, none of which may be lost


def snapshot(torch):
    """PyTorch's snapshot. It asks Inductor for the lines of the code that it has generated, and imports it where nobody
    has, which takes longer than a small script: there, Inductor is something that has none while it looks."""
    nothing = object()
    idle = "torch._inductor" not in sys.modules
    if idle:
        torch._inductor = nothing
    try:
        return torch.cuda.memory._snapshot()
    finally:
        if idle and vars(torch).get("_inductor") is nothing:
            del torch._inductor


class History:
    def __init__(self, torch, session):
        self.torch = torch
        self.session = session
        self.on = False
        # A snapshot shows the whole run, not its last step; so does what is learned.
        self.keep = bool(session.settings.snapshot) or session.settings.learn
        self.most = MOST_ENTRIES_LEARNED if session.settings.learn else MOST_ENTRIES
        self.ours = False  # a call that is being made is ours
        self.theirs = False  # the script has made one

    def begin(self):
        """Records from now on. CUDA must be initialised, or be just being initialised."""
        if self.theirs:
            self.session.unknown(THEIRS)
        else:
            self._record()
            self.on = True

    def clear(self):
        """Forgets what has been recorded; the blocks that are alive keep their stacks."""
        if self.on and not self.keep:
            self._record()

    def snapshot(self):
        """PyTorch's snapshot; None where nothing of ours is recorded."""
        return snapshot(self.torch) if self.on else None

    def full(self, entries):
        """Whether the record may have lost its beginning. An allocation and its free are three entries."""
        return len(entries) >= self.most * 3 // 5

    def _record(self):
        record = self.torch.cuda.memory._record_memory_history
        known = inspect.signature(record).parameters
        context = "alloc" if self.session.settings.python_lines else None
        wanted = {"context": context, "stacks": "python", "max_entries": self.most}
        self.ours = True
        try:
            if "clear_history" in known:
                record("all", clear_history=True, **wanted)
            else:  # before torch 2.7 (or where it takes anything): stopping clears
                record(None)
                record("all", **wanted)
        finally:
            self.ours = False

    def script_records(self):
        """To be called before PyTorch's own function, for every call to it."""
        if self.ours:
            return
        self.theirs = True
        if self.on:
            self.session.unknown(THEIRS)
            self.give_up()

    def give_up(self):
        """Stops recording, and forgets what has been recorded."""
        self.on = False
        self.ours = True
        try:
            self.torch.cuda.memory._record_memory_history(None)
        finally:
            self.ours = False


def watch_recording(torch, history, safe):
    """Calls script_records of `history()`, this process's History, before each start or end of a recording."""
    for name in ("_cuda_record_memory_history", "_cuda_record_memory_history_legacy"):
        original = getattr(torch._C, name, None)
        if original is not None:
            setattr(torch._C, name, _after(lambda: history().script_records(), original, safe))


def _after(first, original, safe):
    first = safe(first)

    @functools.wraps(original)
    def record(*args, **kwargs):
        first()
        return original(*args, **kwargs)

    return record

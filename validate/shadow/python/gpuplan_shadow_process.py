"""What a process knows of itself: its rank, the runtime's count of launches, how it ended, which torch it has."""

import functools
import os
import sys


def rank_and_world(settings):
    """torch.distributed's where it is initialised, else the launcher's environment."""
    if settings.peers == 2:
        return settings.rank, settings.world
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
    except Exception:
        pass  # a group that is being destroyed

    def number(name, default):
        value = os.environ.get(name, "")
        return int(value) if value.isdigit() else default

    return number("RANK", 0), number("WORLD_SIZE", 1)


class Launches:
    """The runtime's count of kernel launches in this process; 0 without the runtime."""

    def __init__(self):
        self.read = lambda: 0
        try:
            import ctypes

            function = ctypes.CDLL(None).gpuplan_shadow_launches
            function.restype = ctypes.c_int64
            function.argtypes = []
            self.read = function
        except (ImportError, OSError, AttributeError):
            pass
        self.last = self.read()

    def since_last(self):
        now = self.read()
        since, self.last = now - self.last, now
        return since


def before_leaving(names, call):
    """Runs `call` before each of these functions of os, which end this program without atexit."""

    def watched(leave):
        @functools.wraps(leave)
        def leave_after_call(*args, **kwargs):
            call()
            return leave(*args, **kwargs)

        return leave_after_call

    for name in names:
        original = getattr(os, name, None)
        if original is not None:
            setattr(os, name, watched(original))


def ended_by_exception():
    """The uncaught exception that ended the script (the interpreter leaves it in sys), or None."""
    error = getattr(sys, "last_exc", None)
    return error if error is not None else getattr(sys, "last_value", None)


# What PyTorch says where a flag is false that a kernel computes and the host reads: in torch.multinomial (before 2.6),
# torch.linalg.eig and torch.distributions.
_CHECKS = (
    "probability tensor contains either `inf`, `nan` or element < 0",
    "input tensor should not contain infs or NaNs",
    "to satisfy the constraint",
)


def check_of_values(error):
    """What is said of an error that may come of values which only a GPU computes; None for any other."""
    if any(text in str(error) for text in _CHECKS):
        return "the error that ended the script: it checks values that a kernel computes, which read as zero here"
    return None


def still_ends_by_interrupt():
    """Python ends itself by SIGINT after an uncaught KeyboardInterrupt, unless the last source text that it compiled
    and ran since did not raise one (_Py_UnhandledKeyboardInterrupt of pythonrun.c; namedtuple runs such text, and so
    does importing what the end of a script takes)."""
    try:
        exec("raise KeyboardInterrupt")
    except KeyboardInterrupt:
        pass


def size_text(size):
    """Bytes as PyTorch's out-of-memory error writes them (format_size of c10/cuda/CUDACachingAllocator.cpp)."""
    if size <= 1024:
        return "%d bytes" % size
    for unit, name in ((1 << 10, "KiB"), (1 << 20, "MiB")):
        if size <= unit << 10:
            return "%.2f %s" % (size / unit, name)
    return "%.2f GiB" % (size / (1 << 30))


def without_cuda(torch):
    """Why this torch cannot run on an NVIDIA GPU, with what to install instead; None where it can."""
    if getattr(torch.version, "cuda", None) is not None:
        return None
    release = str(torch.__version__).partition("+")[0].split(".")
    try:
        minor = int(release[1]) if int(release[0]) == 2 else 99
    except (ValueError, IndexError):
        minor = 99
    # The newest index that has wheels of that release (download.pytorch.org/whl).
    index = "cu121" if minor <= 3 else "cu124" if minor <= 6 else "cu128"
    what = "is built for ROCm" if getattr(torch.version, "hip", None) else "has no CUDA in it"
    return (
        "this Python's torch %s %s; install the CUDA build: "
        "pip install torch --index-url https://download.pytorch.org/whl/%s" % (torch.__version__, what, index)
    )

"""Allocations of one CUDA operator, in order, from PyTorch's memory history."""
import torch


def allocations(fn):
    """Runs fn twice and returns what the second run allocates and frees, as +bytes and -bytes in order, unrounded.

    What fn returns is dropped after the recording, so results that it keeps show no free.
    """
    fn()
    torch.cuda.synchronize()
    torch.cuda.memory._record_memory_history(context=None)
    kept = fn()
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    del kept
    sign = {"alloc": 1, "free_requested": -1}
    return [sign[e["action"]] * e["size"] for e in events if e["action"] in sign]


def text(events):
    return " ".join("%+d" % e for e in events) or "-"

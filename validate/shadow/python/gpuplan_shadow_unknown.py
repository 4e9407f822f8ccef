"""Operators whose result's size depends on values. Device memory holds zeros here, so they take the path for zeros.

Seen: the functions and methods below, called from Python on a CUDA tensor; each is reported with the first line that
calls it. Tensor.item() is reported where the script calls it, not where torch itself does.

Not seen from Python: indexing with a boolean mask (x[mask]), `if tensor:` and `if a > b:` (Tensor.__bool__), and what
C++ calls (TorchScript, autograd). Watching those would take a TorchDispatchMode or replaced slots of torch.Tensor, and
both change what the script does."""

import functools
import sys

SIZES = "its result's size depends on values, which are all zero here"
VALUES = "it reads a value, which is zero here, so a branch on it goes the way of zero"

FUNCTIONS = ("nonzero", "argwhere", "masked_select", "bincount", "_unique2")
METHODS = ("nonzero", "argwhere", "masked_select", "bincount", "item")


def watch(torch, session, places):
    """Replaces each by a function that reports its first call on a CUDA tensor and passes everything on."""
    for name in FUNCTIONS:
        shown = "torch.unique" if name == "_unique2" else "torch." + name
        _watch(torch, torch, name, shown, SIZES, session, places)
    for name in METHODS:
        what = VALUES if name == "item" else SIZES
        _watch(torch, torch.Tensor, name, "Tensor." + name, what, session, places)


def _watch(torch, owner, name, shown, what, session, places):
    original = getattr(owner, name, None)
    if original is None:
        return
    seen = []
    from_torch = places.torch

    @functools.wraps(original)
    def watched(*args, **kwargs):
        if not seen:
            try:
                caller = sys._getframe(1)
                own = name == "item" and caller.f_code.co_filename.startswith(from_torch)
                if not own and _on_a_gpu(torch, args, kwargs):
                    seen.append(True)
                    session.unknown("%s%s: %s" % (shown, _where(caller, places), what))
            except Exception:
                seen.append(True)
        return original(*args, **kwargs)

    setattr(owner, name, watched)
    table = getattr(torch.jit._builtins, "_builtin_table", None)  # how TorchScript knows its operators: by identity
    if owner is torch and table is not None and id(original) in table:
        table[id(watched)] = table[id(original)]


def _on_a_gpu(torch, args, kwargs):
    tensor = args[0] if args else kwargs.get("input")
    if not isinstance(tensor, torch.Tensor):
        return False
    with torch._C.DisableTorchFunction():  # the script's own modes do not see us ask
        return tensor.device.type == "cuda"


def _where(frame, places):
    while frame is not None and places.ours(frame.f_code.co_filename):
        frame = frame.f_back
    return "" if frame is None else " at %s:%d" % (frame.f_code.co_filename, frame.f_lineno)

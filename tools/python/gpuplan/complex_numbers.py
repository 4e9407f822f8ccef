"""Complex tensors: in a spec each is real and has the two parts of a number as its last dimension, which are the same bytes. Operators on
them are recorded; what is another view of the same numbers is written here."""
from __future__ import annotations

from typing import Any, Sequence, Tuple

import torch

from gpuplan.errors import Unsupported
from gpuplan.values import Call, Value
from gpuplan.writer import Writer

PART = {torch.complex64: torch.float32, torch.complex128: torch.float64}


def in_pairs(shape: Sequence[Any], dtype: torch.dtype) -> Tuple[Any, ...]:
    return (*shape, 2) if dtype.is_complex else tuple(shape)


def is_view_of_complex(call: Call) -> bool:
    return len(call.results) == 1 and bool(call.args) and isinstance(call.args[0], Value) and call.results[0].storage == call.args[0].storage


def is_product(call: Call) -> bool:
    """Of two complex tensors; one with a real one converts that."""
    return call.name in ("mul", "__mul__", "multiply") and len(call.args) == 2 and \
        all(isinstance(a, Value) and a.dtype.is_complex for a in call.args) and not call.kwargs


def is_scaled(call: Call) -> bool:
    """By a real number, which scales both parts."""
    return call.name in ("mul", "__mul__", "__rmul__", "multiply") and len(call.args) == 2 and type(call.args[1]) in (int, float) and not call.kwargs


def write_complex(w: Writer) -> None:
    """Raises Unsupported for what is recorded instead."""
    if is_view_of_complex(w.call):
        write_view_of_complex(w)
    elif is_product(w.call):
        w.emit("ComplexMul", [], w.tensors())
    elif is_scaled(w.call):
        w.emit("Mul", [("other", w.args[1])], [w.x])
    elif w.call.name == "polar" and not any(w.lowering.has_gradient(v) for v in w.tensors()):
        w.emit("Polar", [], w.tensors())
    else:
        raise Unsupported("of complex numbers")


def write_view_of_complex(w: Writer) -> None:
    """view_as_complex, view_as_real, x[:, None] and others."""
    from gpuplan.functions.arguments import inferred_shape

    result = w.results()[0]
    if result is w.x:
        return
    if not result.contiguous or not w.x.contiguous:
        raise Unsupported("of complex numbers that do not lie one after the other")
    w.emit("View", [("", n) for n in inferred_shape(in_pairs(result.shape, result.dtype))], [w.x], view=True)

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


def write_view_of_complex(w: Writer) -> None:
    """view_as_complex, view_as_real, x[:, None] and others."""
    from gpuplan.functions.arguments import inferred_shape

    result = w.results()[0]
    if result is w.x:
        return
    if not result.contiguous or not w.x.contiguous:
        raise Unsupported("of complex numbers that do not lie one after the other")
    w.emit("View", [("", n) for n in inferred_shape(in_pairs(result.shape, result.dtype))], [w.x], view=True)

"""What several functions are told: numbers, sizes, dimensions, types."""
from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import torch

from gpuplan.entries import FILLED
from gpuplan.errors import Unsupported
from gpuplan.writer import Writer
from gpuplan.values import Batch, Type, dtype_name


def number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def type_asked(w: Writer) -> List[Tuple[str, Any]]:
    """The type that the code names for a call, which takes precedence over --precision and autocast; one of integers follows neither."""
    dtype = w.call.dtype_given()
    named = dtype is not None and (w.call.to == Type() or not dtype.is_floating_point)
    return [("dtype", dtype_name(dtype))] if named else []


def inferred_shape(shape: Sequence[Any]) -> List[int]:
    """Sizes with -1 for the one that depends on the batch."""
    if sum(isinstance(n, Batch) for n in shape) > 1:
        raise Unsupported("two sizes depend on the batch")
    return [-1 if isinstance(n, Batch) else n for n in shape]


def is_view(w: Writer) -> bool:
    return w.results()[0].storage == w.x.storage


def integers_of(w: Writer, name: str) -> List[int]:
    first = w.argument(1, name)
    listed = isinstance(first, (tuple, list)) and not isinstance(first, Batch)
    return list(first) if listed else list(w.args[1:])


def made_of_sizes(w: Writer, op: str, arguments: Sequence[Tuple[str, Any]]) -> None:
    """A tensor that the call makes of its arguments alone; one with a multiple of the batch is a view of the batch and the multiple."""
    out = w.results()[0]
    default = torch.int64 if op == "Arange" else torch.float32
    like = w.call.to.like if w.call.to and op in FILLED and out.dtype == default else None
    made = w.inner(apart(out.shape), out) if apart(out.shape) != list(out.shape) else out
    w.emit(op, list(arguments) + ([] if out.dtype == default else [("dtype", dtype_name(out.dtype))]), [] if like is None else [like], [made])
    if made is not out:
        w.emit("View", [("", n) for n in inferred_shape(out.shape)], [made], view=True)


def apart(shape: Sequence[Any]) -> List[Any]:
    """Sizes, of which those that are a multiple of the batch are two: 6 for each sample are the batch and 6."""
    sizes: List[Any] = []
    for n in shape:
        sizes += [Batch(1), n.times] if isinstance(n, Batch) and n.times != 1 else [n]
    return sizes


def sizes_of_result(w: Writer) -> List[Tuple[str, Any]]:
    return [("", "_" if isinstance(n, Batch) else n) for n in apart(w.results()[0].shape)]


def refuse_gradient(w: Writer) -> None:
    if w.lowering.run.grad and w.lowering.has_gradient(w.x):
        raise Unsupported("of a tensor that wants a gradient")

"""Tensors joined, repeated and moved."""
from __future__ import annotations

import torch

from gpuplan.errors import Unsupported
from gpuplan.functions.arguments import inferred_shape, integers_of
from gpuplan.lowering import is_empty
from gpuplan.writer import Writer, handles
from gpuplan.values import Batch, flat_values


@handles("cat", "concat", "concatenate")
def write_cat(w: Writer) -> None:
    w.emit("Cat", [("dim", w.argument(1, "dim", 0))], [v for v in flat_values(w.argument(0, "tensors")) if not is_empty(v)])


@handles("stack")
def write_stack(w: Writer) -> None:
    w.emit("Stack", [("dim", w.argument(1, "dim", 0))], flat_values(w.argument(0, "tensors")))


@handles("cat_samples", "concat_samples", "stack_samples")
def write_joined_samples(w: Writer) -> None:
    w.emit("JoinSamples", [("stacked", True)] if w.call.name == "stack_samples" else [], [w.x])


@handles("diff")
def write_diff(w: Writer) -> None:
    """x[1:] - x[:-1], of x behind what is put before it (aten/src/ATen/native/ReduceOps.cpp, diff_helper)."""
    times, dim, before = w.argument(1, "n", 1), w.argument(2, "dim", -1) % len(w.x.shape), w.argument(3, "prepend")
    if times != 1 or w.argument(4, "append") is not None or not isinstance(w.x.shape[dim], int) or w.x.dtype == torch.bool:
        raise Unsupported("of these arguments")
    whole, most = w.x, w.x.shape[dim]
    if before is not None:
        most += before.shape[dim]
        whole = w.inner([most if d == dim else n for d, n in enumerate(w.x.shape)])
        w.emit("Cat", [("dim", dim)], [before, w.x], [whole])
    later, earlier = (w.inner(w.results()[0].shape, whole) for _ in range(2))
    w.emit("Slice", [("", dim), ("", 1), ("", most)], [whole], [later], view=True)
    w.emit("Slice", [("", dim), ("", 0), ("", most - 1)], [whole], [earlier], view=True)
    w.emit("Sub", [], [later, earlier])


@handles("repeat", "tile")
def write_repeat(w: Writer) -> None:
    times = integers_of(w, "dims" if w.call.name == "tile" else "repeats")
    times = [1] * (len(w.x.shape) - len(times)) + times
    if any(isinstance(n, Batch) and n.times != 1 for n in times):
        raise Unsupported("a multiple of the batch")
    w.emit("Repeat", [("", "_" if isinstance(n, Batch) else n) for n in times], [w.x])


@handles("repeat_interleave")
def write_repeat_interleave(w: Writer) -> None:
    """Every element so often: an expanded view, copied even where that is once (aten/src/ATen/native/Repeat.cpp)."""
    times, dim = w.argument(1, "repeats"), w.argument(2, "dim")
    if not isinstance(times, int) or dim is None:
        raise Unsupported("of a tensor of numbers, or of all dimensions")
    shape = list(w.x.shape)
    dim %= len(shape)
    wide = shape[:dim + 1] + [times] + shape[dim + 1:]
    one, many, copy_ = (w.inner(n) for n in (shape[:dim + 1] + [1] + shape[dim + 1:], wide, wide))
    w.emit("Unsqueeze", [("", dim + 1)], [w.x], [one], view=True)
    w.emit("Expand", [("", times if i == dim + 1 else -1) for i in range(len(wide))], [one], [many], view=True)
    w.emit("Contiguous" if times != 1 else "Clone", [], [many], [copy_])
    w.emit("View", [("", n) for n in inferred_shape(w.results()[0].shape)], [copy_], view=True)


@handles("flip")
def write_flip(w: Writer) -> None:
    w.emit("Flip", [("", integers_of(w, "dims"))], [w.x])


@handles("roll")
def write_roll(w: Writer) -> None:
    shifts, dims = w.argument(1, "shifts"), w.argument(2, "dims")
    listed = [list(v) if isinstance(v, (tuple, list)) else [v] for v in (shifts, dims)]
    w.emit("Roll", [("shifts", listed[0]), ("dims", listed[1])], [w.x])


@handles("meshgrid")
def write_meshgrid(w: Writer) -> None:
    """Each tensor of one dimension as a view, expanded to the grid (aten/src/ATen/native/TensorShape.cpp, meshgrid)."""
    given = flat_values(w.args)
    swapped = w.kwargs.get("indexing") == "xy" and len(given) > 1
    order = [1, 0] + list(range(2, len(given))) if swapped else list(range(len(given)))
    sizes = [given[i].shape[0] if given[i].shape else 1 for i in order]
    for k, x in enumerate(given):
        shape = [1] * len(given)
        shape[order.index(k)] = sizes[order.index(k)]
        line = w.inner(shape, x)
        w.emit("View", [("", n) for n in inferred_shape(shape)], [x], [line], view=True)
        w.emit("Expand", [("", n) for n in sizes], [line], [w.results()[k]], view=True)

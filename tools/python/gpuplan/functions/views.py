"""Views: functions that give the same elements another shape."""
from __future__ import annotations

import torch

from gpuplan.errors import Unsupported
from gpuplan.functions.arguments import apart, inferred_shape, integers_of, is_view
from gpuplan.writer import Writer, handles
from gpuplan.values import Batch


@handles("view", "view_as", "unflatten_view")
def write_view(w: Writer) -> None:
    if isinstance(w.argument(1, "dtype"), torch.dtype):
        raise Unsupported("as another type")
    w.emit("View", [("", n) for n in inferred_shape(w.results()[0].shape)], [w.x], view=True)


@handles("reshape", "reshape_as", "ravel")
def write_reshape(w: Writer) -> None:
    if w.results() == [w.x]:
        return
    w.emit("Reshape", [("", n) for n in inferred_shape(w.results()[0].shape)], [w.x], view=is_view(w))


@handles("flatten")
def write_flatten(w: Writer) -> None:
    if w.results() == [w.x]:
        return
    start, end = w.argument(1, "start_dim", 0), w.argument(2, "end_dim", -1)
    w.emit("Flatten", [("", start), ("", end)] if (start, end) != (1, -1) else [], [w.x], view=is_view(w))


@handles("unflatten")
def write_unflatten(w: Writer) -> None:
    write_view(w)


@handles("permute")
def write_permute(w: Writer) -> None:
    w.emit("Permute", [("", d) for d in integers_of(w, "dims")], [w.x], view=True)


@handles("transpose", "swapaxes", "swapdims")
def write_transpose(w: Writer) -> None:
    w.emit("Transpose", [("", w.argument(1, "dim0")), ("", w.argument(2, "dim1"))], [w.x], view=True)


@handles("t", "T", "mT")
def write_t(w: Writer) -> None:
    rank = len(w.x.shape)
    if rank < 2 or (rank > 2 and w.call.name != "mT"):
        raise Unsupported("of these dimensions")
    w.emit("Transpose", [("", -2), ("", -1)], [w.x], view=True)


@handles("movedim", "moveaxis")
def write_movedim(w: Writer) -> None:
    rank = len(w.x.shape)
    source, target = w.argument(1, "source"), w.argument(2, "destination")
    sources = [d % rank for d in (source if isinstance(source, (tuple, list)) else [source])]
    targets = [d % rank for d in (target if isinstance(target, (tuple, list)) else [target])]
    order = [-1] * rank
    for s, t in zip(sources, targets):
        order[t] = s
    rest = iter(d for d in range(rank) if d not in sources)
    w.emit("Permute", [("", d if d >= 0 else next(rest)) for d in order], [w.x], view=True)


@handles("unsqueeze")
def write_unsqueeze(w: Writer) -> None:
    w.emit("Unsqueeze", [("", w.argument(1, "dim"))], [w.x], view=True)


@handles("squeeze")
def write_squeeze(w: Writer) -> None:
    dims = w.argument(1, "dim")
    if dims is None:
        dims = [i for i, n in enumerate(w.x.shape) if n == 1]
    dims = sorted((d % len(w.x.shape) for d in (dims if isinstance(dims, (tuple, list)) else [dims])), reverse=True)
    shape, x = list(w.x.shape), w.x
    for i, d in enumerate(dims):
        if shape[d] == 1:
            del shape[d]
        y = w.results()[0] if i == len(dims) - 1 else w.inner(shape)
        w.emit("Squeeze", [("", d)], [x], [y], view=True)
        x = y


@handles("contiguous")
def write_contiguous(w: Writer) -> None:
    w.emit("Contiguous", [], [w.x], view=is_view(w))


@handles("expand", "expand_as", "broadcast_to")
def write_expand(w: Writer) -> None:
    out = w.results()[0].shape
    padded = (None,) * (len(out) - len(w.x.shape)) + tuple(w.x.shape)
    sizes = ["_" if isinstance(n, Batch) and n != have else -1 if n == have else n for n, have in zip(out, padded)]
    several = [d for d, (n, have) in enumerate(zip(out, padded)) if isinstance(n, Batch) and n.times != 1 and n != have]
    if not several:
        w.emit("Expand", [("", n) for n in sizes], [w.x], view=True)
        return
    if several != [0]:
        raise Unsupported("a multiple of the batch")
    apart_ = [*apart(out[:1]), *out[1:]]  # the batch and the rows of a sample, which are one dimension of the view that it returns
    x, wide = w.x, w.inner(apart_)
    if padded[0] is not None:
        x = w.inner((1, *w.x.shape))
        w.emit("Unsqueeze", [("", 0)], [w.x], [x], view=True)
    w.emit("Expand", [("", n) for n in ["_", apart_[1], *sizes[1:]]], [x], [wide], view=True)
    w.emit("View", [("", n) for n in inferred_shape(out)], [wide], view=True)


@handles("chunk")
def write_chunk(w: Writer) -> None:
    w.emit("Chunk", [("", w.argument(1, "chunks")), ("dim", w.argument(2, "dim", 0))], [w.x], view=True)


@handles("split", "split_with_sizes")
def write_split(w: Writer) -> None:
    sizes = w.argument(1, "split_size", w.kwargs.get("split_size_or_sections", w.kwargs.get("split_sizes")))
    w.emit("Split", [("", list(sizes) if isinstance(sizes, tuple) else sizes), ("dim", w.argument(2, "dim", 0))], [w.x],
           view=True)


@handles("unbind")
def write_unbind(w: Writer) -> None:
    w.emit("Unbind", [("", w.argument(1, "dim", 0))], [w.x], view=True)


@handles("select")
def write_select(w: Writer) -> None:
    w.emit("Select", [("", w.argument(1, "dim")), ("", w.argument(2, "index"))], [w.x], view=True)


@handles("narrow")
def write_narrow(w: Writer) -> None:
    start, length = w.argument(2, "start"), w.argument(3, "length")
    w.emit("Slice", [("", w.argument(1, "dim")), ("", start), ("", start + length)], [w.x], view=True)


@handles("requires_grad_")
def write_requires_grad(w: Writer) -> None:
    if not w.lowering.has_gradient(w.x):
        w.emit("RequiresGrad", [], [w.x], [w.x], view=True)
        w.lowering.differentiated.add(w.x)


@handles("detach", "data")
def write_detach(w: Writer) -> None:
    w.emit("Detach", [], [w.x], view=True)

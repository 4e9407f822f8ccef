"""Parts of a tensor: x[a:b, ..., index], and what is written into them."""
from __future__ import annotations

from typing import Any, List, Optional, Tuple

import torch

from gpuplan.entries import Body, add_return
from gpuplan.errors import Unsupported
from gpuplan.functions.arguments import number
from gpuplan.layers import class_path
from gpuplan.writer import Writer, handles
from gpuplan.values import Batch, Value


@handles("__getitem__")
def write_getitem(w: Writer) -> None:
    """x[a:b, ..., None, 3]: one view after the other, as torch does it; then what tensors index."""
    index = w.argument(1, "index")
    parts = list(index) if isinstance(index, tuple) else [index]
    tensors = [p for p in parts if by_tensor(p)]
    steps = index_steps(parts, list(w.x.shape))
    if not steps and parts == [slice(None), slice(0, None), slice(None)] and class_path(w.body.frame.module).startswith("transformers."):
        return w.emit("SliceLogits", [], [w.x], view=True) and None
    x = write_steps(w, w.x, steps, None if tensors else w.results()[0])
    if tensors:
        return write_index(w, x, parts)
    if not steps:
        w.emit("Identity", [], [x], view=True)
    w.lowering.parts[w.results()[0]] = (w.x, parts) if w.x not in w.lowering.parts else None


def by_tensor(part: Any) -> bool:
    return isinstance(part, (Value, list)) or type(part).__name__ == "ndarray"


def write_steps(w: Writer, x: Value, steps: List[Tuple[str, List[Any], List[Any]]], last: Optional[Value]) -> Value:
    for i, (op, arguments, shape) in enumerate(steps):
        y = last if last is not None and i == len(steps) - 1 else w.inner(shape, x)
        w.emit(op, [("", a) for a in arguments], [x], [y], view=True)
        x = y
    return x


def index_steps(parts: List[Any], shape: List[Any]) -> List[Tuple[str, List[Any], List[Any]]]:
    indexed = sum(p is not None and p is not Ellipsis for p in parts)
    steps: List[Tuple[str, List[Any], List[Any]]] = []
    dim = 0
    for part in parts:
        if part is Ellipsis:
            dim += len(shape) - dim - sum(p is not None and p is not Ellipsis for p in parts[parts.index(Ellipsis) + 1:]) \
                if parts.count(Ellipsis) else 0
        elif part is None:
            shape = shape[:dim] + [1] + shape[dim:]
            steps.append(("Unsqueeze", [dim], shape))
            dim += 1
        elif by_tensor(part):
            dim += 1
        elif isinstance(part, bool):
            raise Unsupported("indexed by a boolean")
        elif isinstance(part, int):
            shape = shape[:dim] + shape[dim + 1:]
            steps.append(("Select", [dim, part], shape))
        elif isinstance(part, slice):
            shape, step = slice_step(part, shape, dim)
            steps += step
            dim += 1
        else:
            raise Unsupported("indexed by this")
    assert indexed <= len(parts)
    return steps


def slice_step(part: slice, shape: List[Any], dim: int) -> Tuple[List[Any], List[Tuple[str, List[Any], List[Any]]]]:
    size = shape[dim]
    if isinstance(size, Batch):
        if part == slice(None):
            return shape, []
        raise Unsupported("a part of the batch")
    if isinstance(part.start, Batch) or isinstance(part.stop, Batch):
        raise Unsupported("a part whose size depends on the batch")
    start, stop, step = part.indices(size)
    if (start, stop, step) == (0, size, 1):
        return shape, []
    left = len(range(start, stop, step))
    shape = shape[:dim] + [left] + shape[dim + 1:]
    if left == 0:
        return shape, [("Slice", [dim, 0, 0], shape)]
    arguments = [dim, start] + ([stop] if stop < size or step != 1 else []) + ([step] if step != 1 else [])
    return shape, [("Slice", arguments, shape)]


def write_index(w: Writer, x: Value, parts: List[Any]) -> None:
    """x[:, i, j]: neighbouring dimensions by int64 indices; a list's come from the host each time."""
    dims, indices, dim = [], [], 0
    for part in parts:
        if part is Ellipsis:
            dim = len(x.shape) - sum(p is not None and p is not Ellipsis and not isinstance(p, int)
                                     for p in parts[parts.index(Ellipsis) + 1:])
        elif by_tensor(part):
            dims.append(dim)
            indices.append(part)
            dim += 1
        elif part is None or isinstance(part, slice):
            dim += 1
    if dims != list(range(dims[0], dims[0] + len(dims))):
        raise Unsupported("indexed by tensors that are apart")
    given = []
    host = all(isinstance(i, Value) and i.host for i in indices)  # autograd saves these themselves; a list is copied before
    for index in indices:
        if not isinstance(index, Value) or index.host:
            index = host_index(w, index)
        if index.dtype != torch.int64:
            raise Unsupported("indexed by tensors that are not int64")
        given.append(index)
    w.emit("Index", ([("dim", dims[0])] if dims[0] else []) + ([("host", True)] if host else []), [x] + given)


def host_index(w: Writer, listed: Any) -> Value:
    """A Python list, or numpy's array, as an index."""
    sizes = listed.shape if isinstance(listed, Value) else torch.as_tensor(listed).shape
    value = w.inner(tuple(sizes), w.results()[0])
    value.dtype, value.storage = torch.int64, -id(value)  # which nothing of Python's names
    w.emit("FromHost", [("", n) for n in sizes] + [("dtype", "int64")], [], [value])
    return value


@handles("__setitem__")
def write_setitem(w: Writer) -> None:
    """x[a:b, c:d] = number or tensor."""
    index, value = w.argument(1, "key"), w.argument(2, "value")
    set_part(w, w.x, list(index) if isinstance(index, tuple) else [index], value, "copy")


def set_part(w: Writer, x: Value, parts: List[Any], value: Any, change: str) -> None:
    """Writes into a part of x, which is another tensor to autograd then."""
    if w.lowering.parts.get(x, x) is not x and x.dtype.is_floating_point:
        raise Unsupported("into a part of a part")
    if any(by_tensor(p) for p in parts):
        return put_at(w, x, parts, value, change)
    box: List[int] = []
    dim = 0
    for i, part in enumerate(parts):
        size = None if part is None or part is Ellipsis else x.shape[dim]
        if part is Ellipsis:
            dim = len(x.shape) - sum(p is not None for p in parts[i + 1:])
        elif isinstance(part, int) and not isinstance(part, bool):
            box += [dim, part % size, part % size + 1]
            dim += 1
        elif isinstance(part, slice) and part != slice(None):
            if isinstance(size, Batch) or part.step not in (None, 1):
                raise Unsupported("every so manyth position, or a part of the batch")
            start, stop, _ = part.indices(size)
            box += [dim, start, stop] if (start, stop) != (0, size) else []
            dim += 1
        elif isinstance(part, slice):
            dim += 1
        else:
            raise Unsupported("by this index")
    if not box:
        box = [len(x.shape) - 1, 0, x.shape[-1]]
    arguments: List[Tuple[str, Any]] = [("part", box)]
    if change != "copy":
        arguments.append(("change", change))
    if number(value):
        w.emit("SetPart", arguments + [("value", value)], [x], [x])
    elif isinstance(value, Value):
        w.emit("SetPart", arguments, [x, value], [x])
    else:
        raise Unsupported("of this")


def put_at(w: Writer, x: Value, parts: List[Any], value: Any, change: str) -> None:
    """x[index] = values, without a gradient."""
    given = [x, *parts, value]
    if change != "copy" or len(parts) != 1 or not all(isinstance(v, Value) and not v.host for v in given) or parts[0].dtype != torch.int64 \
            or any(v.dtype.is_floating_point for v in (x, value)) or value.dtype != x.dtype:
        raise Unsupported("by a tensor")
    w.emit("IndexPut", [], given, [x])


@handles("scatter_")
def write_scatter(w: Writer) -> None:
    """Of a number: x.scatter_(1, index, 1)."""
    index, value = w.argument(2, "index"), w.argument(3, "value", w.kwargs.get("src"))
    if w.kwargs.get("reduce") is not None or (w.lowering.run.grad and w.lowering.has_gradient(w.x)):
        raise Unsupported("into a tensor that wants a gradient")
    if number(value):
        w.emit("Scatter", [("", w.argument(1, "dim")), ("value", value)], [w.x, index], [w.x])
    elif isinstance(value, Value) and value.shape == index.shape and value.dtype == w.x.dtype:
        w.emit("Scatter", [("", w.argument(1, "dim"))], [w.x, index, value], [w.x])
    else:
        raise Unsupported("of a tensor")


def changes_part(w: Writer, value: Any, change: str) -> bool:
    """An in-place call on a view, which changes what it is a view of; the view has a new history then."""
    known = w.lowering.parts.get(w.x, ())
    if known == () or not w.x.dtype.is_floating_point:
        return False
    if known is None:
        raise Unsupported("in place, of a part of a part")
    base, parts = known
    if base not in w.body.defined and base not in w.body.inputs and not hand_on(w.body, base):
        raise Unsupported("in place, of a part of what another function made")
    set_part(w, base, parts, value, change)
    steps = index_steps(parts, list(base.shape))
    write_steps(w, base, steps, w.x)
    if not steps:
        w.emit("Identity", [], [base], [w.x], view=True)
    return True


def hand_on(body: Body, value: Value) -> bool:
    """Has the block that made a tensor, and returned a view of it (`return out[:, :channels]`), return it too."""
    entry = next((e for e in reversed(body.entries) if e.body is not None and
                  (value in e.body.defined or hand_on(e.body, value))), None)
    if entry is None or entry.body is None:
        return False
    last = entry.body.entries[-1]
    entry.outputs = entry.outputs + [value]
    if last.returns:
        last.op, last.inputs, last.outputs = "Return", last.inputs + [value], last.outputs + [value]
        entry.body.defined.setdefault(value, []).append((last, len(last.outputs) - 1))
    else:
        add_return(entry.body, "Return", list(entry.outputs), list(entry.outputs))
    body.defined.setdefault(value, []).append((entry, len(entry.outputs) - 1))
    return True


@handles("copy_")
def write_copy(w: Writer) -> None:
    if not changes_part(w, w.argument(1, "src"), "copy"):
        raise Unsupported("no layer supports this")


@handles("zero_", "fill_")
def write_fill(w: Writer) -> None:
    value = 0 if w.call.name == "zero_" else w.argument(1, "value")
    if not number(value):
        raise Unsupported("by a tensor")
    if not changes_part(w, value, "copy"):
        w.emit("Fill", [("", value)], [w.x])


@handles("gather")
def write_gather(w: Writer) -> None:
    w.emit("Gather", [("", w.argument(1, "dim"))], [w.x, w.argument(2, "index")])


@handles("index_select")
def write_index_select(w: Writer) -> None:
    w.emit("IndexSelect", [("", w.argument(1, "dim"))], [w.x, w.argument(2, "index")])

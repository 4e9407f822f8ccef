"""Tensors that a call makes: of sizes and numbers, copies, and conversions to another type or device."""
from __future__ import annotations

import torch

from gpuplan.errors import Unsupported
from gpuplan.functions.arguments import made_of_sizes, number, refuse_gradient, sizes_of_result
from gpuplan.writer import Writer, handles
from gpuplan.values import Batch, Call, Type, dtype_name


@handles("tensor", "as_tensor")
def write_from_host(w: Writer) -> None:
    made_of_sizes(w, "FromHost", sizes_of_result(w) or [("shape", [])])


@handles("one_hot")
def write_one_hot(w: Writer) -> None:
    classes = w.argument(1, "num_classes", -1)
    if classes == -1:
        raise Unsupported("of as many classes as its values have")
    w.emit("OneHot", [("", classes)], [w.x])


@handles("clone")
def write_clone(w: Writer) -> None:
    w.emit("Clone", [], [w.x])


def convert_back(w: Writer) -> None:
    """A conversion that does nothing here, to a type of which the code does not say whose it is: that of what the frame was
    given, where something in it was widened."""
    before = [s for s in w.body.frame.steps if isinstance(s, Call) and s.event < w.call.event]
    widened = any(s.to == Type() for s in before)
    others = [v for v in w.tensors()[1:] + w.body.frame.inputs if v is not w.x and v.dtype.is_floating_point]
    if widened and others and w.x.weight is None and w.x.dtype.is_floating_point:
        w.emit("TypeAs", [], [w.x, others[0]])


@handles("to", "cuda", "float", "half", "bfloat16", "double", "type_as", "type", "long", "int", "bool")
def write_to(w: Writer) -> None:
    out, to = w.results()[0], w.call.to
    if w.x.host:
        return made_of_sizes(w, "FromHost", sizes_of_result(w))
    if out is w.x:
        return convert_back(w)
    if to is not None and to.like is not None and to.like.weight is not None:
        w.emit("ToParameterType" if w.x.dtype.is_floating_point else "To", [] if w.x.dtype.is_floating_point else
               [("dtype", dtype_name(out.dtype))], [w.x])
    elif to is not None and to.like is not None and to.like.dtype.is_floating_point:
        w.emit("TypeAs", [], [w.x, to.like])
    elif to is None and out.dtype == w.x.dtype and out.storage != w.x.storage:
        w.emit("Clone", [], [w.x])
    else:
        w.emit("To", [("dtype", dtype_name(out.dtype))], [w.x])


@handles("zeros", "new_zeros", "zeros_like", "empty", "new_empty", "empty_like", "rand", "randn", "rand_like", "randn_like")
def write_zeros(w: Writer) -> None:
    """Random numbers too: what is drawn decides nothing of a plan."""
    sizes = w.results()[0].shape
    if w.body.frame.kind == "T5Attention" and len(sizes) == 4 and w.call.name == "zeros":
        # of the queries' type, which is autocast's where there is one
        return w.emit("ZeroPositionBias", [("", n) for n in sizes[1:]], []) and None
    made_of_sizes(w, "Zeros", sizes_of_result(w))


@handles("uniform_", "normal_", "random_", "bernoulli_", "exponential_", "log_normal_")
def write_drawn(w: Writer) -> None:
    """In place there is nothing to plan of what is drawn."""
    refuse_gradient(w)
    w.emit("Identity", [], [w.x], view=True)


@handles("ones", "new_ones", "ones_like", "full", "new_full", "full_like")
def write_full(w: Writer) -> None:
    value = w.argument(1, "fill_value", 1) if "full" in w.call.name and w.call.name != "new_full" else \
        w.argument(2, "fill_value", 1) if w.call.name == "new_full" else 1
    if not isinstance(value, (bool, int, float)):
        raise Unsupported("of a tensor")
    made_of_sizes(w, "Full", (sizes_of_result(w) or [("shape", [])]) + [("value", float(value) if isinstance(value, float) else int(value))])


@handles("arange", "range")
def write_arange(w: Writer) -> None:
    given = [a for a in w.args if number(a) or isinstance(a, Batch)]
    start, end, step = w.kwargs.get("start", 0), w.kwargs.get("end"), w.kwargs.get("step", 1)
    if len(given) == 1:
        end = given[0]
    elif given:
        start, end, step = given[0], given[1], given[2] if len(given) > 2 else step
    if isinstance(end, Batch) and (start, step) == (0, 1):
        return made_of_sizes(w, "Zeros", sizes_of_result(w))  # rows of the batch, of which Arange() has no number
    if any(isinstance(a, Batch) or not number(a) for a in (start, end, step)):
        raise Unsupported("of the batch")
    made_of_sizes(w, "Arange", [("", end)] + ([("start", start)] if start else []) + ([("step", step)] if step != 1 else []))


@handles("linspace")
def write_linspace(w: Writer) -> None:
    start, end = w.argument(0, "start"), w.argument(1, "end")
    made_of_sizes(w, "Linspace", [("", start), ("", end), ("", w.results()[0].shape[0])])


@handles("eye")
def write_eye(w: Writer) -> None:
    made_of_sizes(w, "Eye", [("", n) for n in w.results()[0].shape])

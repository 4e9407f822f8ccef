"""What is computed element by element: sums, products, powers, comparisons, activations, dropout, softmax."""
from __future__ import annotations

from typing import Callable

import torch

from gpuplan.errors import Unsupported
from gpuplan.functions.arguments import number, refuse_gradient, type_asked
from gpuplan.functions.indexing import changes_part
from gpuplan.writer import Writer, handles
from gpuplan.values import Value, dtype_name


def binary(op: str) -> Callable[[Writer], None]:
    def write(w: Writer) -> None:
        other = w.argument(1, "other")
        if isinstance(other, Value) and other.host:  # without dimensions: as a number
            other = 1.0
        in_place = w.call.name.endswith("_") and not w.call.name.endswith("__") or w.call.name.startswith("__i")
        if w.kwargs.get("rounding_mode") is not None:
            return write_floor_divide(w)
        if in_place and op in ("Add", "Sub") and isinstance(w.x, Value) and changes_part(w, other, op.lower()):
            return
        flags = [("inplace", True)] if in_place else []
        if op == "Add" and w.lowering.absent_masks & {w.x, other}:
            scores = other if w.x in w.lowering.absent_masks else w.x  # `if attention_mask is not None`: on a GPU there is none
            w.emit("Identity", [], [scores], view=True)
        elif isinstance(w.x, Value) and isinstance(other, Value):
            w.emit(op, flags, [w.x, other])
        elif isinstance(w.x, Value) and number(other):
            w.emit(op, [("other", other)] + flags, [w.x])
        elif isinstance(other, Value) and number(w.x) and op in ("Add", "Mul"):
            w.emit(op, [("other", w.x)] + flags, [other])
        else:
            raise Unsupported("of these operands")
    return write


for _op, _names in {"Add": "add add_ __add__ __radd__ __iadd__", "Sub": "sub sub_ subtract __sub__ __isub__",
                    "Mul": "mul mul_ multiply __mul__ __rmul__ __imul__",
                    "Div": "div div_ divide true_divide __truediv__ __div__ __itruediv__"}.items():
    handles(*_names.split())(binary(_op))


@handles("rsub", "__rsub__")
def write_rsub(w: Writer) -> None:
    w.emit("RSub", [("other", w.argument(1, "other"))], [w.x])


@handles("__rdiv__", "__rtruediv__")
def write_rdiv(w: Writer) -> None:
    middle = w.inner(w.results()[0].shape)
    w.emit("Reciprocal", [], [w.x], [middle])
    w.emit("Mul", [("other", w.argument(1, "other"))], [middle])


@handles("pow", "__pow__", "square")
def write_pow(w: Writer) -> None:
    exponent = 2 if w.call.name == "square" else w.argument(1, "exponent")
    if not number(exponent):
        if not isinstance(w.x, Value):
            raise Unsupported("of a number, to the power of a tensor")
        if any(w.lowering.has_gradient(v) for v in (w.x, exponent)):
            raise Unsupported("an exponent that is a tensor")
        return w.emit("Pow", [], [w.x, exponent]) and None
    if exponent in (0, 1):
        raise Unsupported(f"to the power of {exponent}: leave it out")
    w.emit("Pow", [("exponent", exponent)], [w.x])


@handles("triu", "tril")
def write_triangle(w: Writer) -> None:
    diagonal = w.argument(1, "diagonal", 0)
    w.emit("Triu" if w.call.name == "triu" else "Tril", [("diagonal", diagonal)] if diagonal else [], [w.x])


def unary(op: str, in_place: bool = False) -> Callable[[Writer], None]:
    def write(w: Writer) -> None:
        changes = w.call.name.endswith("_") or bool(w.kwargs.get("inplace", False)) or \
            (in_place and w.argument(1, "inplace", False) is True)
        w.emit(op, [("inplace", True)] if changes else [], [w.x])
    return write


for _name, _op in {"relu": "ReLU", "relu_": "ReLU", "relu6": "ReLU6", "silu": "SiLU", "sigmoid": "Sigmoid", "tanh": "Tanh",
                   "hardswish": "Hardswish", "hardsigmoid": "Hardsigmoid", "exp": "Exp", "sqrt": "Sqrt", "rsqrt": "Rsqrt",
                   "neg": "Neg", "__neg__": "Neg", "abs": "Abs", "log": "Log", "sin": "Sin", "cos": "Cos",
                   "softplus": "Softplus", "mish": "Mish", "reciprocal": "Reciprocal", "logsigmoid": "LogSigmoid",
                   "log_sigmoid": "LogSigmoid", "softsign": "Softsign",  # nn.LogSigmoid, as PyTorch names its function
                   "erf": "Erf", "log1p": "Log1p", "expm1": "Expm1", "selu": "SELU", "selu_": "SELU", "sigmoid_": "Sigmoid", "tanh_": "Tanh", "silu_": "SiLU"}.items():
    handles(_name)(unary(_op, True))


@handles("floor", "floor_")
def write_floor(w: Writer) -> None:
    """x // 1. In place there is nothing to plan."""
    refuse_gradient(w)
    if w.call.name == "floor_":
        w.emit("Identity", [], [w.x], view=True)
    else:
        w.emit("FloorDivide", [("", 1)], [w.x])


@handles("gelu")
def write_gelu(w: Writer) -> None:
    approximate = w.kwargs.get("approximate", "none")
    w.emit("GELU", [("approximate", approximate)] if approximate != "none" else [], [w.x])


@handles("hardtanh", "hardtanh_")
def write_hardtanh(w: Writer) -> None:
    low, high = w.argument(1, "min_val", -1.0), w.argument(2, "max_val", 1.0)
    changes = w.call.name.endswith("_") or w.argument(3, "inplace", False)
    bounds = ([("min_val", low)] if low != -1 else []) + ([("max_val", high)] if high != 1 else [])
    w.emit("Hardtanh", bounds + ([("inplace", True)] if changes else []), [w.x])


@handles("glu")
def write_glu(w: Writer) -> None:
    dim = w.argument(1, "dim", -1)
    w.emit("GLU", [("", dim)] if dim != -1 else [], [w.x])


def write_sloped(op: str, name: str, default: float) -> Callable[[Writer], None]:
    def write(w: Writer) -> None:
        slope, changes = w.argument(1, name, default), w.call.name.endswith("_") or w.argument(2, "inplace", False)
        w.emit(op, ([(name, slope)] if slope != default else []) + ([("inplace", True)] if changes else []), [w.x])
    return write


for _name, _op, _argument, _default in (("leaky_relu", "LeakyReLU", "negative_slope", 0.01), ("elu", "ELU", "alpha", 1.0), ("celu", "CELU", "alpha", 1.0)):
    handles(_name)(write_sloped(_op, _argument, _default))
    handles(_name + "_")(write_sloped(_op, _argument, _default))


@handles("dropout", "alpha_dropout", "dropout2d")
def write_dropout(w: Writer) -> None:
    p, training, inplace = w.argument(1, "p", 0.5), w.argument(2, "training", True), w.argument(3, "inplace", False)
    if training or w.results() != [w.x]:
        w.emit("Dropout2d" if w.call.name == "dropout2d" else "Dropout", [("p", p if training else 0.0)] + ([("inplace", True)] if inplace else []), [w.x])


@handles("softmax", "log_softmax")
def write_softmax(w: Writer) -> None:
    w.emit("Softmax" if w.call.name == "softmax" else "LogSoftmax", [("dim", w.argument(1, "dim"))] + type_asked(w), [w.x])


@handles("maximum", "minimum")
def write_larger(w: Writer) -> None:
    """Of every two elements."""
    w.emit("Maximum" if w.call.name.startswith("max") else "Minimum", [], [w.x, w.argument(1, "other")])


@handles("addcmul")
def write_addcmul(w: Writer) -> None:
    value = w.kwargs.get("value", 1)
    w.emit("Addcmul", [("value", value)] if value != 1 else [], [w.x, w.argument(1, "tensor1"), w.argument(2, "tensor2")])


@handles("clamp", "clip")
def write_clamp(w: Writer) -> None:
    low, high = w.argument(1, "min"), w.argument(2, "max")
    bounds = [v for v in (low, high) if isinstance(v, Value)]
    if bounds:
        return w.emit("ClampTensor", [("bound", "max")] if low is None else [], [w.x] + bounds)
    w.emit("Clamp", [(n, v) for n, v in (("min", low), ("max", high)) if v is not None], [w.x])


@handles("masked_fill", "masked_fill_")
def write_masked_fill(w: Writer) -> None:
    value = w.argument(2, "value")
    if not number(value):
        raise Unsupported("by a tensor")
    flags = [("inplace", True)] if w.call.name.endswith("_") else []
    w.emit("MaskedFill", [("value", value)] + flags, [w.x, w.argument(1, "mask")])


@handles("where")
def write_where(w: Writer) -> None:
    given = [w.argument(0, "condition"), w.argument(1, "input", w.kwargs.get("self")), w.argument(2, "other")]
    if given[1] is None:
        raise Unsupported("of a condition alone")
    out = w.results()[0]
    for k, value in enumerate(given):
        if number(value):  # a tensor of its own on the device (aten/src/ATen/native/TensorCompare.cpp, where)
            given[k] = w.inner([], out)
            kind = [] if out.dtype.is_floating_point else [("dtype", dtype_name(out.dtype))]
            w.emit("Full", [("shape", []), ("value", value)] + kind, [], [given[k]])
    w.emit("Where", [], given)


@handles("floor_divide", "__floordiv__")
def write_floor_divide(w: Writer) -> None:
    other = w.argument(1, "other")
    if not number(other) or w.kwargs.get("rounding_mode", "floor") not in ("floor", "trunc"):
        raise Unsupported("by a tensor")
    refuse_gradient(w)
    w.emit("FloorDivide", [("", other)], [w.x])


@handles("remainder", "__mod__", "fmod")
def write_remainder(w: Writer) -> None:
    if not number(w.argument(1, "other")):
        raise Unsupported("by a tensor")
    refuse_gradient(w)
    w.emit("Remainder", [("", w.argument(1, "other"))], [w.x])


@handles("bitwise_and", "and", "__and__", "logical_and")
def write_and(w: Writer) -> None:
    write_of_masks(w, "LogicalAnd")


@handles("bitwise_or", "or", "__or__", "logical_or")
def write_or(w: Writer) -> None:
    write_of_masks(w, "LogicalOr")


def write_of_masks(w: Writer, op: str) -> None:
    other = w.argument(1, "other")
    if not isinstance(other, Value) or {w.x.dtype, other.dtype} != {torch.bool}:
        raise Unsupported("of numbers")
    w.emit(op, [], [w.x, other])


@handles("bitwise_not", "__invert__", "logical_not")
def write_not(w: Writer) -> None:
    w.emit("Not", [], [w.x])


@handles("__rpow__")
def write_rpow(w: Writer) -> None:
    refuse_gradient(w)
    w.emit("RPow", [("", w.argument(1, "other"))], [w.x])


def comparison(op: str) -> Callable[[Writer], None]:
    def write(w: Writer) -> None:
        other = w.argument(1, "other")
        if isinstance(w.x, Value) and isinstance(other, Value):
            w.emit(op, [], [w.x, other])
        elif isinstance(w.x, Value) and number(other):
            w.emit(op, [("", other)], [w.x])
        else:
            raise Unsupported("of these operands")
    return write


for _op, _names in {"Eq": "eq __eq__", "Ne": "ne __ne__", "Lt": "lt __lt__", "Le": "le __le__", "Gt": "gt __gt__",
                    "Ge": "ge __ge__"}.items():
    handles(*_names.split())(comparison(_op))


@handles("isfinite", "isnan", "isinf")
def write_is_finite(w: Writer) -> None:
    """(x == x) * (x.abs() != inf), x != x and x.abs() == inf (aten/src/ATen/native/TensorCompare.cpp)."""
    largest = 3.4e38  # for infinity, of which a call has no number
    if w.call.name == "isnan":
        return w.emit("Ne", [], [w.x, w.x]) and None
    size = w.inner(w.x.shape)
    w.emit("Abs", [], [w.x], [size])
    if w.call.name == "isinf":
        return w.emit("Eq", [("", largest)], [size]) and None
    bounded, itself = w.inner(w.x.shape, w.results()[0]), w.inner(w.x.shape, w.results()[0])
    w.emit("Ne", [("", largest)], [size], [bounded])
    w.emit("Eq", [], [w.x, w.x], [itself])
    w.emit("Mul", [], [itself, bounded])

"""Functions with weights: F.linear(x, self.weight) and its like."""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

from gpuplan.errors import Unsupported
from gpuplan.functions.elementwise import binary
from gpuplan.layers import simplified
from gpuplan.writer import Writer, handles
from gpuplan.values import Value


@handles("_weight_norm")
def write_weight_norm(w: Writer) -> None:
    v, g, dim = w.argument(0, "v"), w.argument(1, "g"), w.argument(2, "dim", 0)
    if dim not in (0, len(v.shape) - 1):
        raise Unsupported("of the whole weight, or of a dimension between others")
    w.emit("WeightNorm", [("dim", dim)] if dim else [], [v, g])


def is_parameter(value: Value) -> bool:
    return value.weight is not None and value.kind == "parameter"


@handles("linear")
def write_linear(w: Writer) -> None:
    weight, bias = w.argument(1, "weight"), w.argument(2, "bias")
    if not is_parameter(weight) or (bias is not None and not is_parameter(bias)):
        return w.emit("Linear", [("", weight.shape[1]), ("", weight.shape[0])], [w.x, weight] + ([] if bias is None else [bias])) and None
    arguments = [("", weight.shape[1]), ("", weight.shape[0])] + ([("bias", False)] if bias is None else [])
    w.with_weights("Linear", arguments, [w.x], [weight, bias])


@handles("conv2d", "conv1d")
def write_conv(w: Writer) -> None:
    weight, bias = w.argument(1, "weight"), w.argument(2, "bias")
    stride, padding, dilation, groups = (simplified(w.argument(i, n, d)) for i, n, d in (
        (3, "stride", 1), (4, "padding", 0), (5, "dilation", 1), (6, "groups", 1)))
    options = [(n, v) for n, v, d in (("stride", stride, 1), ("padding", padding, 0), ("dilation", dilation, 1),
                                      ("groups", groups, 1)) if v != d]
    op = "Conv2d" if w.call.name == "conv2d" else "Conv1d"
    arguments = [("", weight.shape[1] * groups), ("", weight.shape[0]), ("", simplified(tuple(weight.shape[2:])))] + options
    if not is_parameter(weight):
        return w.emit(op, arguments, [w.x, weight] + ([bias] if bias is not None else [])) and None
    w.with_weights(op, arguments + ([("bias", False)] if bias is None else []), [w.x], [weight, bias])


def are_computed(weights: Sequence[Optional[Value]]) -> bool:
    """Whether the model computes some of them, weight.float() for one: they are inputs of the layer then."""
    return any(v is not None and v.weight is None for v in weights)


@handles("layer_norm")
def write_layer_norm(w: Writer) -> None:
    shape, weight, bias = w.argument(1, "normalized_shape"), w.argument(2, "weight"), w.argument(3, "bias")
    arguments: List[Tuple[str, Any]] = [("", shape[0] if len(shape) == 1 else list(shape)), ("eps", w.argument(4, "eps", 1e-5))]
    if weight is None:
        return w.emit("LayerNorm", arguments + [("elementwise_affine", False)], [w.x]) and None
    if are_computed([weight, bias]):
        return w.emit("LayerNorm", arguments, [w.x] + [v for v in (weight, bias) if v is not None]) and None
    w.with_weights("LayerNorm", arguments + ([("bias", False)] if bias is None else []), [w.x], [weight, bias])


@handles("rms_norm")
def write_rms_norm(w: Writer) -> None:
    shape, weight = w.argument(1, "normalized_shape"), w.argument(2, "weight")
    arguments: List[Tuple[str, Any]] = [("", shape[0] if len(shape) == 1 else list(shape)), ("eps", w.argument(3, "eps"))]
    if weight is None:
        return w.emit("RMSNorm", arguments + [("elementwise_affine", False)], [w.x]) and None
    if are_computed([weight]):
        return w.emit("RMSNorm", arguments, [w.x, weight]) and None
    w.with_weights("RMSNorm", arguments, [w.x], [weight])


@handles("group_norm")
def write_group_norm(w: Writer) -> None:
    weight, bias = w.argument(2, "weight"), w.argument(3, "bias")
    arguments = [("", w.argument(1, "num_groups")), ("", w.x.shape[1]), ("eps", w.argument(4, "eps", 1e-5))]
    if weight is None:
        return w.emit("GroupNorm", arguments + [("affine", False)], [w.x]) and None
    if are_computed([weight, bias]):
        return w.emit("GroupNorm", arguments, [w.x] + [v for v in (weight, bias) if v is not None]) and None
    w.with_weights("GroupNorm", arguments + ([("bias", False)] if bias is None else []), [w.x], [weight, bias])


@handles("batch_norm")
def write_batch_norm(w: Writer) -> None:
    mean, variance, weight, bias, training = (w.argument(i, n) for i, n in (
        (1, "running_mean"), (2, "running_var"), (3, "weight"), (4, "bias"), (5, "training")))
    rank = len(w.x.shape)
    if rank not in (2, 3, 4) or (mean is None) != (variance is None):
        raise Unsupported("of these dimensions")
    arguments = [("", w.x.shape[1]), ("eps", w.argument(7, "eps", 1e-5)), ("momentum", w.argument(6, "momentum", 0.1))]
    arguments += [("affine", False)] if weight is None else []
    arguments += [("track_running_stats", False)] if mean is None else []
    weights = [weight, bias, mean, variance]
    if weight is not None and weight.weight is None and mean is None and w.argument(5, "training"):
        arguments = [a for a in arguments if a[0] != "track_running_stats"] + [("track_running_stats", False)]
        return w.emit("BatchNorm2d" if rank == 4 else "BatchNorm1d", arguments,
                      [w.x, weight] + ([bias] if bias is not None else [])) and None
    if weight is None and mean is None:
        return w.emit("BatchNorm2d" if rank == 4 else "BatchNorm1d", arguments, [w.x]) and None
    w.with_weights("BatchNorm2d" if rank == 4 else "BatchNorm1d", arguments, [w.x], weights)
    owner = next(v for v in weights if v is not None).weight.rpartition(".")[0]
    w.lowering.used.setdefault(owner + ".num_batches_tracked", owner)


@handles("embedding")
def write_embedding(w: Writer) -> None:
    table = w.argument(1, "weight")
    w.with_weights("Embedding", [("", table.shape[0]), ("", table.shape[1])], [w.x], [table])


@handles("add_", "num_batches_tracked")
def write_add_in_place(w: Writer) -> None:
    if isinstance(w.x, Value) and (w.x.weight or "").endswith("num_batches_tracked"):
        return  # part of the batch norm that follows
    binary("Add")(w)

"""Modules that are one layer of the catalog: which they are, and the layer's arguments, read back from the module."""
from __future__ import annotations

import contextlib
import inspect
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import torch
from torch import nn

from gpuplan.errors import ExportError
from gpuplan.replacements import Replacements
from gpuplan.source_lines import source_line
from gpuplan.transformers_layers import transformers_layer
from gpuplan.values import Batch

# The catalog's names of torch.nn's modules whose constructor arguments are the layer's.
NN_LAYERS = {name: name for name in (
    "AdaptiveAvgPool1d AdaptiveAvgPool2d AvgPool1d AvgPool2d BatchNorm1d BatchNorm2d Conv1d Conv2d ConvTranspose1d ConvTranspose2d Dropout "
    "Dropout2d CELU ELU "
    "Embedding EmbeddingBag Flatten GELU GLU GRU GRUCell GroupNorm Hardsigmoid Hardswish Hardtanh InstanceNorm2d LSTM LayerNorm "
    "LeakyReLU Linear LogSoftmax MaxPool1d MaxPool2d MultiheadAttention PReLU RMSNorm RNN ReLU ReLU6 SELU SiLU Sigmoid Softmax Softsign Tanh "
    "Unflatten Upsample "
    "Identity LSTMCell RNNCell").split()}
# Modules of other packages, by where they are defined.
OTHER_LAYERS = {
    "torchvision.ops.stochastic_depth.StochasticDepth": ("StochasticDepth", ("p", "mode")),
    "timm.layers.drop.DropPath": ("StochasticDepth", ("drop_prob",)),
    "transformers.pytorch_utils.Conv1D": ("Conv1D", ("nf", "nx")),
    "torchvision.models.swin_transformer.ShiftedWindowAttention": (
        "ShiftedWindowAttention", ("dim", "window_size", "shift_size", "num_heads", "qkv_bias", "proj_bias",
                                   "attention_dropout", "dropout")),
    "torchvision.models.swin_transformer.PatchMerging": None,
}


def class_path(module: nn.Module) -> str:
    return type(module).__module__ + "." + type(module).__qualname__


def layer_of(module: nn.Module) -> Optional[str]:
    """The layer of the catalog that a module's forward is, if it is one."""
    known = OTHER_LAYERS.get(class_path(module))
    if known is not None:
        return known[0]
    if type(module).__module__.startswith("transformers."):
        known = transformers_layer(module)
        if known is not None:
            return known[0]
    for base in type(module).__mro__:
        if base.__module__.startswith("torch.nn.modules") and base.__name__ in NN_LAYERS:
            same = type(module).forward is base.forward and getattr(module, "_conv_forward", None) is not False
            overridden = hasattr(base, "_conv_forward") and type(module)._conv_forward is not base._conv_forward
            return base.__name__ if same and not overridden else None
    return None


def is_as_constructed(module: nn.Module) -> bool:
    """Whether a call of the module runs its class's forward on its own weights: no hook, no parametrization, no forward of
    the instance (accelerate's), no weight that something computes (pruning, weight_norm)."""
    held = vars(module)
    return not module._forward_hooks and not module._forward_pre_hooks and "forward" not in held \
        and "parametrizations" not in module._modules and not any(isinstance(held.get(n), torch.Tensor) for n in ("weight", "bias"))


# What torch.nn.TransformerEncoderLayer is made of, for the modules that stand for one entry of the catalog.
ENCODER_PARTS = {"self_attn": nn.MultiheadAttention, "linear1": nn.Linear, "linear2": nn.Linear, "norm1": nn.LayerNorm,
                 "norm2": nn.LayerNorm, "dropout": nn.Dropout, "dropout1": nn.Dropout, "dropout2": nn.Dropout}


def encoder_activation(module: nn.Module) -> str:
    given = getattr(module, "activation", None)
    if given is nn.functional.relu or type(given) is nn.ReLU:
        return "relu"
    return "gelu" if given is nn.functional.gelu or type(given) is nn.GELU and given.approximate == "none" else ""


def is_encoder_layer(module: nn.Module, args: tuple, kwargs: dict) -> bool:
    """A call of nn.TransformerEncoderLayer without masks. In eval mode a GPU runs it as one operator, which a model without
    data does not show."""
    if type(module) is not nn.TransformerEncoderLayer or getattr(module, "partly_frozen", False):
        return False
    if any(type(getattr(module, name, None)) is not part for name, part in ENCODER_PARTS.items()) or \
            not all(is_as_constructed(m) for m in module.modules()):
        return False
    given = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    src, others = given.pop("src"), [v for v in given.values() if v is not None and v is not False]
    attention = module.self_attn
    shares = {attention.dropout, module.dropout.p, module.dropout1.p, module.dropout2.p}
    biases = {held is not None for held in (attention.in_proj_bias, attention.out_proj.bias, module.linear1.bias, module.linear2.bias,
                                            module.norm1.bias, module.norm2.bias)}
    return not others and src.dim() == 3 and len(shares) == 1 and len(biases) == 1 and encoder_activation(module) != "" \
        and module.norm1.eps == module.norm2.eps and module.norm1.weight is not None and attention._qkv_same_embed_dim \
        and attention.bias_k is None and not attention.add_zero_attn


def encoder_layer_arguments(module: nn.TransformerEncoderLayer) -> List[Tuple[str, Any]]:
    attention = module.self_attn
    given = [("dropout", attention.dropout, 0.1), ("activation", encoder_activation(module), "relu"),
             ("layer_norm_eps", module.norm1.eps, 1e-5), ("batch_first", attention.batch_first, False),
             ("norm_first", module.norm_first, False), ("bias", attention.in_proj_bias is not None, True)]
    return [("", attention.embed_dim), ("", attention.num_heads), ("", module.linear1.out_features)] + \
        [(name, value) for name, value, default in given if value != default]


def attention_given(module: nn.Module, args: tuple, kwargs: dict) -> Dict[str, Any]:
    return dict(inspect.signature(module.forward).bind(*args, **kwargs).arguments)


def is_self_attention(module: nn.Module, args: tuple, kwargs: dict) -> bool:
    """A call of nn.MultiheadAttention that is the catalog's layer: of one tensor, without a mask."""
    given = attention_given(module, args, kwargs)
    masks = given.get("attn_mask") is not None or given.get("key_padding_mask") is not None or given.get("is_causal", False)
    return given["query"] is given["key"] is given["value"] and given["query"].dim() == 3 and not masks \
        and given.get("average_attn_weights", True) and module._qkv_same_embed_dim and module.bias_k is None and not module.add_zero_attn


def refuse_fused_mask(module: nn.Module, caller: Optional[nn.Module], args: tuple, kwargs: dict) -> None:
    """In eval mode a GPU runs attention of one tensor under a mask as one operator (nn/modules/activation.py,
    why_not_fast_path), which a model without data does not show."""
    given = attention_given(module, args, kwargs)
    masks = [m for m in (given.get("attn_mask"), given.get("key_padding_mask")) if m is not None]
    encoder = isinstance(caller, nn.TransformerEncoderLayer)  # has made its masks numbers
    numbers = any(m.is_floating_point() for m in masks) and not encoder
    if not module.training and given["query"] is given["key"] is given["value"] and module.batch_first and not numbers \
            and module._qkv_same_embed_dim and module.bias_k is None and not module.add_zero_attn and module.num_heads % 2 == 0:
        raise ExportError(f"{source_line()}: MultiheadAttention with a mask: in eval mode a GPU runs it as one operator for which there "
                          "is no layer. modes=('train',) exports train mode only")


@contextlib.contextmanager
def functions_followed() -> Iterator[None]:
    """The calls that a function of torch.nn.functional makes, as multi_head_attention_forward, are seen one by one, not it alone."""
    replacements = Replacements()
    try:
        for name in ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"):
            if hasattr(nn.functional, name):
                replacements.set(nn.functional, name, lambda *_: False)
        yield
    finally:
        replacements.restore()


def layer_type(module: nn.Module) -> type:
    return next(b for b in type(module).__mro__ if b.__module__.startswith("torch.nn.modules") and b.__name__ in NN_LAYERS)


def simplified(value: Any) -> Any:
    """(3, 3) as 3; enumerations and sizes as plain values."""
    if isinstance(value, torch.Size):
        value = tuple(value)
    if isinstance(value, (tuple, list)) and not isinstance(value, Batch):
        if len(value) in (1, 2) and len(set(value)) == 1 and not isinstance(value[0], (tuple, list)):
            return value[0]
        return tuple(value)
    return value


def constructor_arguments(module: nn.Module) -> List[Tuple[str, Any]]:
    """What the module was constructed with, read back from its attributes; defaults are left out."""
    if type(module) is nn.TransformerEncoderLayer:
        return encoder_layer_arguments(module)
    other = OTHER_LAYERS.get(class_path(module))
    if other is not None:
        return other_arguments(module, other[0], other[1])
    if type(module).__module__.startswith("transformers."):
        layer = transformers_layer(module)
        if layer is not None:
            return layer[1]
    base = layer_type(module)
    parameters = inspect.signature(base.__init__).parameters
    if base.__name__ in ("LSTM", "GRU", "RNN"):
        parameters = {n: inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=d) for n, d in (
            ("input_size", inspect.Parameter.empty), ("hidden_size", inspect.Parameter.empty), ("num_layers", 1),
            ("nonlinearity", "tanh"), ("bias", True), ("batch_first", False), ("dropout", 0.0),
            ("bidirectional", False)) if n != "nonlinearity" or base.__name__ == "RNN"}
    arguments: List[Tuple[str, Any]] = []
    for name, parameter in parameters.items():
        if name in ("self", "device", "dtype", "args", "kwargs", "kernel_size_") or name.startswith("_"):
            continue
        if name == "bias" and getattr(module, "affine", True) is False:
            continue
        default = parameter.default
        if default is None and not hasattr(module, name):
            continue  # another name of one that it has: Hardtanh's min_value
        value = attribute(module, base, name)
        if default is not inspect.Parameter.empty and simplified(value) == simplified(default):
            continue
        if name == "stride" and base.__name__.endswith("Pool2d") and simplified(value) == simplified(module.kernel_size):
            continue
        arguments.append((name, shape_argument(name, value) if name in ("normalized_shape", "unflattened_size") else simplified(value)))
    return arguments


def shape_argument(name: str, value: Any) -> Any:
    """(4, 4) is not 4 here, as it is of a kernel."""
    return value[0] if name == "normalized_shape" and len(value) == 1 else tuple(value)


def attribute(module: nn.Module, base: type, name: str) -> Any:
    """A constructor argument, which some modules keep under another name or as a weight."""
    if name == "bias":
        held = getattr(module, "bias", None)
        if base.__name__ == "MultiheadAttention":
            return module.in_proj_bias is not None
        return held if isinstance(held, bool) else held is not None
    if base.__name__ == "MultiheadAttention":
        special = {"add_bias_kv": module.bias_k is not None, "kdim": None if module.kdim == module.embed_dim else module.kdim,
                   "vdim": None if module.vdim == module.embed_dim else module.vdim}
        if name in special:
            return special[name]
    if base.__name__ == "Embedding" and name in ("padding_idx", "max_norm"):
        return getattr(module, name)
    if base.__name__ == "ConvTranspose2d" and name == "output_padding":
        return module.output_padding
    return getattr(module, name)


def other_arguments(module: nn.Module, layer: str, names: Sequence[str]) -> List[Tuple[str, Any]]:
    if layer == "StochasticDepth":
        p = getattr(module, names[0])
        return [("p", float(p or 0.0)), ("mode", getattr(module, "mode", "row"))]
    if layer == "ShiftedWindowAttention":
        arguments = [("dim", module.qkv.in_features), ("window_size", list(module.window_size)),
                     ("shift_size", list(module.shift_size)), ("num_heads", module.num_heads)]
        if module.qkv.bias is None:
            arguments.append(("qkv_bias", False))
        if module.proj.bias is None:
            arguments.append(("proj_bias", False))
        return arguments + [(n, float(getattr(module, n))) for n in ("attention_dropout", "dropout") if getattr(module, n)]
    if layer == "Conv1D":
        return list(zip(names, (module.weight.shape[1], module.weight.shape[0])))
    return [(n, getattr(module, n)) for n in names]


def named_tensors(model: nn.Module, held: str, once: bool = True) -> List[Tuple[str, torch.Tensor]]:
    """named_parameters() or named_buffers(), once each or wherever they are registered; PyTorch 1.13 has the first alone."""
    seen: set = set()
    found: List[Tuple[str, torch.Tensor]] = []
    for path, module in model.named_modules(remove_duplicate=once):
        for name, tensor in getattr(module, held).items():
            if tensor is not None and not (once and id(tensor) in seen):
                seen.add(id(tensor))
                found.append((f"{path}.{name}" if path else name, tensor))
    return found

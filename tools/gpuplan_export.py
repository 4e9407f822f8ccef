#!/usr/bin/env python3
"""Writes a gpuplan spec of a PyTorch model. Needs torch alone: 1.13 to 2.15 (tests/torch/EXPORT.md says which releases it
was tried with, and with what).

    python3 gpuplan_export.py torchvision.models:resnet50 --input 3x224x224 -o resnet50.yaml

or, in a training script,

    import gpuplan_export
    gpuplan_export.export(model, batch, output="m.yaml", loss=lambda model, out, batch: cross_entropy(out, batch[1]))

How: a copy of the model on the `meta` device, where tensors have no data, runs its forward once under a
TorchFunctionMode. Every call of torch that the Python code makes is seen with its arguments, whatever decided on the
call (a symbolic trace stops at control flow that depends on shapes; this does not), every module call is a frame, and
weak references tell when Python lets go of each tensor. The run is repeated with another batch size: what differs
between the two is what depends on the batch. Then calls become layers of gpuplan's catalog, frames become blocks,
equal ones are folded, and `keep:` and `Rebind()` are written where a tensor outlives what the blocks alone imply.

Errors: ExportError lists every call that the catalog has no layer for, with the line of source that made it.
"""
from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import dataclasses
import difflib
import functools
import importlib
import inspect
import linecache
import math
import os
import re
import sys
import weakref
from types import FrameType
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.utils.checkpoint
from torch import nn
from torch.overrides import TorchFunctionMode, resolve_name

FOREVER = sys.maxsize
MODES = ("train", "eval")
TRACED_BATCHES = (2, 3)  # sizes that the model runs with; nothing of them is written


class ExportError(Exception):
    """What cannot be exported, one line each."""


# --- what a run leaves behind -----------------------------------------------------------------------------------------


class Value:
    """A tensor of the run. `died` is the last event that saw it alive."""

    def __init__(self, tensor: torch.Tensor, storage: int):
        self.shape: Tuple[Any, ...] = tuple(tensor.shape)
        self.dtype = tensor.dtype
        self.storage = storage
        self.died = FOREVER
        self.weight: Optional[str] = None  # the path of a parameter or buffer
        self.kind = "activation"  # or "parameter", "buffer", "input"
        self.contiguous = tensor.is_contiguous()
        self.stays = False  # in an attribute, after the step
        self.host = tensor.device.type == "cpu"  # not on the device that the model runs on


class Call:
    """One call of torch, or of a module that the catalog has as one layer."""

    def __init__(self, name: str, args: tuple, kwargs: dict, event: int, source: str, module: Optional[nn.Module] = None,
                 path: str = ""):
        self.name, self.args, self.kwargs, self.event, self.source = name, args, kwargs, event, source
        self.module, self.path = module, path
        self.results: List[Value] = []
        self.grad = torch.is_grad_enabled()
        self.to: Optional[Type] = None  # of a conversion: the type that the code names


class Frame:
    """A call of a module's forward, with the calls made in it; without a module, what a checkpoint runs."""

    def __init__(self, module: Optional[nn.Module], path: str, inputs: List[Value]):
        self.module, self.path = module, path
        self.inputs = inputs
        self.steps: List[Any] = []  # Call or Frame
        self.results: List[Value] = []
        self.kind = "Checkpoint" if module is None else type(module).__name__
        self.end = FOREVER  # the event of its return
        self.checkpoint = False  # run by torch.utils.checkpoint
        self.reentrant = False  # with use_reentrant=True


def flat_tensors(structure: Any, depth: int = 0) -> List[torch.Tensor]:
    """The tensors in nested tuples, lists, dicts, and objects that hold them (model outputs, caches)."""
    if isinstance(structure, torch.Tensor):
        return [structure]
    if depth > 6:
        return []
    if isinstance(structure, dict):
        children: Iterable[Any] = structure.values()
    elif isinstance(structure, (tuple, list, set, frozenset)):
        children = structure
    elif dataclasses.is_dataclass(structure) and not isinstance(structure, type):
        children = [getattr(structure, field.name, None) for field in dataclasses.fields(structure)]
    elif isinstance(structure, nn.Module) or not hasattr(structure, "__dict__") or callable(structure) or is_cache(structure):
        return []
    else:
        children = vars(structure).values()
    return [t for child in children for t in flat_tensors(child, depth + 1)]


def is_cache(structure: Any) -> bool:
    """Keys and values of transformers' models. The layer that fills it says what it holds."""
    return hasattr(structure, "get_seq_length") and hasattr(structure, "update")


def cache_is_windowed(cache: Any, key_states: Any, value_states: Any, layer_idx: int, *_: Any, **__: Any) -> bool:
    """Whether Cache.update has filled the cache of a sliding window, in transformers 5."""
    layers = getattr(cache, "layers", ())
    return layer_idx < len(layers) and hasattr(layers[layer_idx], "_sliding_window_tensor")


def with_values(structure: Any, value_of: Callable[[torch.Tensor], Value]) -> Any:
    """The structure with Values in place of its tensors."""
    if isinstance(structure, torch.Tensor):
        return value_of(structure)
    if is_cache(structure):
        return None  # its tensors die as it does
    if isinstance(structure, dict):
        return {k: with_values(v, value_of) for k, v in structure.items()}
    if isinstance(structure, (torch.Size, torch.dtype)):
        return tuple(structure) if isinstance(structure, torch.Size) else structure
    if isinstance(structure, (tuple, list)):
        return type(structure)(with_values(v, value_of) for v in structure) \
            if type(structure) in (tuple, list) else tuple(with_values(v, value_of) for v in structure)
    return structure


# --- modules that are one layer of the catalog ------------------------------------------------------------------------

# The catalog's names of torch.nn's modules whose constructor arguments are the layer's.
NN_LAYERS = {name: name for name in (
    "AdaptiveAvgPool2d AvgPool2d BatchNorm1d BatchNorm2d Conv1d Conv2d ConvTranspose1d ConvTranspose2d Dropout Dropout2d "
    "ELU Embedding EmbeddingBag Flatten GELU GRU GRUCell GroupNorm Hardsigmoid Hardswish InstanceNorm2d LSTM LayerNorm LeakyReLU Linear "
    "LogSoftmax MaxPool2d MultiheadAttention PReLU RMSNorm RNN ReLU ReLU6 SiLU Sigmoid Softmax Tanh Unflatten Upsample "
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
LOSSES = {"CrossEntropyLoss": "cross_entropy", "MSELoss": "mse_loss", "L1Loss": "l1_loss", "NLLLoss": "nll_loss",
          "BCEWithLogitsLoss": "binary_cross_entropy_with_logits", "SmoothL1Loss": "smooth_l1_loss",
          "HuberLoss": "huber_loss"}


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
        raise ExportError(f"{source_line()}: MultiheadAttention with a mask, which a GPU runs as one operator in eval mode that no layer "
                          "does: modes=('train',) exports training alone")


@contextlib.contextmanager
def attention_followed() -> Iterator[None]:
    """The calls that F.multi_head_attention_forward makes are seen one by one, not it alone."""
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
        value = attribute(module, base, name)
        default = parameter.default
        if default is not inspect.Parameter.empty and simplified(value) == simplified(default):
            continue
        if name == "stride" and base.__name__.endswith("Pool2d") and simplified(value) == simplified(module.kernel_size):
            continue
        arguments.append((name, simplified(value) if name != "normalized_shape" or len(value) > 1 else value[0]))
    return arguments


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


# --- the run ----------------------------------------------------------------------------------------------------------

# Functions that answer about a tensor, or that the interpreter calls by itself.
SILENT = frozenset("size dim stride numel is_contiguous __len__ __get__ __set__ is_floating_point data_ptr is_complex "
                   "element_size storage_offset _assert has_names __hash__ get_device __repr__ __format__ __bool__ "
                   "requires_grad_ register_hook is_same_size nelement untyped_storage set_grad_enabled "
                   "is_autocast_enabled _set_grad_enabled __iter__ broadcast_shapes result_type finfo".split())
IN_PLACE_WITHOUT_RESULT = frozenset(["__setitem__"])


class Recorder(TorchFunctionMode):
    """Records calls while a model runs."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model
        self.paths = {id(m): name for name, m in model.named_modules()}
        self.weights = {id(t): (name, "parameter") for name, t in named_tensors(model, "_parameters")}
        for name, t in named_tensors(model, "_buffers"):
            self.weights[id(t)] = (name, "buffer")
        self.values: Dict[int, Value] = {}
        self.references: Dict[int, Any] = {}
        self.storages: Dict[int, int] = {}  # of live tensors, by the address of their storage object
        self.event = 0
        self.inside = 0  # a module that is one layer runs
        self.top = Frame(None, "", [])
        self.frames = [self.top]
        self.every_value: List[Value] = []
        self.alive: Dict[int, int] = {}  # Values of each storage
        self.loss_steps: List[Any] = []
        self.loss: Optional[Value] = None
        self.loss_event = 0  # of the model's own
        self.grad = torch.is_grad_enabled()
        self.notes: Dict[str, None] = {}  # what the spec leaves out, for its header
        self.input_names: Dict[Value, str] = {}  # where the batch names its tensors
        self.types_read: Dict[Tuple[Any, int], Value] = {}  # by code and line, whose dtype it asked for last
        self.batch: List[Value] = []  # its tensors

    # Storages are told apart by their StorageImpl; an address is another storage's once the first has died, which its
    # last Value's death says.
    def storage_of(self, tensor: torch.Tensor) -> int:
        address = storage_address(tensor)
        if address not in self.storages:
            self.storages[address] = len(self.every_value)
        return self.storages[address]

    def value_of(self, tensor: torch.Tensor) -> Value:
        known = self.values.get(id(tensor))
        if known is not None:
            return known
        self.inside += 1  # what it is asked for is no call of the model's, though PyTorch 1.13 tells the mode
        value = Value(tensor, self.storage_of(tensor))
        self.inside -= 1
        self.alive[value.storage] = self.alive.get(value.storage, 0) + 1
        value.weight, value.kind = self.weights.get(id(tensor), (None, "activation"))
        key = id(tensor)
        self.values[key] = value
        self.every_value.append(value)
        address = storage_address(tensor)

        def died(_: Any, value: Value = value, key: int = key, address: int = address) -> None:
            value.died = self.event
            self.values.pop(key, None)
            self.references.pop(key, None)
            self.alive[value.storage] -= 1
            if self.alive[value.storage] == 0:
                self.storages.pop(address, None)

        self.references[key] = weakref.ref(tensor, died)
        return value

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: Optional[dict] = None) -> Any:
        name = function_name(func)
        func, args, kwargs = without_gpu(func, name, args, kwargs or {})
        if self.inside:
            return func(*args, **kwargs)
        if name == "__get__" and getattr(getattr(func, "__self__", None), "__name__", "") == "dtype":
            self.note_type_read(args[0])
        if name in SILENT:
            return func(*args, **kwargs)
        return self.call(func, name, args, kwargs)

    def call(self, func: Callable, name: str, args: tuple, kwargs: dict) -> Any:
        self.event += 1
        if name.startswith("masked_fill") and len(args) > 2 and isinstance(args[2], torch.Tensor) and self.on_host(args[2:3]):
            args = (*args[:2], args[2].item())  # meta tensors of PyTorch 2.1 take no number of the host's
        call = Call(name, with_values(args, self.value_of), with_values(kwargs, self.value_of), self.event, self.source())
        call.to = self.named_type(name, call)
        self.inside += 1  # PyTorch 2.1 looks rows up by weight[indices], which its own mode would not be told
        try:
            result = func(*args, **kwargs)
        except NotImplementedError:
            result = stand_in(name, args, kwargs)
            if result is None:
                raise
        finally:
            self.inside -= 1
        if call.to is not None and result is args[0]:
            result = result.clone()  # another tensor in another type than that of this run
        results = flat_tensors(result)
        if results and self.on_host(results) and self.on_host(flat_tensors((args, kwargs))):
            return result
        call.results = [self.value_of(t) for t in results]
        if results or name in IN_PLACE_WITHOUT_RESULT:
            self.frames[-1].steps.append(call)
        return result

    def note_type_read(self, tensor: torch.Tensor) -> None:
        frame, value = caller(), self.values.get(id(tensor))
        if frame is not None and value is not None:
            self.types_read[frame.f_code, frame.f_lineno] = value

    def named_type(self, name: str, call: Call) -> Optional[Type]:
        """What a conversion is to, in whichever type the model is planned: a type that the code names, or that of a tensor.
        Here the model has one type, and in others x.float() and y.to(x.dtype) are copies."""
        x = call.args[0] if call.args else None
        if name not in CONVERSIONS or not isinstance(x, Value) or x.host:
            return None
        if name not in ("to", "type", "type_as"):
            return Type() if x.dtype.is_floating_point else None
        other = call.args[1] if len(call.args) > 1 else call.kwargs.get("other")
        found = Type(other) if isinstance(other, Value) else type_in_source(self.types_read, self.values)
        return None if found is None or found.like is x or not (x.dtype.is_floating_point or found.like) else found

    @staticmethod
    def on_host(tensors: Sequence[torch.Tensor]) -> bool:
        """Whether the GPU has none of these: the model and its batch are on the meta device here."""
        return all(t.device.type == "cpu" for t in tensors)

    def call_function(self, original: Callable, name: str, args: tuple, kwargs: dict) -> Any:
        """Runs a function of other people's as one call, its arguments by name."""
        if self.inside:
            return original(*args, **kwargs)
        self.event += 1
        bound = inspect.signature(original).bind(*args, **kwargs).arguments
        given = {k: None if is_cache(v) else with_values(v, self.value_of) for k, v in bound.items()}
        given["cached"] = any(is_cache(v) for v in bound.values())
        del bound
        call = Call(name, (), given, self.event, source_line())
        self.inside += 1
        try:
            result = run_function(original, name, args, kwargs)
        finally:
            self.inside -= 1
        if name == "cache_update":
            given["windowed"] = cache_is_windowed(*args, **kwargs)
        call.results = [self.value_of(t) for t in flat_tensors(result)]
        self.frames[-1].steps.append(call)
        return result

    def layer_of(self, module: nn.Module) -> Optional[str]:
        """The layer that a module is, where it runs as it was constructed and its weights are the model's."""
        name = layer_of(module)
        known = name is not None and is_as_constructed(module)
        return name if known and all(id(t) in self.weights for t in [*module.parameters(), *module.buffers()]) else None

    def call_module(self, original: Callable, module: nn.Module, args: tuple, kwargs: dict) -> Any:
        """Runs a module's __call__ as a frame, or as one call where the catalog has it."""
        if self.inside:
            return original(module, *args, **kwargs)
        path = self.paths.get(id(module), "")
        layer = None if module is self.model else self.layer_of(module) or ("TransformerEncoderLayer" if is_encoder_layer(module, args, kwargs) else None)
        in_parts = layer == "MultiheadAttention" and not is_self_attention(module, args, kwargs)
        if in_parts:
            refuse_fused_mask(module, self.frames[-1].module, args, kwargs)
        if layer is not None and not in_parts:
            self.event += 1
            call = Call(layer, with_values(args, self.value_of), with_values(kwargs, self.value_of),
                        self.event, layer_source(source_line(), path, layer), module, path)
            self.inside += 1
            try:
                result = original(module, *args, **kwargs)
            finally:
                self.inside -= 1
            call.results = [self.value_of(t) for t in flat_tensors(result)]
            self.frames[-1].steps.append(call)
            return result
        frame = self.open_frame(Frame(module, path, self.values_in((args, kwargs))))
        with attention_followed() if in_parts else contextlib.nullcontext():
            result = original(module, *args, **kwargs)
        self.close_frame(frame, result)
        return result

    def values_in(self, structure: Any) -> List[Value]:
        return unique([self.value_of(t) for t in flat_tensors(structure)])

    def open_frame(self, frame: Frame) -> Frame:
        self.frames[-1].steps.append(frame)
        self.frames.append(frame)
        return frame

    def close_frame(self, frame: Frame, result: Any) -> None:
        self.frames.pop()
        self.event += 1
        frame.end = self.event
        frame.results = self.values_in(result)

    def close_checkpoint(self, frame: Frame, result: Any, reentrant: bool = False) -> None:
        """Where it ran one module, that module's frame is checkpointed."""
        self.close_frame(frame, result)
        inner = frame.steps[0] if len(frame.steps) == 1 else None
        if isinstance(inner, Frame) and inner.results == frame.results:
            self.frames[-1].steps[-1] = inner
            frame = inner
        frame.checkpoint, frame.reentrant = True, reentrant

    def source(self) -> str:
        """Of the call that is made: the model's line, or the module of torch's that makes it."""
        at = source_line()
        frame = self.frames[-1]
        return f"module {frame.path} ({frame.kind})" if at == "the model" and frame.path else at


def layer_source(at: str, path: str, layer: str) -> str:
    return f"module {path} ({layer})" if at == "the model" else at


def storage_address(tensor: torch.Tensor) -> int:
    try:
        return tensor.untyped_storage()._cdata if hasattr(tensor, "untyped_storage") else tensor._storage()._cdata
    except (NotImplementedError, RuntimeError):
        kind = "sparse" if tensor.layout != torch.strided else "torch.func's (vmap, grad)"
        raise ExportError(f"{source_line()}: a tensor that is {kind} has no memory of its own, and is not followed")


def unique(values: Iterable[Value]) -> List[Value]:
    return list(dict.fromkeys(values))


def function_name(func: Callable) -> str:
    """`add_` of torch.Tensor.add_, `T` of the property's getter."""
    name = getattr(func, "__name__", str(func))
    if name == "__get__":
        owner = getattr(func, "__self__", None)
        inner = getattr(owner, "__name__", "")
        return inner if inner in ("T", "mT", "H", "mH", "data", "real", "imag") else "__get__"
    return name


def without_gpu(func: Callable, name: str, args: tuple, kwargs: dict) -> Tuple[Callable, tuple, dict]:
    """The call with the meta device, where the model's code names the GPU."""
    def on_gpu(value: Any) -> bool:
        return isinstance(value, torch.device) and value.type == "cuda" or \
            isinstance(value, str) and re.fullmatch(r"cuda(:\d+)?", value) is not None

    if name == "cuda":
        return torch.Tensor.to, (args[0], "meta"), {}
    if on_gpu(kwargs.get("device")):
        kwargs = {**kwargs, "device": "meta"}
    if name == "to" and any(on_gpu(a) for a in args):
        args = tuple("meta" if on_gpu(a) else a for a in args)
    return func, args, kwargs


def stand_in(name: str, args: tuple, kwargs: dict) -> Optional[torch.Tensor]:
    """A tensor like the result, where an old release has no kernel for meta tensors: weight_norm's in 2.1, the smoothed
    labels and images' labels of cross_entropy in 1.13."""
    if name == "_weight_norm":
        return torch.mul(args[0], args[1])
    if name == "cross_entropy" and kwargs.get("reduction", "mean") != "none":
        return torch.sum(args[0] if args else kwargs["input"])
    return None


OWN_FILE = os.path.abspath(__file__)
TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep


def caller() -> Optional[FrameType]:
    """The nearest one that is not torch's."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(TORCH_FOLDER) and os.path.abspath(name) != OWN_FILE:
            return frame
        if frame.f_code.co_name == "run_recorded" and os.path.abspath(name) == OWN_FILE:
            break  # who exports has called nothing of this
        frame = frame.f_back
    return None


def source_line() -> str:
    frame = caller()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "the model"


class Type(NamedTuple):
    """What a conversion is to: a type that the code names, or that of a tensor."""
    like: Optional[Value] = None


CONVERSIONS = frozenset("to type type_as float half bfloat16 double".split())
CONVERSION = re.compile(r"\.(?:to|type)\(([^()]*)\)")
NAMED_TYPE = re.compile(r"torch\.(float32|float|float64|double|float16|half|bfloat16)")


def running_call(frame: FrameType) -> str:
    """The source of the call that a frame makes; before Python 3.11 that of its line."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno, frame.f_globals)
    if not hasattr(frame.f_code, "co_positions"):
        return line
    first, last, begin, end = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    return line.encode()[begin:end].decode(errors="replace") if first == last else line


def type_in_source(types_read: Dict[Tuple[Any, int], Value], values: Dict[int, Value]) -> Optional[Type]:
    """Of the conversion that runs: x.to(torch.float32), x.to(y.dtype), or x.to(t) after t = y.dtype or t = torch.float32."""
    frame = caller()
    if frame is None or not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return None
    found = CONVERSION.findall(running_call(frame))
    if len(set(found)) != 1 and not hasattr(frame.f_code, "co_positions"):
        return None
    for argument in (found[-1] if found else "").split(","):
        name = re.sub(r"^\s*dtype\s*=|\s", "", argument)
        if NAMED_TYPE.fullmatch(name):
            return Type()
        if name.endswith(".dtype"):
            tensor = named_in(frame, name.split(".")[:-1])
            return Type(values[id(tensor)]) if id(tensor) in values else None
        if name.isidentifier():
            return assigned_type(frame, name, types_read)
    return None


def assigned_type(frame: FrameType, name: str, types_read: Dict[Tuple[Any, int], Value]) -> Optional[Type]:
    """What the function that runs gave a name to before this line, where that is a type."""
    code = frame.f_code
    assigns = re.compile(rf"^[\w\s,]*\b{name}\b[\w\s,]*=(?!=)(.*)")
    for number in range(frame.f_lineno - 1, code.co_firstlineno, -1):
        found = assigns.match(linecache.getline(code.co_filename, number, frame.f_globals))
        if found and (code, number) in types_read:
            return Type(types_read[code, number])
        if found:
            return Type() if NAMED_TYPE.fullmatch(found.group(1).strip()) else None
    return None


def named_in(frame: FrameType, path: Sequence[str]) -> Any:
    """What a path of names is in a frame."""
    names = frame.f_locals
    thing = names.get(path[0])
    if sys.version_info < (3, 13):
        names.clear()  # a copy, which the frame would keep: tensors would live as long as the function
    for name in path[1:]:
        thing = getattr(thing, name, None)
    return thing


def run_recorded(model: nn.Module, batch: Any, forward: Callable, loss: Optional[Callable]) -> Recorder:
    recorder = Recorder(model)
    recorder.top.inputs = unique([recorder.value_of(t) for t in flat_tensors(batch)])
    recorder.batch = list(recorder.top.inputs)
    for value in recorder.batch:
        value.kind = "input"
    recorder.input_names = input_names(batch, recorder)
    original = nn.Module.__call__

    def recorded(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return recorder.call_module(original, module, args, kwargs)

    nn.Module.__call__ = recorded  # type: ignore[assignment]
    try:
        with recorder, followed(recorder), transformers_recorded(recorder):
            out = forward(model, batch)
            recorder.event += 1
            recorder.top.end = recorder.event
            recorder.top.results = unique([recorder.value_of(t) for t in flat_tensors(out)])
            steps = len(recorder.top.steps)
            found = loss_of(out) if loss is None else None if loss is no_loss else loss(model, out, batch)
            if loss not in (None, no_loss) and not isinstance(found, torch.Tensor):
                raise ExportError(f"loss= returned {type(found).__name__}, expected a tensor")
            recorder.loss = None if found is None else recorder.value_of(found)
            recorder.loss_steps = recorder.top.steps[steps:]
            del recorder.top.steps[steps:]
    finally:
        nn.Module.__call__ = original  # type: ignore[assignment]
    return recorder


# --- what of PyTorch is no call on tensors ----------------------------------------------------------------------------


class Replacements:
    """Attributes that are others while a model runs."""

    def __init__(self) -> None:
        self.undo: List[Callable[[], None]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        if name in vars(owner):
            was = vars(owner)[name]
            self.undo.append(lambda: setattr(owner, name, was))
        else:  # inherited
            self.undo.append(lambda: delattr(owner, name))
        setattr(owner, name, value)

    def restore(self) -> None:
        for step in reversed(self.undo):
            step()


@contextlib.contextmanager
def followed(recorder: Recorder) -> Iterator[None]:
    """Custom autograd functions, checkpoints, autocast and compiled code of the model are recorded, refused or undone."""
    replacements = Replacements()
    try:
        follow_indexing(recorder, replacements)
        follow_custom_functions(recorder, replacements)
        follow_checkpoints(recorder, replacements)
        follow_autocast(recorder, replacements)
        follow_causal_hints(recorder, replacements)
        # Of one process; its own forward wants a GPU (torch/nn/modules/batchnorm.py).
        replacements.set(nn.SyncBatchNorm, "forward", nn.modules.batchnorm._BatchNorm.forward)
        replacements.set(nn.SyncBatchNorm, "_check_input_dim", lambda module, x: None)
        with not_compiled(replacements):
            yield
    finally:
        replacements.restore()


def follow_indexing(recorder: Recorder, replacements: Replacements) -> None:
    """Before PyTorch 2.2 a mode is not told of x[0], x[a:b] and x[index] (torch/csrc/autograd/python_variable_indexing.cpp)."""
    recorder.inside += 1
    with IndexingSeen() as probe:
        _ = torch.empty(1, device="meta")[0:1]
    recorder.inside -= 1
    if probe.seen:
        return

    def indexed(name: str) -> Callable:
        original = getattr(torch.Tensor, name)

        def run(*args: Any) -> Any:
            if recorder.inside:
                return original(*args)
            recorder.inside += 1
            try:
                return recorder.call(original, name, args, {})
            finally:
                recorder.inside -= 1
        return run

    for name in ("__getitem__", "__setitem__"):
        replacements.set(torch.Tensor, name, indexed(name))


class IndexingSeen(TorchFunctionMode):
    """Whether a mode is told of indexing."""
    seen = False

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: Optional[dict] = None) -> Any:
        self.seen = self.seen or function_name(func) == "__getitem__"
        return func(*args, **(kwargs or {}))


def follow_custom_functions(recorder: Recorder, replacements: Replacements) -> None:
    """A torch.autograd.Function of the model's code is one call, whatever its forward runs. What it saves and its backward
    allocates only its code knows; where there is no gradient, it is what its forward runs."""
    def wrapped(original: Callable, name: str) -> staticmethod:
        def forward(*args: Any) -> Any:
            if recorder.inside or not torch.is_grad_enabled() and not recorder.grad:
                return original(*args)
            recorder.event += 1
            call = Call("autograd.Function " + name, with_values(args[1:], recorder.value_of), {}, recorder.event, source_line())
            recorder.inside += 1
            try:
                result = original(*args)
            finally:
                recorder.inside -= 1
            call.results = recorder.values_in(result)
            recorder.frames[-1].steps.append(call)
            return result
        return staticmethod(forward)

    waiting = list(torch.autograd.Function.__subclasses__())
    while waiting:
        function = waiting.pop()
        waiting += function.__subclasses__()
        forward = function.__dict__.get("forward")
        if isinstance(forward, staticmethod) and function.__module__.partition(".")[0] != "torch":
            replacements.set(function, "forward", wrapped(forward.__func__, function.__name__))


def follow_checkpoints(recorder: Recorder, replacements: Replacements) -> None:
    """What torch.utils.checkpoint.checkpoint runs is a frame. It calls the function between two steps of a generator
    (one function before PyTorch 2.1), and one that reenters autograd in a Function."""
    module = torch.utils.checkpoint

    def generator(*_: Any, **__: Any) -> Iterator[None]:
        given = sys._getframe(1).f_locals  # of checkpoint()
        if given.get("context_fn") is not getattr(module, "noop_context_fn", None) and torch.is_grad_enabled():
            raise ExportError(f"{source_line()}: torch.utils.checkpoint with context_fn=, which gpuplan does not plan")
        if recorder.inside:
            yield
            return
        frame = recorder.open_frame(Frame(None, recorder.frames[-1].path, recorder.values_in((given["args"], given["kwargs"]))))
        del given
        yield
        recorder.close_checkpoint(frame, sys._getframe(1).f_locals["ret"])

    def followed_run(run: Callable, args: tuple, kwargs: dict, reentrant: bool = False) -> Any:
        if recorder.inside:
            return run(*args, **kwargs)
        frame = recorder.open_frame(Frame(None, recorder.frames[-1].path, recorder.values_in((args, kwargs))))
        result = run(*args, **kwargs)
        recorder.close_checkpoint(frame, result, reentrant)
        return result

    def function(run: Callable, preserve_rng_state: bool = True, *args: Any, **kwargs: Any) -> Any:
        return followed_run(run, args, kwargs)

    def reentrant(ctx: Any, run: Callable, preserve_rng_state: bool, *args: Any) -> Any:
        with torch.set_grad_enabled(recorder.grad):  # what runs again in backward
            return followed_run(run, args, {}, reentrant=True)

    for name in ("_checkpoint_without_reentrant_generator_impl", "_checkpoint_without_reentrant_generator"):
        if name in vars(module):
            replacements.set(module, name, generator)
    if "_checkpoint_without_reentrant" in vars(module):
        replacements.set(module, "_checkpoint_without_reentrant", function)
    replacements.set(module.CheckpointFunction, "forward", staticmethod(reentrant))


def follow_autocast(recorder: Recorder, replacements: Replacements) -> None:
    """A model that turns autocast on by itself computes in types that the spec, whose precision --amp chooses, does not say."""
    autocast = torch.autocast
    make = autocast.__init__

    def init(self: Any, device_type: str = "cuda", *args: Any, **kwargs: Any) -> None:
        enabled = kwargs.get("enabled", args[1] if len(args) > 1 else True)
        if enabled and not recorder.inside:
            raise ExportError(f"{source_line()}: the model turns autocast on by itself: export it without, and plan with --amp "
                              "bf16 or fp16")
        if not recorder.inside:
            recorder.notes[f"{source_line()} turns autocast off for a part of the model, which --amp does not."] = None
        make(self, "cpu", enabled=False)

    replacements.set(autocast, "__init__", init)


def follow_causal_hints(recorder: Recorder, replacements: Replacements) -> None:
    """nn.Transformer reads the values of a mask to know whether it is the causal one; here they are not there."""
    module = nn.modules.transformer
    original = getattr(module, "_detect_is_causal_mask", None)
    if original is None:
        return

    def detect(mask: Optional[torch.Tensor], is_causal: Optional[bool] = None, size: Optional[int] = None) -> bool:
        if is_causal is not None or mask is None:
            return is_causal is True
        square = mask.dim() == 2 and mask.shape[0] == mask.shape[1] == (size or mask.shape[0])
        if square:
            recorder.notes["nn.Transformer's square masks are taken to be causal, which their values say."] = None
        return square

    replacements.set(module, "_detect_is_causal_mask", detect)


@contextlib.contextmanager
def not_compiled(replacements: Replacements) -> Iterator[None]:
    """torch.compile's functions run as they are written."""
    if hasattr(torch, "compile"):
        def as_written(model: Any = None, **_: Any) -> Any:
            return (lambda function: function) if model is None else model
        replacements.set(torch, "compile", as_written)
    if "torch._dynamo" not in sys.modules:
        yield
    elif hasattr(getattr(torch, "compiler", None), "set_stance"):
        with torch.compiler.set_stance("force_eager"):
            yield
    else:
        config = sys.modules["torch._dynamo"].config
        was = getattr(config, "disable", False)
        config.disable = True
        try:
            yield
        finally:
            config.disable = was


# --- transformers -----------------------------------------------------------------------------------------------------

# Its models are Python code over the same calls of torch as others. What is recognised as a layer of the catalog is
# what depends on the values of tensors (masks, which a tensor without data cannot decide on), what other releases and
# attention implementations run differently (--pytorch, --attention) and what reads better under its name.


def source_of(thing: Any) -> str:
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        return ""


def transformers_layer(module: nn.Module) -> Optional[Tuple[str, List[Tuple[str, Any]]]]:
    """The layer that a module of transformers is, and its arguments."""
    name = type(module).__name__
    if type(module).__module__ == "transformers.activations":
        return activation_layer(module, name)
    if name.endswith("RMSNorm") or name == "T5LayerNorm":
        return norm_layer(module, name)
    if name.endswith("RotaryEmbedding"):
        return rotary_layer(module)
    if name == "MixtralSparseMoeBlock":
        gate_up = getattr(module.experts, "gate_up_proj", None)
        if not isinstance(gate_up, nn.Parameter) or getattr(module, "jitter_noise", 0):
            return None
        experts, twice, hidden = gate_up.shape
        return "MixtureOfExperts", [("", hidden), ("", twice // 2), ("", experts), ("", module.top_k)]
    if name in ("OPTLearnedPositionalEmbedding", "WhisperPositionalEmbedding"):
        if name.startswith("OPT") and "position_ids" not in inspect.signature(module.forward).parameters:
            return None  # of transformers 4.38, which counts positions itself
        count, size = module.weight.shape
        return name, [("", count - getattr(module, "offset", 0)), ("", size)]
    if name == "GemmaTextScaledWordEmbedding":
        return name, [("", module.num_embeddings), ("", module.embedding_dim)]
    return None


def activation_layer(module: nn.Module, name: str) -> Optional[Tuple[str, List[Tuple[str, Any]]]]:
    if name == "NewGELUActivation":
        return "NewGELU", []
    if name == "GELUActivation" and getattr(module, "act", None) is nn.functional.gelu:
        return "GELU", []
    if name in ("GELUTanh", "PytorchGELUTanh") and "Python" not in type(getattr(module, "act", None)).__name__ \
            and getattr(getattr(module, "act", None), "__name__", "gelu") != "_gelu_tanh_python":
        return "GELU", [("approximate", "tanh")]
    return ("SiLU", []) if name == "SiLUActivation" else None


def norm_layer(module: nn.Module, name: str) -> Optional[Tuple[str, List[Tuple[str, Any]]]]:
    source = source_of(type(module).forward) + source_of(getattr(type(module), "_norm", None))
    squares = ".pow(2).mean(-1, keepdim=True)" in source and "torch.rsqrt(" in source
    size = getattr(getattr(module, "weight", None), "shape", [0])[0]
    if name == "T5LayerNorm" and squares and "self.weight * hidden_states" in source:
        return "T5LayerNorm", [("", size), ("eps", module.variance_epsilon)]
    if squares and "self.weight * hidden_states.to(input_dtype)" in source:
        return "LlamaRMSNorm", [("", size), ("eps", module.variance_epsilon)]
    if squares and "output * (1.0 + self.weight.float())" in source:
        return "GemmaRMSNorm", [("", size), ("eps", module.eps)]
    return None


def rotary_layer(module: nn.Module) -> Optional[Tuple[str, List[Tuple[str, Any]]]]:
    """cos and sin of positions. Frequencies that a longer sequence replaces are another module."""
    kind = str(getattr(module, "rope_type", "default"))
    source = source_of(type(module).forward)
    if "dynamic" in kind or kind == "longrope" or "cos = emb.cos() * self.attention_scaling" not in source:
        return None
    config = module.config
    base = (getattr(config, "rope_parameters", None) or {}).get("rope_theta") or getattr(config, "rope_theta", 10000.0)
    return "LlamaRotaryEmbedding", [("", 2 * module.inv_freq.numel()), ("base", float(base))]


def converts_for(frame: Optional[nn.Module], name: str) -> bool:
    """Whether a module of transformers converts what it gives to its child to the type of the child's weight: T5's, which
    writes the conversion only where the types differ, as under autocast."""
    return type(frame).__module__.startswith("transformers.models.") and \
        f".to(self.{name}.weight.dtype)" in source_of(type(frame).forward)


def turns_as_llama(function: Callable) -> bool:
    """Whether apply_rotary_pos_emb of a model is Llama's."""
    source = source_of(function)
    half = source_of(getattr(sys.modules.get(function.__module__), "rotate_half", None))
    return all(line in source for line in ("cos = cos.unsqueeze(unsqueeze_dim)", "(q * cos) + (rotate_half(q) * sin)",
                                           "(k * cos) + (rotate_half(k) * sin)", "return q_embed, k_embed")) \
        and "float()" not in source and "x1 = x[..., : x.shape[-1] // 2]" in half and "torch.cat((-x2, x1), dim=-1)" in half


# Functions of transformers.masking_utils; whether they return a mask depends on the values of tensors.
CAUSAL_MASKS = frozenset(["create_causal_mask", "create_sliding_window_causal_mask"])
MASKS = CAUSAL_MASKS | {"create_bidirectional_mask"}


def run_function(original: Callable, name: str, args: tuple, kwargs: dict) -> Any:
    """The function's result; a mask that the values of tensors decide on is there."""
    if name not in MASKS:
        return original(*args, **kwargs)
    given = inspect.signature(original).bind(*args, **kwargs).arguments
    embeddings = given.get("inputs_embeds", given.get("input_embeds"))
    padding = given.get("attention_mask")
    if padding is not None and padding.dim() != 2:
        return original(*args, **kwargs)  # it is the mask
    if padding is not None:
        refuse_other_masks(name, given)
        return torch.ones(padding.shape[0], 1, embeddings.shape[1], padding.shape[1], dtype=torch.bool, device="meta")
    if not masks_later_keys(name, given.get("config")):
        return original(*args, **kwargs)  # nothing is masked
    window = getattr(given.get("config"), "sliding_window", None) if name != "create_causal_mask" else None
    if given.get("past_key_values") is not None and (window is None or embeddings.shape[1] < window):
        return None  # nothing is computed: attention is called as causal
    return torch.ones(embeddings.shape[0], 1, embeddings.shape[1], embeddings.shape[1], dtype=torch.bool, device="meta")


def masks_later_keys(name: str, config: Any) -> bool:
    return name in CAUSAL_MASKS and getattr(config, "is_causal", True)


def refuse_other_masks(name: str, given: Dict[str, Any]) -> None:
    """An attention_mask with what the layer AttentionMask does not have."""
    version = getattr(sys.modules.get("transformers"), "__version__", "5")
    if int(version.split(".")[0]) < 5:
        raise ExportError(f"{source_line()}: {name}: the masks that transformers {version} makes of an attention_mask are not "
                          "known, those of transformers 5 are. Leave it out of the batch: sequences are then taken to be of "
                          "full length.")
    others = [n for n in ("or_mask_function", "and_mask_function", "block_sequence_ids") if given.get(n) is not None]
    if others:
        raise ExportError(f"{source_line()}: {name}: with {others[0]}, which no layer does")


@contextlib.contextmanager
def transformers_recorded(recorder: Recorder) -> Iterator[None]:
    """Where transformers is loaded, its functions that are one layer are recorded as one call."""
    undo: List[Callable[[], None]] = []

    def wrapped(original: Callable, name: str) -> Callable:
        return functools.wraps(original)(lambda *args, **kwargs: recorder.call_function(original, name, args, kwargs))

    def replace(owner: Any, name: str, as_name: str = "") -> None:
        original = owner.__dict__.get(name)
        if inspect.isfunction(original):
            setattr(owner, name, wrapped(original, as_name or name))
            undo.append(lambda: setattr(owner, name, original))

    def replace_item(mapping: Dict[str, Any], key: str, as_name: str) -> None:
        original = mapping.get(key)
        if inspect.isfunction(original):
            mapping[key] = wrapped(original, as_name)
            undo.append(lambda: mapping.__setitem__(key, original))

    for path, module in list(sys.modules.items()):
        if not path.startswith("transformers.models.") or ".modeling_" not in path:
            continue
        for name in MASKS:
            replace(module, name)
        if turns_as_llama(getattr(module, "apply_rotary_pos_emb", None) or source_line):
            replace(module, "apply_rotary_pos_emb")
        for owner in [t for t in vars(module).values() if inspect.isclass(t) and t.__module__ == path]:
            for name in ("compute_bias", "_shift_right"):
                if owner.__name__.startswith("T5"):
                    replace(owner, name)
        if path.endswith("modeling_whisper"):
            replace(module, "shift_tokens_right", "_shift_right")
    utils, cache, loss = (sys.modules.get("transformers." + n) for n in ("modeling_utils", "cache_utils", "loss.loss_utils"))
    if hasattr(utils, "ALL_ATTENTION_FUNCTIONS"):
        replace_item(getattr(type(utils.ALL_ATTENTION_FUNCTIONS), "_global_mapping", {}), "sdpa", "attention_interface")
    if hasattr(cache, "Cache"):
        replace(cache.Cache, "update", "cache_update")
    answer = "warn_if_padding_and_no_attention_mask"  # it reads the tokens, to warn
    if answer in vars(getattr(utils, "PreTrainedModel", None) or object):
        warn = vars(utils.PreTrainedModel)[answer]
        setattr(utils.PreTrainedModel, answer, lambda *_, **__: None)
        undo.append(lambda: setattr(utils.PreTrainedModel, answer, warn))
    for key, function in list(getattr(loss, "LOSS_MAPPING", {}).items()):
        replace_item(loss.LOSS_MAPPING, key, "loss_function:" + getattr(function, "__name__", key))
    try:
        yield
    finally:
        for step in reversed(undo):
            step()


def run_checked(model: nn.Module, batch: Any, forward: Callable, loss: Optional[Callable]) -> Recorder:
    try:
        return run_recorded(model, batch, forward, loss)
    except ExportError:
        raise
    except Exception as e:  # whatever the model's code raises
        at, what = failing_line(e), first_line(e)
        if "not on the expected device meta" in what or "Expected all tensors to be on the same device" in what:
            raise ExportError(f"{at}: a tensor that is no parameter or buffer of the model stays in the host's memory: register "
                              f"it, or make it on the model's device. {what}") from e
        if isinstance(e, (NotImplementedError, RuntimeError)) and "meta" in str(e).lower():
            raise ExportError(f"{at}: what the model runs depends on the values of its tensors, which are not there: {what} "
                              "(gpuplan shadow --learn follows any script)") from e
        raise ExportError(f"{at}: {failing_module(model, e)} does not run on this batch: {type(e).__name__}: {what}") from e


def first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else ""
    return text if len(text) <= 300 else text[:297] + "..."


def failing_line(error: Exception, nowhere: str = "the model") -> str:
    """The last line of the traceback that is not torch's or this file's."""
    found, trace = nowhere, error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith(TORCH_FOLDER) and os.path.abspath(name) != OWN_FILE:
            found = f"{name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def failing_module(model: nn.Module, error: Exception) -> str:
    """The innermost module whose forward raised it, by its name in the model."""
    names = {id(module): name for name, module in model.named_modules() if name}
    found, trace = "the model", error.__traceback__
    while trace is not None:
        module = trace.tb_frame.f_locals.get("self")
        if id(module) in names:
            found = f"{names[id(module)]} ({type(module).__name__})"
        trace = trace.tb_next
    return found


def no_loss(*_: Any) -> None:
    """Of the run in eval mode, where a loss is given."""


def loss_of(out: Any) -> Optional[torch.Tensor]:
    """The loss that a model computed itself: transformers' outputs name it."""
    found = out.get("loss") if isinstance(out, dict) else getattr(out, "loss", None)
    return found if isinstance(found, torch.Tensor) and found.dim() == 0 else None


# --- a model and batch without data -----------------------------------------------------------------------------------


def unwrapped(model: nn.Module) -> nn.Module:
    """What DataParallel, DistributedDataParallel and torch.compile wrap."""
    wrapping = (nn.DataParallel, nn.parallel.DistributedDataParallel)
    inner = model.module if isinstance(model, wrapping) else getattr(model, "_orig_mod", None)
    return unwrapped(inner) if isinstance(inner, nn.Module) else model


QUANTIZED = ("torch.ao.nn.quantized", "torch.nn.quantized", "torch.ao.nn.intrinsic.quantized", "torch.nn.intrinsic.quantized")


def refuse_modules(model: nn.Module) -> None:
    """Modules and weights that have no Python code to follow, no sizes yet, or a type that no layer has."""
    types: Dict[torch.dtype, str] = {}
    for path, module in model.named_modules():
        if unwrapped(module) is not module:
            continue
        at = f"{path or 'the model'} is a {type(module).__name__}"
        if isinstance(module, torch.jit.ScriptModule):
            raise ExportError(f"{at}, TorchScript, whose Python code is gone: export the nn.Module that it was made of")
        own = vars(module).get("forward")
        if own is not None and getattr(own, "__self__", None) is not module:
            raise ExportError(f"{at} whose forward was replaced by {getattr(own, '__qualname__', type(own).__name__)}, which a copy of "
                              "the model would run on the weights of the original: export the model before that")
        if type(module).__module__.startswith(QUANTIZED):
            raise ExportError(f"{path or 'the model'} is a {class_path(module)}, quantized: export the model that it was made of, and plan with --precision int8")
        if type(module).__name__ in ("FullyShardedDataParallel", "FSDPModule") or type(module).__name__.startswith("FSDP"):
            raise ExportError(f"{at}: export the model before it is sharded, and plan with `gpuplan fit`")
        for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
            if nn.parameter.is_lazy(tensor):
                raise ExportError(f"{at} whose {name} has no size before its first forward: run the model on a batch, then export it")
            if tensor is not None and tensor.dtype.is_complex:
                raise ExportError(f"{at} whose {name} is of complex numbers, which no layer takes")
            if isinstance(tensor, nn.Parameter) and tensor.dtype.is_floating_point:
                types.setdefault(tensor.dtype, f"{path}.{name}" if path else name)
    if len(types) > 1:
        named = ", ".join(f"{name} of {dtype_name(dtype)}" for dtype, name in types.items())
        raise ExportError(f"parameters of several types: {named}. A spec has one, which --precision chooses: convert the model to it")


def on_meta(model: nn.Module) -> nn.Module:
    """A copy of the model whose tensors have no data. No weight of the original is copied on the way."""
    memo: Dict[int, Any] = {}
    for module in model.modules():
        held = list(module._parameters.values()) + list(module._buffers.values()) + list(module.__dict__.values())
        for tensor in held:
            if isinstance(tensor, torch.Tensor) and id(tensor) not in memo:
                empty = torch.empty_like(tensor, device="meta", requires_grad=False)
                memo[id(tensor)] = nn.Parameter(empty, requires_grad=False) if isinstance(tensor, nn.Parameter) else empty
    try:
        copied = copy.deepcopy(model, memo)
    except Exception as e:  # whatever the model holds
        raise ExportError(f"the model cannot be copied (copy.deepcopy): {type(e).__name__}: {first_line(e)}") from e
    for module in list(copied.modules()):
        for name, child in list(module._modules.items()):
            if child is not None and unwrapped(child) is not child:
                module._modules[name] = unwrapped(child)
    return copied


def batch_on_meta(batch: Any, size: int, known: Optional[Dict[int, torch.Tensor]] = None) -> Any:
    """The batch without data, of another size; what is one tensor stays one."""
    known = {} if known is None else known
    if isinstance(batch, torch.Tensor):
        if batch.dim() == 0:
            raise ExportError("a tensor of the batch has no dimensions, of which the first is the batch: give it to the model in "
                              "forward=, as lambda model, batch: model(batch, other)")
        if id(batch) not in known:
            known[id(batch)] = torch.empty((size,) + tuple(batch.shape[1:]), dtype=batch.dtype, device="meta")
        return known[id(batch)]
    if isinstance(batch, dict) or hasattr(batch, "keys"):
        made = {k: batch_on_meta(batch[k], size, known) for k in batch.keys()}
        return made if type(batch) is dict or not isinstance(batch, dict) else type(batch)(made)
    if isinstance(batch, (tuple, list)):
        made_list = [batch_on_meta(v, size, known) for v in batch]
        return type(batch)(*made_list) if hasattr(batch, "_fields") else type(batch)(made_list)
    return batch


def call_on_batch(model: nn.Module, batch: Any) -> Any:
    if isinstance(batch, dict) or hasattr(batch, "keys"):
        return model(**batch)
    if isinstance(batch, (tuple, list)):
        return model(*batch)
    return model(batch)


# --- what depends on the batch ----------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """A size of so many times the batch."""
    times: int


def combine(a: Any, b: Any, where: str, problems: List[str]) -> Any:
    """A value of the first run with Batch where the second one's differs."""
    if isinstance(a, Value) or a is None or isinstance(a, (str, torch.dtype, torch.device)):
        return a
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)) and len(a) == len(b):
        return type(a)(combine(x, y, where, problems) for x, y in zip(a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return {k: combine(v, b.get(k), where, problems) for k, v in a.items()}
    if isinstance(a, (int, float)) and isinstance(b, (int, float)) and a != b:
        times, other = a / TRACED_BATCHES[0], b / TRACED_BATCHES[1]
        if times == other and times == int(times):
            return Batch(int(times))
        problems.append(f"{where}: {a} at a batch of {TRACED_BATCHES[0]}, {b} at {TRACED_BATCHES[1]}: neither a "
                        "constant nor a multiple of the batch")
    return a


def merge_runs(first: Recorder, second: Recorder) -> None:
    """Writes into the first run what depends on the batch."""
    problems: List[str] = []
    merge_frames(first.top, second.top, problems)
    if len(first.every_value) == len(second.every_value):
        for a, b in zip(first.every_value, second.every_value):
            a.shape = combine(a.shape, b.shape, "a tensor", problems)
    elif not problems:
        problems.append("the model makes other tensors a second time, with another batch")
    if problems:
        raise ExportError("\n".join(dict.fromkeys(problems)))


def first_difference(a: Frame, b: Frame) -> str:
    """The line of the first call that one of the frames alone runs."""
    pairs = list(zip(a.steps, b.steps)) + [(s, None) for s in (a.steps + b.steps)[min(len(a.steps), len(b.steps)):]]
    step = next((x for x, y in pairs if getattr(x, "name", "") != getattr(y, "name", None)), None)
    return step.source if isinstance(step, Call) else a.path or "the model"


def merge_frames(a: Frame, b: Frame, problems: List[str]) -> None:
    if [getattr(s, "name", "") for s in a.steps] != [getattr(s, "name", "") for s in b.steps]:
        problems.append(f"{first_difference(a, b)}: the model runs other operations a second time, with another batch: its "
                        "forward depends on its state, on chance or on the size of the batch")
        return
    for x, y in zip(a.steps, b.steps):
        if isinstance(x, Frame):
            merge_frames(x, y, problems)
        else:
            x.args = combine(x.args, y.args, x.source, problems)
            x.kwargs = combine(x.kwargs, y.kwargs, x.source, problems)


# --- calls as layers of the catalog -----------------------------------------------------------------------------------


class Entry:
    """One entry of a `layers:` list."""

    def __init__(self, op: str, arguments: Sequence[Tuple[str, Any]], inputs: List[Value], outputs: List[Value]):
        self.op, self.arguments, self.inputs, self.outputs = op, list(arguments), inputs, outputs
        self.name = ""
        self.event = 0
        self.path = ""  # of the module or the owner of the weights
        self.owner = ""  # what `path` was before the entry stood for its frame
        self.own_weights = False  # its weights are the frame's own: F.conv2d(x, self.weight)
        self.body: Optional[Body] = None
        self.tie = ""
        self.frozen = self.keep = self.has_weights = self.checkpoint = self.reentrant = False
        self.view = False  # moves no data
        self.weights: List[str] = []  # whose names it shares with others that have them
        self.when = ""  # "train" or "infer" where the other mode does not run it
        self.returns = False  # stands for a frame's return


class Body:
    """A frame as entries."""

    def __init__(self, frame: Frame):
        self.frame = frame
        self.inputs = list(frame.inputs)
        self.entries: List[Entry] = []
        self.defined: Dict[Value, List[Tuple[Entry, int]]] = {}  # in-place calls define a tensor again
        self.loss_from: Optional[int] = None  # where the entries of the loss begin, in the model's own body
        self.names: Dict[str, int] = {}
        self.sequential = False
        self.holds: Dict[int, List[Value]] = {}  # after which entry what is let go
        self.made: List[str] = []  # entries as their weights get memory, where it is not as they run
        self.registered: List[str] = []  # and as Module.parameters() has them
        self.input_names: List[str] = []

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        for k, value in enumerate(entry.outputs):
            self.defined.setdefault(value, []).append((entry, k))

    def definition(self, value: Value, before: Optional[Entry]) -> Optional[Tuple[Entry, int]]:
        """The entry that a value was last the result of before another entry, or the end; None where it was given."""
        position = {id(e): i for i, e in enumerate(self.entries)}
        here = len(position) if before is None else position[id(before)]
        earlier = [d for d in self.defined.get(value, ()) if position[id(d[0])] < here]
        return earlier[-1] if earlier else None

    def entry_after(self, at: int) -> Optional[Entry]:
        return self.entries[at + 1] if at + 1 < len(self.entries) else None

    def fresh_name(self, wanted: str) -> str:
        """A name that no entry of this body has."""
        name, count = wanted, 1
        while name in self.names or name in ("input", "inputs"):
            count += 1
            name = f"{wanted}_{count}"
        self.names[name] = 1
        return name


def constants_of_one_frame(run: Recorder) -> set:
    """Tensors that no call of the run made and that the calls of one frame alone read."""
    made = {v for call in flattened_calls(run.top.steps) for v in call.results} | set(run.top.inputs)
    readers: Dict[Value, set] = {}

    def visit(frame: Frame) -> None:
        for step in frame.steps:
            if isinstance(step, Frame):
                visit(step)
                continue
            for value in flat_values((step.args, step.kwargs)):
                if value not in made and value.kind == "activation" and value.weight is None:
                    readers.setdefault(value, set()).add(id(frame))

    visit(run.top)
    return {value for value, frames in readers.items() if len(frames) == 1}


def relative(path: str, frame_path: str) -> Optional[str]:
    """A module's path as seen from a frame; None for one outside of it."""
    if not frame_path:
        return path or None
    return path[len(frame_path) + 1:] if path.startswith(frame_path + ".") else None


class Lowering:
    """Turns a run into bodies. Collects what the catalog lacks."""

    def __init__(self, model: nn.Module, run: Recorder, local_constants: bool = False):
        self.model, self.run = model, run
        self.local_constants = constants_of_one_frame(run) if local_constants else set()
        self.unknown: Dict[str, None] = {}
        self.used: Dict[str, str] = {}  # weights by path, and the absolute path of the entry that has them
        self.owning: Dict[str, str] = {}  # the layer that a weight was first read by
        self.parts: Dict[Value, Optional[Tuple[Value, List[Any]]]] = {}  # views: of what, and which index made them
        self.trained = {n: p.requires_grad for n, p in named_tensors(model, "_parameters")}
        self.differentiated: set = set()  # Values that have a gradient in training
        self.detached: Dict[Tuple[int, Value], Value] = {}  # of a body, what torch.no_grad() reads in place of them
        self.made = {v for call in flattened_calls(run.top.steps) for v in call.results}
        self.source = "the model"  # of the call that is written
        self.cuts = False  # a call under torch.no_grad() is written
        self.names_of_tied = {}
        seen: Dict[int, str] = {}
        for n, p in named_tensors(model, "_parameters", once=False) + named_tensors(model, "_buffers", once=False):
            self.names_of_tied[n] = seen.setdefault(id(p), n)

    # --- frames

    def lower(self, frame: Frame) -> Body:
        body = Body(frame)
        for value in frame.inputs:
            value.shape = value.shape
        for step in frame.steps:
            self.cuts = isinstance(step, Call) and self.run.grad and not step.grad
            self.source = getattr(step, "source", self.source)
            if isinstance(step, Frame):
                self.add_block(body, step)
            elif step.module is not None:
                self.add_module(body, step)
            else:
                self.add_function(body, step)
            if isinstance(step, Call):
                self.add_attributes(body, step)
        return body

    def add_attributes(self, body: Body, call: Call) -> None:
        for value in call.results:
            if value.stays and value in body.defined:
                entry = Entry("Attribute", [], [value], [value])
                entry.event, entry.view = call.event, True
                self.connect(body, entry)

    def add_block(self, body: Body, frame: Frame) -> None:
        child = self.lower(frame)
        if not child.entries:
            return
        frame.results += self.outliving(child, frame)
        only = child.entries[0]
        collapses = not frame.checkpoint and len(child.entries) == 1 and only.own_weights and only.outputs == frame.results and len(frame.inputs) == 1
        if collapses:
            entry = only
            entry.own_weights = False
            entry.owner = entry.path
            entry.inputs = list(frame.inputs)
        else:
            self.finish(child)
            entry = Entry("", (), child.inputs, list(frame.results))
            entry.body = child
        entry.event = frame.end
        entry.path = frame.path if frame.module is not None else \
            next((e.path for inner in all_bodies(child) for e in inner.entries if e.has_weights), "")
        entry.checkpoint, entry.reentrant = frame.checkpoint, frame.reentrant
        if frame.reentrant and self.run.grad and not any(self.has_gradient(v) for v in child.inputs):
            self.unknown[f"{self.source_of(frame)}: torch.utils.checkpoint with use_reentrant=True of what wants no gradient, which "
                         "leaves the weights in it without one: give use_reentrant=False"] = None
        rel = relative(frame.path, body.frame.path)
        entry.name = body.fresh_name(rel or snake(frame.kind))
        for value in entry.inputs:
            self.find(body, value)
        body.add(entry)

    @staticmethod
    def source_of(frame: Frame) -> str:
        """Of the first call of a frame."""
        return next((c.source for c in flattened_calls(frame.steps)), frame.path or "the model")

    def outliving(self, child: Body, frame: Frame) -> List[Value]:
        """Results of the frame's calls that it did not return and that live on all the same, in a list of its caller's."""
        known = {v.storage for v in frame.results + frame.inputs}
        found: Dict[int, Value] = {}
        for value in sorted(child.defined, key=lambda v: v not in self.run.top.results):  # of a storage, what the model returns
            cached = any(entry.op == "KVCache" for entry, _ in child.defined[value])
            if value.kind == "activation" and frame.end <= value.died < FOREVER and value.storage not in known and not (cached or value.stays):
                found.setdefault(value.storage, value)
        return list(found.values())

    def finish(self, body: Body) -> None:
        """The last entry is what the frame returned."""
        results = [v for v in body.frame.results]
        for value in results:
            self.find(body, value)
        last = body.entries[-1]
        if len(results) == 1 and (not last.outputs or last.outputs[0] is not results[0]):
            add_return(body, "Identity", results, results)
        elif len(results) > 1 and last.outputs != results:
            add_return(body, "Return", results, results)

    def find(self, body: Body, value: Value) -> None:
        """Makes a value known in a body: defined by an entry, given to it, or a weight of its own."""
        if value in body.defined or value in body.inputs:
            return
        if value.weight is not None:
            rel = relative(value.weight, body.frame.path)
            if rel is not None and not self.is_leaf_weight(body, rel):
                return self.add_weight(body, value, rel)
        if body.frame is self.run.top or value in self.local_constants:
            if value.kind == "activation":
                self.constant(body, value)
            return
        body.inputs.append(value)

    def weight_value(self, weight: torch.Tensor) -> Value:
        """A parameter that a recognised function reads by itself."""
        return self.run.value_of(weight)

    def is_leaf_weight(self, body: Body, rel: str) -> bool:
        return False

    def constant(self, body: Body, value: Value) -> None:
        """A tensor that the model's code keeps outside of parameters and buffers."""
        if any(isinstance(n, Batch) for n in value.shape) and value not in self.made:
            self.unknown[f"{self.source}: a tensor [{', '.join('batch' if isinstance(n, Batch) else str(n) for n in value.shape)}] "
                         "that no call of torch made: TorchScript's or an extension's"] = None
        entry = Entry("Constant", [("shape", list(value.shape)), ("dtype", dtype_name(value.dtype))], [], [value])
        entry.name = body.fresh_name("constant")
        entry.view = True
        body.add(entry)

    def add_weight(self, body: Body, value: Value, rel: str) -> None:
        if value.kind == "parameter":
            entry = Entry("Parameter", [("", n) for n in value.shape] or [("shape", [])], [], [value])
        else:
            entry = Entry("Buffer", [("shape", list(value.shape)), ("dtype", dtype_name(value.dtype))], [], [value])
        entry.name = body.fresh_name(rel)
        entry.view = True
        self.own(entry, [value.weight or ""], value.weight or "")
        if self.owning.get(value.weight or "") not in (None, *DECLARING):
            self.unknown[f"{self.source}: reads {value.weight}, which is the weight of a layer, by itself"] = None
        body.add(entry)

    def own(self, entry: Entry, weights: List[str], path: str) -> None:
        """The entry has these weights, or shares them with the one that had them first."""
        entry.has_weights = True
        entry.path = path
        entry.weights = list(weights)
        parameters = [w for w in weights if w in self.trained]
        entry.frozen = bool(parameters) and not any(self.trained[w] for w in parameters)
        if parameters and not entry.frozen and not all(self.trained[w] for w in parameters):
            self.unknown[f"{path}: some of its weights are frozen and others are not"] = None
        owners = {self.used[w] for w in weights if w in self.used}
        if owners:
            entry.tie = sorted(owners)[0]
        for w in weights:
            self.used.setdefault(w, path)
            self.owning.setdefault(w, entry.op)

    # --- modules

    def add_module(self, body: Body, call: Call) -> None:
        module, path = call.module, call.path
        assert module is not None
        tensors = module_inputs(call)
        if call.name == "Identity":
            return
        arguments = sizes_as_run(constructor_arguments(module), call)
        untold = [n for n, v in arguments if n in ("return_indices", "track_running_stats") and v and call.name in ("MaxPool2d", "InstanceNorm2d")]
        if untold:
            return self.refuse(call, f"with {untold[0]}")
        if call.name == "Embedding" and (module.sparse or module.max_norm is not None):
            return self.refuse(call, "with sparse gradients" if module.sparse else "with max_norm")
        if call.name == "EmbeddingBag" and (module.sparse or module.max_norm is not None or module.include_last_offset or
                                            module.scale_grad_by_freq or any(v.dtype.is_floating_point for v in tensors)):
            return self.refuse(call, "with sparse gradients, max_norm, a last offset, scaled gradients or weights of samples")
        if call.name.endswith("Cell") and len(tensors[0].shape) != 2:
            return self.refuse(call, "without a batch")
        if len({p.requires_grad for p in module.parameters()}) > 1 and call.name in ("Linear", "Conv1d", "Conv2d"):
            return self.add_with_parameters(body, call, arguments)
        if call.name == "MultiheadAttention":
            need = call.kwargs.get("need_weights", True)
            arguments += [] if need else [("need_weights", False)]
            tensors = tensors[:1]
        outputs = call.results[:1] if call.name in ("MultiheadAttention",) else list(call.results)
        if call.name in ("Dropout", "Dropout2d", "StochasticDepth") and outputs == tensors and not getattr(module, "inplace", False) \
                and dict(arguments).get("p") in (0, 0.0):
            outputs = list(tensors)
        rel = relative(path, body.frame.path)
        if rel and len(tensors) == 1 and converts_for(body.frame.module, rel):
            conversion = Entry("ToParameterType", [], tensors, tensors)
            conversion.event = call.event
            self.connect(body, conversion)
        entry = Entry(call.name, arguments, tensors, outputs)
        entry.event = call.event
        weights = [self.names_of_tied.get(f"{path}.{n}", f"{path}.{n}") for n, _ in list(module.named_parameters()) + list(module.named_buffers())]
        entry.path = path
        if weights:
            self.own(entry, weights, path)
        entry.name = body.fresh_name(rel or snake(call.name))
        self.connect(body, entry)

    def add_with_parameters(self, body: Body, call: Call, arguments: List[Tuple[str, Any]]) -> None:
        """A layer of which some weights are trained and others are not: they are entries of their own that it is given."""
        module = call.module
        assert module is not None
        held = [self.weight_value(w) for w in (module.weight, module.bias) if w is not None]
        entry = Entry(call.name, [a for a in arguments if a[0] != "bias"], module_inputs(call) + held, list(call.results))
        entry.event, entry.path = call.event, call.path
        entry.name = body.fresh_name((relative(call.path, body.frame.path) or snake(call.name)) + ".result")
        self.connect(body, entry)

    def connect(self, body: Body, entry: Entry) -> None:
        for value in entry.inputs:
            self.find(body, value)
        if self.cuts:
            self.cut(body, entry)
        elif entry.op != "Detach" and (entry.weights and not entry.frozen or any(self.has_gradient(v) for v in entry.inputs)):
            self.differentiated.update(entry.outputs)
        body.add(entry)

    def has_gradient(self, value: Value) -> bool:
        trained = value.kind == "parameter" and self.trained.get(value.weight or "", False)
        return value.dtype.is_floating_point and (trained or value in self.differentiated)

    def cut(self, body: Body, entry: Entry) -> None:
        """An entry of a call under torch.no_grad(): nothing is saved for a backward."""
        if entry.weights and not entry.frozen:
            entry.frozen = True
            if entry.tie:
                self.unknown[f"{entry.path}: its weights are read under no_grad and trained elsewhere"] = None
        for i, value in enumerate(entry.inputs):
            if value in entry.outputs or not self.has_gradient(value):
                continue
            known = self.detached.get((id(body), value))
            if known is None or known not in body.defined:
                known = object.__new__(Value)
                known.__dict__.update(vars(value))
                known.weight, known.kind = None, "activation"
                made = Entry("Detach", [], [value], [known])
                made.event, made.view = entry.event, True
                body.add(made)
                self.detached[(id(body), value)] = known
            entry.inputs[i] = known

    def refuse(self, call: Call, why: str = "") -> None:
        self.unknown[f"{call.source}: {call.name}" + (f" ({why})" if why else "")] = None

    # --- functions

    def add_function(self, body: Body, call: Call) -> None:
        values = flat_values((call.args, call.kwargs)) + call.results
        if values and all(v.host for v in values):
            return  # takes the host's memory
        if any(v.host and v.shape for v in values) and call.name not in ("to", "cuda", "__getitem__"):
            return self.refuse(call, "of a tensor in the host's memory")
        if any(v.dtype.is_complex for v in values):
            return self.refuse(call, "of complex numbers")
        if call.kwargs.get("out") is not None:
            return self.refuse(call, "with out=")
        if call.kwargs.get("memory_format") not in (None, torch.contiguous_format, torch.preserve_format):
            return self.refuse(call, "to a memory format: leave it out, and plan with --layout nhwc")
        handler = FUNCTIONS.get(call.name)
        if handler is None:
            return self.refuse(call, "its backward is the model's own: modes=('eval',) or --eval exports inference" if
                               call.name.startswith("autograd.Function") else "called as TorchScript does: take the Python function "
                               "that it was made of" if "." in call.name else "no layer does this")
        writer = Writer(self, body, call)
        try:
            handler(writer)
        except Unsupported as e:
            self.refuse(call, str(e))


def add_return(body: Body, op: str, inputs: List[Value], outputs: List[Value]) -> Entry:
    entry = Entry(op, (), inputs, outputs)
    entry.view = entry.returns = True
    body.add(entry)
    return entry


def sizes_as_run(arguments: List[Tuple[str, Any]], call: Call) -> List[Tuple[str, Any]]:
    """The sizes that a module gave its result, where its layer is not told them as the module was."""
    kept = call.name == "AdaptiveAvgPool2d" and any(isinstance(v, tuple) and None in v for _, v in arguments)
    scaled = call.name == "Upsample" and any(n == "scale_factor" and isinstance(v, tuple) for n, v in arguments)
    size = simplified(tuple(call.results[0].shape[2:])) if call.results else None
    return [("output_size", size) if kept and n == "output_size" else ("size", size) if scaled and n == "scale_factor" else (n, v)
            for n, v in arguments]


def module_inputs(call: Call) -> List[Value]:
    """The tensors that a module's layer reads; some modules take more for their sizes."""
    tensors = flat_values((call.args, call.kwargs))
    if call.name in ("LlamaRotaryEmbedding", "OPTLearnedPositionalEmbedding", "WhisperPositionalEmbedding"):
        return [call.kwargs["position_ids"]] if isinstance(call.kwargs.get("position_ids"), Value) else tensors[-1:]
    return tensors


class Unsupported(Exception):
    """A call whose arguments no layer takes."""


def flat_values(structure: Any) -> List[Value]:
    if isinstance(structure, Value):
        return [structure]
    if isinstance(structure, dict):
        structure = list(structure.values())
    if isinstance(structure, (tuple, list)):
        return [v for child in structure for v in flat_values(child)]
    return []


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).replace("torch.", "")


class Writer:
    """Writes the entries of one call."""

    def __init__(self, lowering: Lowering, body: Body, call: Call):
        self.lowering, self.body, self.call = lowering, body, call
        self.args, self.kwargs = call.args, call.kwargs

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        if position < len(self.args):
            return self.args[position]
        return self.kwargs.get(name, default)

    def tensors(self) -> List[Value]:
        return flat_values((self.args, self.kwargs))

    @property
    def x(self) -> Value:
        return self.argument(0, "input", self.kwargs.get("self"))

    def results(self) -> List[Value]:
        return self.call.results

    def emit(self, op: str, arguments: Sequence[Tuple[str, Any]], inputs: List[Value],
             outputs: Optional[List[Value]] = None, view: bool = False) -> Entry:
        entry = Entry(op, arguments, inputs, self.results() if outputs is None else outputs)
        entry.event = self.call.event
        entry.view = view
        self.lowering.connect(self.body, entry)
        return entry

    def inner(self, shape: Sequence[Any], like: Optional[Value] = None) -> Value:
        """A tensor between two layers that one call becomes."""
        value = object.__new__(Value)
        value.__dict__.update(vars(self.x if like is None else like))
        value.shape, value.died, value.weight, value.kind = tuple(shape), self.call.event, None, "activation"
        return value

    def with_weights(self, op: str, arguments: Sequence[Tuple[str, Any]], x: List[Value], weights: List[Any]) -> None:
        """A layer whose weights are parameters of a module: F.linear(x, self.qkv.weight)."""
        given = [w for w in weights if isinstance(w, Value)]
        if any(w.weight is None for w in given):
            raise Unsupported("of a weight that is computed")
        if any(w in self.body.defined for w in given):
            raise Unsupported("of a weight that other calls read, too")
        entry = Entry(op, arguments, x, self.results())
        entry.event = self.call.event
        owner = (given[0].weight or "").rpartition(".")[0] if given else ""
        paths = [w.weight or "" for w in given]
        self.lowering.own(entry, [self.lowering.names_of_tied.get(p, p) for p in paths], owner)
        here = self.body.frame.path
        entry.own_weights = owner == here
        rel = relative(owner, here) or snake(op)
        entry.name = self.body.fresh_name(rel)
        if entry.own_weights:
            entry.path = (here + "." if here else "") + entry.name
            for p in paths:
                self.lowering.used[self.lowering.names_of_tied.get(p, p)] = entry.path
        self.lowering.connect(self.body, entry)


FUNCTIONS: Dict[str, Callable[[Writer], None]] = {}


def handles(*names: str) -> Callable:
    def register(function: Callable[[Writer], None]) -> Callable[[Writer], None]:
        for name in names:
            FUNCTIONS[name] = function
        return function
    return register


def number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


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
        if isinstance(w.x, Value) and isinstance(other, Value):
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
        raise Unsupported("an exponent that is a tensor")
    if exponent in (0, 1):
        raise Unsupported(f"to the power of {exponent}: leave it out")
    w.emit("Pow", [("exponent", exponent)], [w.x])


@handles("matmul", "__matmul__", "bmm", "mm")
def write_matmul(w: Writer) -> None:
    w.emit("MatMul", [], [w.x, w.argument(1, "other", w.kwargs.get("mat2"))])


@handles("triu", "tril")
def write_triangle(w: Writer) -> None:
    diagonal = w.argument(1, "diagonal", 0)
    w.emit("Triu" if w.call.name == "triu" else "Tril", [("diagonal", diagonal)] if diagonal else [], [w.x])


@handles("_weight_norm")
def write_weight_norm(w: Writer) -> None:
    v, g, dim = w.argument(0, "v"), w.argument(1, "g"), w.argument(2, "dim", 0)
    if dim not in (0, len(v.shape) - 1):
        raise Unsupported("of the whole weight, or of a dimension between others")
    w.emit("WeightNorm", [("dim", dim)] if dim else [], [v, g])


@handles("baddbmm")
def write_baddbmm(w: Writer) -> None:
    """Attention's scores on a mask: the product's result holds the mask before."""
    mask = w.x
    if w.lowering.has_gradient(mask) or w.kwargs.get("beta", 1) != 1 or w.kwargs.get("alpha", 1) != 1:
        raise Unsupported("of a tensor with a gradient, or with factors")
    w.emit("MatMul", [], [w.argument(1, "batch1"), w.argument(2, "batch2")])


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
                   "erf": "Erf", "sigmoid_": "Sigmoid", "tanh_": "Tanh", "silu_": "SiLU"}.items():
    handles(_name)(unary(_op, True))


@handles("gelu")
def write_gelu(w: Writer) -> None:
    approximate = w.kwargs.get("approximate", "none")
    w.emit("GELU", [("approximate", approximate)] if approximate != "none" else [], [w.x])


def write_sloped(op: str, name: str, default: float) -> Callable[[Writer], None]:
    def write(w: Writer) -> None:
        slope, changes = w.argument(1, name, default), w.call.name.endswith("_") or w.argument(2, "inplace", False)
        w.emit(op, ([(name, slope)] if slope != default else []) + ([("inplace", True)] if changes else []), [w.x])
    return write


for _name, _op, _argument, _default in (("leaky_relu", "LeakyReLU", "negative_slope", 0.01), ("elu", "ELU", "alpha", 1.0)):
    handles(_name)(write_sloped(_op, _argument, _default))
    handles(_name + "_")(write_sloped(_op, _argument, _default))


def type_asked(w: Writer) -> List[Tuple[str, Any]]:
    """The argument dtype of a call, which takes precedence over --precision and autocast."""
    dtype = w.kwargs.get("dtype")
    return [("dtype", dtype_name(dtype))] if isinstance(dtype, torch.dtype) else []


@handles("dropout", "alpha_dropout", "dropout2d")
def write_dropout(w: Writer) -> None:
    p, training, inplace = w.argument(1, "p", 0.5), w.argument(2, "training", True), w.argument(3, "inplace", False)
    if training or w.results() != [w.x]:
        w.emit("Dropout2d" if w.call.name == "dropout2d" else "Dropout", [("p", p if training else 0.0)] + ([("inplace", True)] if inplace else []), [w.x])


@handles("softmax", "log_softmax")
def write_softmax(w: Writer) -> None:
    w.emit("Softmax" if w.call.name == "softmax" else "LogSoftmax", [("dim", w.argument(1, "dim"))] + type_asked(w), [w.x])


# --- views


def inferred_shape(shape: Sequence[Any]) -> List[int]:
    """Sizes with -1 for the one that depends on the batch."""
    if sum(isinstance(n, Batch) for n in shape) > 1:
        raise Unsupported("two sizes depend on the batch")
    return [-1 if isinstance(n, Batch) else n for n in shape]


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


def is_view(w: Writer) -> bool:
    return w.results()[0].storage == w.x.storage


@handles("flatten")
def write_flatten(w: Writer) -> None:
    if w.results() == [w.x]:
        return
    start, end = w.argument(1, "start_dim", 0), w.argument(2, "end_dim", -1)
    w.emit("Flatten", [("", start), ("", end)] if (start, end) != (1, -1) else [], [w.x], view=is_view(w))


@handles("unflatten")
def write_unflatten(w: Writer) -> None:
    write_view(w)


def integers_of(w: Writer, name: str) -> List[int]:
    first = w.argument(1, name)
    listed = isinstance(first, (tuple, list)) and not isinstance(first, Batch)
    return list(first) if listed else list(w.args[1:])


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
    if any(isinstance(n, Batch) and n.times != 1 and n != have for n, have in zip(out, padded)):
        raise Unsupported("a multiple of the batch")
    w.emit("Expand", [("", n) for n in sizes], [w.x], view=True)


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
    for index in indices:
        if not isinstance(index, Value) or index.host:
            index = host_index(w, index)
        if index.dtype != torch.int64:
            raise Unsupported("indexed by tensors that are not int64")
        given.append(index)
    w.emit("Index", [("dim", dims[0])] if dims[0] else [], [x] + given)


def host_index(w: Writer, listed: Any) -> Value:
    """A Python list, or numpy's array, as an index."""
    sizes = listed.shape if isinstance(listed, Value) else torch.as_tensor(listed).shape
    value = w.inner(tuple(sizes), w.results()[0])
    value.dtype = torch.int64
    w.emit("FromHost", [("", n) for n in sizes] + [("dtype", "int64")], [], [value])
    return value


# --- joining, reducing, making


@handles("cat", "concat", "concatenate")
def write_cat(w: Writer) -> None:
    w.emit("Cat", [("dim", w.argument(1, "dim", 0))], flat_values(w.argument(0, "tensors")))


@handles("stack")
def write_stack(w: Writer) -> None:
    w.emit("Stack", [("dim", w.argument(1, "dim", 0))], flat_values(w.argument(0, "tensors")))


@handles("mean", "sum")
def write_reduce(w: Writer) -> None:
    dim, keep = w.argument(1, "dim"), w.argument(2, "keepdim", False)
    arguments: List[Tuple[str, Any]] = []
    if isinstance(dim, (int, tuple, list)) and not isinstance(dim, bool):
        arguments.append(("dim", list(dim) if isinstance(dim, (tuple, list)) else dim))
    w.emit("Mean" if w.call.name == "mean" else "Sum", arguments + ([("keepdim", True)] if keep else []) + type_asked(w), [w.x])


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


@handles("amax", "amin")
def write_extremum(w: Writer) -> None:
    dim, keep = w.argument(1, "dim", ()), w.argument(2, "keepdim", False)
    dims = [("dim", list(dim) if isinstance(dim, (tuple, list)) else dim)] if dim != () else []
    w.emit("AMax" if w.call.name == "amax" else "AMin", dims + ([("keepdim", True)] if keep else []), [w.x])


@handles("max", "min")
def write_max(w: Writer) -> None:
    dim, keep = w.argument(1, "dim"), w.argument(2, "keepdim", False)
    if isinstance(w.argument(1, "other"), Value):
        return write_larger(w)
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise Unsupported("of everything")
    if w.call.name == "min":
        raise Unsupported("of a dimension")
    w.emit("Max", [("", dim)] + ([("keepdim", True)] if keep else []), [w.x])


@handles("maximum", "minimum")
def write_larger(w: Writer) -> None:
    """Of every two elements."""
    w.emit("Maximum" if w.call.name.startswith("max") else "Minimum", [], [w.x, w.argument(1, "other")])


@handles("tensor", "as_tensor")
def write_from_host(w: Writer) -> None:
    made_of_sizes(w, "FromHost", sizes_of_result(w) or [("shape", [])])


@handles("all", "any")
def write_all(w: Writer) -> None:
    dim, keep = w.argument(1, "dim"), w.argument(2, "keepdim", False)
    dims = [("", list(dim) if isinstance(dim, (tuple, list)) else dim)] if dim is not None else []
    w.emit("All" if w.call.name == "all" else "Any", dims + ([("keepdim", True)] if keep else []), [w.x])


@handles("one_hot")
def write_one_hot(w: Writer) -> None:
    classes = w.argument(1, "num_classes", -1)
    if classes == -1:
        raise Unsupported("of as many classes as its values have")
    w.emit("OneHot", [("", classes)], [w.x])


@handles("argmax", "argmin")
def write_place(w: Writer) -> None:
    dim, keep = w.argument(1, "dim"), w.argument(2, "keepdim", False)
    w.emit("ArgMax" if w.call.name == "argmax" else "ArgMin",
           ([] if dim is None else [("", dim)]) + ([("keepdim", True)] if keep else []), [w.x])


@handles("topk")
def write_top_k(w: Writer) -> None:
    w.emit("TopK", [("", w.argument(1, "k")), ("dim", w.argument(2, "dim", -1))], [w.x])


@handles("norm", "linalg_vector_norm", "vector_norm")
def write_norm(w: Writer) -> None:
    order = w.argument(1, "ord" if "vector" in w.call.name else "p", 2)
    dim, keep = w.argument(2, "dim"), w.argument(3, "keepdim", False)
    if order not in (2, "fro") or w.kwargs.get("dtype") is not None:
        raise Unsupported("another norm than 2, or of another type")
    dims = [] if dim is None else [("dim", list(dim) if isinstance(dim, (tuple, list)) else dim)]
    w.emit("VectorNorm", dims + ([("keepdim", True)] if keep else []), [w.x])


@handles("addcmul")
def write_addcmul(w: Writer) -> None:
    value = w.kwargs.get("value", 1)
    w.emit("Addcmul", [("value", value)] if value != 1 else [], [w.x, w.argument(1, "tensor1"), w.argument(2, "tensor2")])


@handles("unfold")
def write_unfold(w: Writer) -> None:
    """tensor.unfold, a view with one dimension more; or F.unfold of images."""
    if len(w.results()[0].shape) == len(w.x.shape) + 1:
        return w.emit("UnfoldDimension", [("", w.argument(i, n)) for i, n in ((1, "dimension"), (2, "size"), (3, "step"))],
                      [w.x], view=True) and None
    w.emit("Unfold", window_arguments(w, 1), [w.x])


@handles("fold")
def write_fold(w: Writer) -> None:
    w.emit("Fold", [("output_size", simplified(w.argument(1, "output_size")))] + window_arguments(w, 2), [w.x])


def window_arguments(w: Writer, first: int) -> List[Tuple[str, Any]]:
    defaults = (("kernel_size", None), ("dilation", 1), ("padding", 0), ("stride", 1))
    given = [(n, simplified(w.argument(first + i, n, d)), d) for i, (n, d) in enumerate(defaults)]
    return [(n, v) for n, v, d in given if v != d]


@handles("pad")
def write_pad(w: Writer) -> None:
    mode, value = w.argument(2, "mode", "constant"), w.argument(3, "value", 0)
    if mode == "reflect" and len(w.argument(1, "pad")) == 4:
        return w.emit("ReflectionPad2d", [("", list(w.argument(1, "pad")))], [w.x]) and None
    if mode != "constant":
        raise Unsupported(f"mode {mode}")
    if w.results() == [w.x]:
        return
    w.emit("Pad", [("pad", list(w.argument(1, "pad")))] + ([("value", value)] if value else []), [w.x])


@handles("roll")
def write_roll(w: Writer) -> None:
    shifts, dims = w.argument(1, "shifts"), w.argument(2, "dims")
    listed = [list(v) if isinstance(v, (tuple, list)) else [v] for v in (shifts, dims)]
    w.emit("Roll", [("shifts", listed[0]), ("dims", listed[1])], [w.x])


@handles("interpolate", "upsample")
def write_interpolate(w: Writer) -> None:
    mode, corners = w.argument(3, "mode", "nearest"), w.argument(4, "align_corners")
    size = [n for n in w.results()[0].shape[2:]]
    scale = None if w.argument(5, "recompute_scale_factor") else simplified(w.argument(2, "scale_factor"))
    if mode not in ("nearest", "linear", "bilinear", "bicubic") or mode == "nearest" and len(w.x.shape) != 4:
        raise Unsupported(f"mode {mode} of {len(w.x.shape)} dimensions")
    arguments: List[Tuple[str, Any]] = [("scale_factor", scale)] if number(scale) else [("size", simplified(size))]
    arguments += [("mode", mode)] if mode != "nearest" else []
    arguments += [("align_corners", corners)] if corners is not None else []
    w.emit("Interpolate", arguments + ([("antialias", True)] if w.argument(6, "antialias", False) else []), [w.x])


@handles("adaptive_avg_pool2d")
def write_adaptive_pool(w: Writer) -> None:
    w.emit("AdaptiveAvgPool2d", [("", simplified(tuple(w.results()[0].shape[-2:])))], [w.x])


@handles("avg_pool2d", "max_pool2d")
def write_pool(w: Writer) -> None:
    names = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override") \
        if w.call.name == "avg_pool2d" else ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
    defaults = {"stride": None, "padding": 0, "dilation": 1, "ceil_mode": False, "count_include_pad": True,
                "divisor_override": None, "return_indices": False}
    arguments = []
    for i, name in enumerate(names):
        value = simplified(w.argument(i + 1, name, defaults.get(name)))
        if value != defaults.get(name) and value != ():
            arguments.append((name, value))
    w.emit("AvgPool2d" if w.call.name == "avg_pool2d" else "MaxPool2d", arguments, [w.x])


@handles("avg_pool1d")
def write_pool_1d(w: Writer) -> None:
    """An image of one row (aten/src/ATen/native/Pooling.cpp, avg_pool1d)."""
    kernel, stride, padding = (simplified(w.argument(i, n, d)) for i, n, d in (
        (1, "kernel_size", None), (2, "stride", None), (3, "padding", 0)))
    if w.argument(4, "ceil_mode", False) or not w.argument(5, "count_include_pad", True):
        raise Unsupported("with these options")
    stride = kernel if stride is None or stride == () else stride
    shape, out = list(w.x.shape), list(w.results()[0].shape)
    row, pooled = w.inner(shape[:-1] + [1] + shape[-1:]), w.inner(out[:-1] + [1] + out[-1:])
    w.emit("Unsqueeze", [("", -2)], [w.x], [row], view=True)
    arguments = [("kernel_size", [1, kernel]), ("stride", [1, stride])] + ([("padding", [0, padding])] if padding else [])
    w.emit("AvgPool2d", arguments, [row], [pooled])
    w.emit("Squeeze", [("", -2)], [pooled], view=True)


@handles("adaptive_max_pool2d")
def write_adaptive_max_pool(w: Writer) -> None:
    w.emit("AdaptiveMaxPool2d", [("", simplified(w.argument(1, "output_size")))], [w.x], w.results()[:1])


@handles("scaled_dot_product_attention")
def write_attention(w: Writer) -> None:
    arguments: List[Tuple[str, Any]] = []
    p, causal, gqa = w.argument(4, "dropout_p", 0.0), w.argument(5, "is_causal", False), w.kwargs.get("enable_gqa", False)
    arguments += [("dropout_p", p)] if p else []
    arguments += [("is_causal", True)] if causal else []
    arguments += [("enable_gqa", True)] if gqa else []
    mask = w.argument(3, "attn_mask")
    w.emit("ScaledDotProductAttention", arguments,
           [w.x if w.x is not None else w.kwargs["query"], w.argument(1, "key"), w.argument(2, "value")] + ([mask] if mask else []))


@handles("clone")
def write_clone(w: Writer) -> None:
    w.emit("Clone", [], [w.x])


def convert_back(w: Writer) -> None:
    """A conversion that does nothing here, to a type of which the code does not say whose it is: that of what the frame was
    given, where something in it was widened."""
    before = [s for s in w.body.frame.steps if isinstance(s, Call) and s.event < w.call.event]
    widened = any(s.to == Type() or isinstance(s.kwargs.get("dtype"), torch.dtype) and s.name in ("softmax", "log_softmax", "mean", "sum") for s in before)
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


@handles("detach", "data")
def write_detach(w: Writer) -> None:
    w.emit("Detach", [], [w.x], view=True)


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
    if len(w.tensors()) != 3:
        raise Unsupported("of numbers")
    w.emit("Where", [], w.tensors())


@handles("normalize")
def write_normalize(w: Writer) -> None:
    if w.argument(1, "p", 2.0) != 2:
        raise Unsupported("another norm than 2")
    if not number(w.argument(2, "dim", 1)):
        raise Unsupported("over several dimensions")
    w.emit("Normalize", [("dim", w.argument(2, "dim", 1))], [w.x])


@handles("einsum")
def write_einsum(w: Writer) -> None:
    """As torch runs it (aten/src/ATen/native/Linear.cpp, sumproduct_pair): one batched product of reshaped operands."""
    equation, operands = str(w.argument(0, "equation")).replace(" ", ""), flat_values(w.args[1:])
    given, _, wanted = equation.partition("->")
    letters = given.split(",")
    sizes = {c: n for part, x in zip(letters, operands) for c, n in zip(part, x.shape)}
    if len(operands) != 2 or "." in equation or not wanted or any(len(set(p)) != len(p) for p in letters + [wanted]):
        raise Unsupported(equation)
    left, right = letters
    if any((c in left) + (c in right) + (c in wanted) < 2 for c in sizes):
        raise Unsupported(equation)
    both = [c for c in wanted if c in left and c in right]
    only_left, only_right = [c for c in wanted if c not in right], [c for c in wanted if c not in left]
    summed = [c for c in left if c not in wanted]
    product = w.results()[0]
    # Autocast gives einsum its operands (autocast_mode.h), before any is reshaped.
    cast = [w.inner(list(x.shape), x) for x in operands]
    for k in (0, 1):
        w.emit("AutocastType", [], [operands[k]], [cast[k]], view=True)
    a = einsum_operand(w, cast[0], left, [both, only_left, summed], sizes)
    b = einsum_operand(w, cast[1], right, [both, summed, only_right], sizes)
    order = both + only_left + only_right
    shape = w.inner([sizes[c] for c in order], product)
    matrices = w.inner([times_all(sizes[c] for c in part) for part in (both, only_left, only_right)], product)
    w.emit("MatMul", [], [a, b], [matrices])
    permuted = order != list(wanted)
    w.emit("View", [("", n) for n in inferred_shape([sizes[c] for c in order])], [matrices], [shape if permuted else product], view=True)
    if permuted:
        w.emit("Permute", [("", order.index(c)) for c in wanted], [shape], [product], view=True)


def einsum_operand(w: Writer, x: Value, letters: str, parts: List[List[str]], sizes: Dict[str, Any]) -> Value:
    """The operand as a batch of matrices."""
    order = [c for part in parts for c in part]
    if order != list(letters):
        y = w.inner([sizes[c] for c in order], x)
        w.emit("Permute", [("", letters.index(c)) for c in order], [x], [y], view=True)
        x = y
    y = w.inner([times_all(sizes[c] for c in part) for part in parts], x)
    w.emit("Reshape", [("", n) for n in inferred_shape(y.shape)], [x], [y], view=True)
    return y


def times_all(sizes: Iterable[Any]) -> Any:
    total, batched = 1, False
    for n in sizes:
        batched = batched or isinstance(n, Batch)
        total *= n.times if isinstance(n, Batch) else n
    return Batch(total) if batched else total


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
        raise Unsupported("by a tensor")
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


def made_of_sizes(w: Writer, op: str, arguments: Sequence[Tuple[str, Any]]) -> None:
    """A tensor that the call makes of its arguments alone."""
    out = w.results()[0]
    if any(isinstance(n, Batch) and n.times != 1 for n in out.shape):
        raise Unsupported("of a multiple of the batch")
    default = torch.int64 if op == "Arange" else torch.float32
    w.emit(op, list(arguments) + ([] if out.dtype == default else [("dtype", dtype_name(out.dtype))]), [])


def sizes_of_result(w: Writer) -> List[Tuple[str, Any]]:
    return [("", "_" if isinstance(n, Batch) else n) for n in w.results()[0].shape]


@handles("zeros", "new_zeros", "zeros_like", "empty", "new_empty", "empty_like")
def write_zeros(w: Writer) -> None:
    sizes = w.results()[0].shape
    if w.body.frame.kind == "T5Attention" and len(sizes) == 4 and w.call.name == "zeros":
        # of the queries' type, which is autocast's where there is one
        return w.emit("ZeroPositionBias", [("", n) for n in sizes[1:]], []) and None
    made_of_sizes(w, "Zeros", sizes_of_result(w))


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


@handles("cumsum")
def write_cumsum(w: Writer) -> None:
    w.emit("Cumsum", [("", w.argument(1, "dim"))] + type_asked(w), [w.x])


def refuse_gradient(w: Writer) -> None:
    if w.lowering.run.grad and w.lowering.has_gradient(w.x):
        raise Unsupported("of a tensor that wants a gradient")


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


# --- functions with weights


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


# --- functions of transformers


@handles("create_causal_mask", "create_sliding_window_causal_mask", "create_bidirectional_mask")
def write_mask(w: Writer) -> None:
    padding, embeddings = w.kwargs.get("attention_mask"), w.kwargs.get("inputs_embeds", w.kwargs.get("input_embeds"))
    if not w.results() or w.results() == [padding]:
        return
    causal = masks_later_keys(w.call.name, w.kwargs["config"])
    window = getattr(w.kwargs["config"], "sliding_window", None) if "sliding_window" in w.call.name and causal else None
    reach: List[Tuple[str, Any]] = [("sliding_window", window)] if window else []
    if padding is not None:
        arguments = [] if causal else [("causal", False)]
        w.emit("AttentionMask", arguments + [("padded", Variable("padded == 1"))] + reach, [embeddings, padding])
    else:
        write_causal_mask(w, embeddings, reach)


def write_causal_mask(w: Writer, embeddings: Value, reach: List[Tuple[str, Any]]) -> None:
    positions = w.kwargs.get("position_ids")
    arguments: List[Tuple[str, Any]] = []
    if w.kwargs["cached"] or positions is None:
        arguments.append(("packed", False))
        arguments.append(("given_positions", False))
    else:
        arguments.append(("packed", Variable("packed == 1")))
    if positions is None:
        positions = next(v for v in w.body.frame.inputs if v.dtype == torch.int64 and len(v.shape) == 2)
    w.emit("CausalMask", arguments + reach, [embeddings, positions])


@handles("apply_rotary_pos_emb")
def write_rotary(w: Writer) -> None:
    dim = w.kwargs.get("unsqueeze_dim", 1)
    w.emit("ApplyRotaryPosEmb", [("unsqueeze_dim", dim)] if dim != 1 else [], [w.kwargs[n] for n in ("q", "k", "cos", "sin")])


@handles("cache_update")
def write_cache_update(w: Writer) -> None:
    windowed = [("windowed", True)] if w.kwargs["windowed"] else []
    w.emit("KVCache", [("copies", True)] + windowed, [w.kwargs["key_states"], w.kwargs["value_states"]])


def eager_source(module: nn.Module) -> str:
    """What the model runs with --attention eager."""
    return source_of(getattr(sys.modules.get(type(module).__module__), "eager_attention_forward", None))


@handles("attention_interface")
def write_attention_interface(w: Writer) -> None:
    module = w.kwargs["module"]
    mask, bias, extra = w.kwargs.get("attention_mask"), w.kwargs.get("position_bias"), w.kwargs.get("kwargs", {})
    causal = w.kwargs.get("is_causal")
    causal = getattr(module, "is_causal", True) if causal is None else causal
    dropout = float(w.kwargs.get("dropout", 0.0))
    arguments: List[Tuple[str, Any]] = [("dropout", dropout)] if dropout else []
    inputs = [w.kwargs[n] for n in ("query", "key", "value")]
    if extra.get("softcap") is not None or extra.get("cache") is not None:
        raise Unsupported("with softcap or a paged cache")
    if isinstance(bias, Value):
        return w.emit("PositionBiasAttention", arguments + ([("causal", True)] if causal else []),
                      inputs + [bias] + ([mask] if mask is not None else [])) and None
    inputs += [mask] if mask is not None else []
    if hasattr(module, "num_key_value_groups") and (causal or mask is not None):
        return w.emit("GroupedQueryAttention", arguments, inputs) and None
    source = eager_source(module)
    softmax = "fp32" if "dtype=torch.float32).to(" in source else "value" if ".type(value.dtype)" in source else "plain"
    arguments += [("softmax", softmax)] if softmax != "plain" else []
    arguments += [] if causal else [("causal", False)]
    w.emit("HuggingFaceAttention", arguments, inputs)


@handles("compute_bias")
def write_position_bias(w: Writer) -> None:
    attention = w.kwargs["self"]
    table = w.lowering.weight_value(attention.relative_attention_bias.weight)
    queries, keys = w.kwargs["query_length"], w.kwargs["key_length"]
    if queries != keys or w.kwargs.get("past_seen_tokens", 0):
        raise Unsupported("of other keys than queries")
    heads = attention.n_heads
    arguments: List[Tuple[str, Any]] = [("", attention.relative_attention_num_buckets), ("", heads), ("", queries)]
    w.with_weights("T5PositionBias", arguments + ([("bidirectional", False)] if attention.is_decoder else []), [], [table])


@handles("_shift_right")
def write_shift_right(w: Writer) -> None:
    w.emit("ShiftRight", [], [next(v for v in w.tensors())])


# --- lifetimes --------------------------------------------------------------------------------------------------------


def all_bodies(body: Body) -> Iterable[Body]:
    yield body
    for entry in body.entries:
        if entry.body is not None:
            yield from all_bodies(entry.body)


def last_seen(run: Recorder) -> Dict[int, int]:
    """Of every storage, the last event of the forward that saw it alive."""
    died: Dict[int, int] = {}
    for value in run.every_value:
        died[value.storage] = max(died.get(value.storage, 0), min(value.died, run.top.end))
    return died


def hold_what_python_holds(top: Body, run: Recorder) -> None:
    """Writes keep: and Rebind() where Python let go of a tensor later than its last use in the spec.

    An entry's result lives until the last kernel that reads it, and what a block was given until the block returns. A
    tensor that was alive while a later kernel allocated was a local variable: until its function returned (keep:), or
    until its name was given to something else (Rebind)."""
    last_use: Dict[int, int] = {}
    allocating: List[int] = []
    for body in all_bodies(top):
        for entry in body.entries:
            if not entry.view:
                read = entry.inputs[:1] if entry.op == "TypeAs" else entry.inputs
                for value in read + entry.outputs:
                    if entry.body is None or value in entry.inputs:
                        last_use[value.storage] = max(last_use.get(value.storage, 0), entry.event)
            if entry.body is None and not entry.view and not (entry.op in ("ReLU", "Add", "Sub") and ("inplace", True) in entry.arguments):
                allocating.append(entry.event)
    if run.loss_event:
        allocating.append(run.loss_event)
    died = last_seen(run)
    permanent = {v.storage for v in run.every_value if v.kind != "activation"} | {v.storage for v in run.top.results}
    permanent |= {v.storage for body in all_bodies(top) for e in body.entries if e.op in ("KVCache", "Attribute") for v in e.outputs}
    for storage, used in last_use.items():
        if storage in permanent or storage not in died:
            continue
        later = [e for e in allocating if used < e <= died[storage]]
        if later and max(later) == run.loss_event:
            for entry in top.entries:
                entry.keep = entry.keep or any(v.storage == storage for v in entry.outputs)
        elif later:
            hold(top, storage, max(later))


def hold(top: Body, storage: int, event: int) -> None:
    """Keeps a storage alive until after the call at `event`."""
    place: Optional[Tuple[Body, int, Entry]] = None
    body: Optional[Body] = top
    while body is not None:
        at = next((i for i, e in enumerate(body.entries) if e.event >= event and (e.body is not None or e.event == event)), None)
        if at is None:
            break
        holder = next((e for e in body.entries[:at + 1] if any(v.storage == storage for v in e.outputs)), None)
        if holder is not None:
            place = (body, at, holder)
        body = body.entries[at].body
    if place is None:
        return
    body, at, holder = place
    value = next(v for v in holder.outputs if v.storage == storage)
    if holder is body.entries[at]:
        return
    to_the_end = all(e.view and e.body is None for e in body.entries[at + 1:])
    if to_the_end and (len(holder.outputs) == 1 or len(body.entries[-1].outputs) > 1):  # keep: holds all of its results
        holder.keep = True
    else:
        body.holds.setdefault(at, []).append(value)


# --- train and eval mode ----------------------------------------------------------------------------------------------

# What training alone does and the plan of an inference leaves out by itself.
OF_TRAINING = frozenset("Dropout Dropout2d StochasticDepth".split())
# Weights that an entry only names: they are there in both modes.
DECLARING = frozenset(["Parameter", "Buffer"])


def alignment_key(entry: Entry) -> Any:
    """Equal for what one mode runs and for its like in the other. Attention is told its dropout by the mode."""
    if entry.body is not None:
        return ("", entry.body.frame.kind, entry.path, len(entry.outputs) > 0)
    if entry.op in DECLARING:
        return (entry.op, entry.path)
    told = ("dropout_p", "dropout")
    bare = Entry(entry.op, [(n, v) for n, v in entry.arguments if n not in told], [], [])
    template = template_of(bare)
    return (template.text, tuple(template.values), entry.path, len(entry.outputs))


def common_subsequence(a: Sequence[Any], b: Sequence[Any]) -> List[Tuple[int, int]]:
    """The positions of a longest common subsequence."""
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    rows, columns = len(a) - start - end, len(b) - start - end
    length = [[0] * (columns + 1) for _ in range(rows + 1)]
    for i in reversed(range(rows)):
        for j in reversed(range(columns)):
            length[i][j] = 1 + length[i + 1][j + 1] if a[start + i] == b[start + j] else \
                max(length[i + 1][j], length[i][j + 1])
    pairs = [(i, i) for i in range(start)]
    i = j = 0
    while i < rows and j < columns:
        if a[start + i] == b[start + j]:
            pairs.append((start + i, start + j))
            i, j = i + 1, j + 1
        elif length[i + 1][j] >= length[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs + [(len(a) - k, len(b) - k) for k in range(end, 0, -1)]


Pair = Tuple[Optional[Entry], Optional[Entry]]


def aligned(a: List[Entry], b: List[Entry]) -> List[Pair]:
    """The entries of both in one order; where neither has the other's, those of `a` first. Declared weights pair up
    wherever they stand, before the first one that reads them."""
    declared_a, declared_b = ({alignment_key(e): e for e in entries if e.op in DECLARING} for entries in (a, b))
    rest_a, rest_b = ([e for e in entries if e.op not in DECLARING] for entries in (a, b))
    done: set = set()
    pairs: List[Pair] = []

    def declare(entries: List[Entry], before: Optional[Entry]) -> None:
        while entries and entries[0] is not before:
            entry = entries.pop(0)
            key = alignment_key(entry)
            if entry.op in DECLARING and key not in done:
                done.add(key)
                pairs.append((declared_a.get(key), declared_b.get(key)))

    left_a, left_b = list(a), list(b)
    at_a = at_b = 0
    keys_a, keys_b = [alignment_key(e) for e in rest_a], [alignment_key(e) for e in rest_b]
    for i, j in common_subsequence(keys_a, keys_b) + [(len(rest_a), len(rest_b))]:
        alone: List[Pair] = [(e, None) for e in rest_a[at_a:i]] + [(None, e) for e in rest_b[at_b:j]]
        both: List[Pair] = [(rest_a[i], rest_b[j])] if i < len(rest_a) else []
        for x, y in alone + both:
            if x is not None:
                declare(left_a, x)
            if y is not None:
                declare(left_b, y)
            pairs.append((x, y))
        at_a, at_b = i + 1, j + 1
    declare(left_a, None)
    declare(left_b, None)
    return pairs


class Rebound(NamedTuple):
    """Tensors that a mode lets go after an entry."""
    at: int
    values: List[Value]
    when: str


class BothModes:
    """Makes one body of those of a run in train mode and a run in eval mode: `when:` is on what one of them runs alone.

    The tensors of the spec are those of train mode, and of eval mode those that it alone makes. An entry that a mode
    does not run hands on its first input there, so that every tensor of the spec is some tensor in both."""

    def __init__(self, died: Dict[int, int], died_in_infer: Dict[int, int]):
        self.died, self.died_in_infer = died, died_in_infer  # by storage, the last event that saw it
        self.infer_of: Dict[Value, Value] = {}  # what a tensor of the spec is in eval mode
        self.train_of: Dict[Value, Value] = {}  # and in train mode, where it is not itself
        self.known: Dict[Value, List[Value]] = {}  # of a tensor of eval mode, those of the spec that it was

    def is_in_infer(self, value: Value, other: Value) -> None:
        self.infer_of[value] = other
        self.known.setdefault(other, []).append(value)

    def in_train(self, value: Value) -> Value:
        return self.train_of.get(value, value)

    # --- one body

    def merge(self, a: Body, b: Body) -> None:
        """Writes b into a."""
        pairs = aligned(without_return(a), without_return(b))
        place = {id(e): i for i, e in enumerate(a.entries)}, {id(e): i for i, e in enumerate(b.entries)}
        held, held_in_infer = ({i: values for i, values in body.holds.items()} for body in (a, b))
        ends = last_allocation(a), last_allocation(b)
        a.entries, a.defined, a.holds = [], {}, {}
        for value in b.inputs:
            if not any(self.infer_of.get(m) is value for m in a.inputs):
                a.inputs.append(self.standing_for(a, value))
        kept: List[Tuple[Entry, str]] = []
        rebinds: List[Rebound] = []
        now = (0, 0)  # the events of both runs that the spec has come to
        for x, y in pairs:
            now = tuple(max(n, e.event) if e is not None else n for n, e in zip(now, (x, y)))
            entry = self.add(a, x, y)
            kept += self.keeps(entry, x, y, ends)
            rebinds += self.holds_of(a, now, held.get(place[0].get(id(x), -1), []),
                                     held_in_infer.get(place[1].get(id(y), -1), []))
        self.add_kept(a, kept, rebinds)
        self.add_rebinds(a, rebinds)

    def add(self, a: Body, x: Optional[Entry], y: Optional[Entry]) -> Entry:
        if x is not None and y is not None:
            self.run_by_both(a, x, y)
            return x
        if x is not None:
            self.run_by_train(a, x)
            return x
        assert y is not None
        self.run_by_infer(a, y)
        return y

    def run_by_both(self, a: Body, x: Entry, y: Entry) -> None:
        if x.body is not None and y.body is not None:
            self.merge(x.body, y.body)
            x.outputs = self.finish(x.body, x.outputs, y.outputs)
            x.inputs = x.body.inputs
            for value in x.inputs:
                self.show(a, value)
        else:
            x.inputs = [self.pick(a, t, e) for t, e in zip(x.inputs, y.inputs)]
            for t, e in zip(x.outputs, y.outputs):
                self.is_in_infer(t, e)
        a.add(x)

    def run_by_train(self, a: Body, x: Entry) -> None:
        if x.op in DECLARING:
            handed_on = x.outputs[0] if x.outputs else None
        else:
            x.when = "" if x.op in OF_TRAINING else "train"
            given = x.inputs[0] if x.inputs else last_result(a)
            handed_on = None if given is None else self.infer_of.get(given)
        for value in x.outputs:
            if handed_on is not None and not (value in x.inputs and value in self.infer_of):
                self.is_in_infer(value, handed_on)
        a.add(x)

    def run_by_infer(self, a: Body, y: Entry) -> None:
        inputs = [self.standing_for(a, e) for e in y.inputs]
        replaced = {e: m for e, m in zip(y.inputs, inputs) if e is not m}
        if y.body is not None:
            replace_values(y.body, replaced)
        y.inputs = inputs if y.body is None else y.body.inputs
        y.outputs = [replaced.get(e, e) for e in y.outputs]
        if y.op not in DECLARING:
            y.when = "infer"
        y.name = a.fresh_name(y.name) if y.name else ""
        given = inputs[0] if inputs else last_result(a)
        for value in y.outputs:
            if value not in inputs:
                self.is_in_infer(value, value)
                if given is not None and y.op not in DECLARING:
                    self.train_of[value] = self.in_train(given)
        a.add(y)

    # --- tensors

    def show(self, body: Body, value: Value) -> None:
        if value not in body.defined and value not in body.inputs:
            body.inputs.append(value)

    def standing_for(self, body: Body, value: Value) -> Value:
        """A tensor of the spec that is this one in eval mode, best one that eval mode makes itself."""
        candidates = [m for m in self.known.get(value, []) if self.infer_of[m] is value]
        seen = [m for m in candidates if m in body.defined or m in body.inputs] or candidates
        if not seen:
            raise ExportError("what eval mode reads at one place is not what train mode has there. Export one mode: modes=('train',)")
        best = [m for m in seen if not any(e.when == "train" for e, _ in body.defined.get(m, ()))] or seen
        self.show(body, best[-1])
        return best[-1]

    def pick(self, body: Body, t: Value, e: Value) -> Value:
        """A tensor of the spec that is `t` in train mode and `e` in eval mode."""
        if self.infer_of.get(t) is e:
            return t
        for m in reversed(self.known.get(e, [])):
            if (m in body.defined or m in body.inputs) and self.infer_of[m] is e and self.in_train(m) is t:
                return m
        made = body.defined.get(e, [])
        if made and made[-1][0].when == "infer" and not made[-1][0].inputs:  # a constant hands on what it is told to
            made[-1][0].inputs = [t]
            self.train_of[e] = t
            return e
        return self.select(body, t, e)

    def select(self, body: Body, t: Value, e: Value) -> Value:
        """An entry that train mode runs, to hand both on, of which the second is wanted; eval mode has the first."""
        entry = Entry("Return", (), [self.standing_for(body, e), t], [])
        chosen, other = (object.__new__(Value) for _ in range(2))
        for value in (chosen, other):
            value.__dict__.update(vars(t))
        entry.outputs = [other, chosen]
        entry.view, entry.when = True, "train"
        entry.name = body.fresh_name("of_mode")
        self.is_in_infer(other, e)
        self.is_in_infer(chosen, e)
        self.train_of[chosen] = t
        body.add(entry)
        return chosen

    # --- results

    def finish(self, body: Body, results: List[Value], infer_results: List[Value]) -> List[Value]:
        """The last entry is what the frame returned, in both modes."""
        partners = self.partners(results, infer_results)
        given = [t if partners[t] is None else self.pick(body, t, partners[t]) for t in results]  # type: ignore[arg-type]
        more = [self.standing_for(body, e) for e in infer_results if e not in partners.values()]
        wanted, last = results + more, body.entries[-1]
        if len(wanted) == 1 and (last.outputs[:1] != given or given != wanted):
            add_return(body, "Identity", given, wanted)
        elif len(wanted) > 1 and (last.outputs != given + more or given != results):
            add_return(body, "Return", given + more, wanted)
        for t, e in partners.items():
            if e is not None:
                self.is_in_infer(t, e)
        return wanted

    def partners(self, results: List[Value], infer_results: List[Value]) -> Dict[Value, Optional[Value]]:
        """The result in eval mode of each in train mode: the same tensor, else the next one that is no other's."""
        found: Dict[Value, Optional[Value]] = {t: None for t in results}
        left = list(infer_results)
        for t in results:
            if self.infer_of.get(t) in left:
                found[t] = self.infer_of[t]
                left.remove(self.infer_of[t])
        for t in results:
            if found[t] is None and left:
                found[t] = left.pop(0)
        return found

    def returned(self, results: List[Value], body: Body, infer_results: List[Value]) -> List[Tuple[Value, str]]:
        """What the output object names besides the output, and the mode where it is that of one."""
        left = list(infer_results)
        found: List[Tuple[Value, str]] = []
        for value in results:
            partner = self.infer_of.get(value)
            found.append((value, "" if partner in left else "train"))
            if partner in left:
                left.remove(partner)
        return found + [(self.standing_for(body, e), "infer") for e in left]

    # --- lifetimes

    def lives(self, value: Value, event: int) -> bool:
        """Whether a tensor of the spec is alive in train mode after this."""
        value = self.in_train(value)
        return value.kind != "activation" or self.died.get(value.storage, FOREVER) >= event

    def lives_in_infer(self, value: Value, event: int) -> bool:
        known = self.infer_of.get(value, value)
        return known.kind != "activation" or self.died_in_infer.get(known.storage, FOREVER) >= event

    def keeps(self, entry: Entry, x: Optional[Entry], y: Optional[Entry], ends: Tuple[int, int]) -> List[Tuple[Entry, str]]:
        """keep: stands where it is true of both modes; otherwise the entry and the mode that keeps its result."""
        if entry.when or not any(e.keep for e in (x, y) if e is not None):
            return []
        in_train = x is not None and x.keep or all(self.lives(v, ends[0]) for v in entry.outputs)
        in_infer = y is not None and y.keep or all(self.lives_in_infer(v, ends[1]) for v in entry.outputs)
        entry.keep = in_train and in_infer
        return [] if entry.keep else [(entry, "train" if in_train else "infer")]

    def holds_of(self, a: Body, now: Tuple[int, ...], held: List[Value], held_in_infer: List[Value]) -> List[Rebound]:
        """What is let go after the last entry: in both modes, or what one of them has let go before."""
        at = len(a.entries) - 1
        both = [v for v in held if self.lives_in_infer(v, now[1])]
        storages = {self.infer_of[v].storage for v in both if v in self.infer_of}
        infer = [self.standing_for(a, e) for e in held_in_infer if e.storage not in storages]
        both += [m for m in infer if self.lives(m, now[0])]
        if both:
            a.holds[at] = both
        alone = ([v for v in held if v not in both], "train"), ([m for m in infer if m not in both], "infer")
        return [Rebound(at, values, when) for values, when in alone if values]

    def add_kept(self, a: Body, kept: List[Tuple[Entry, str]], rebinds: List[Rebound]) -> None:
        """What one mode keeps is held by a name until the frame's end."""
        storages = {self.infer_of[v].storage for e in a.entries if e.keep for v in e.outputs if v in self.infer_of}
        for when in ("train", "infer"):
            values = [v for entry, mode in kept if mode == when for v in entry.outputs if v not in a.entries[-1].outputs]
            if when == "infer":
                values = [v for v in values if v not in self.infer_of or self.infer_of[v].storage not in storages]
            if values:
                rebinds.append(Rebound(len(a.entries) - 1, values, when))

    @staticmethod
    def add_rebinds(a: Body, rebinds: List[Rebound]) -> None:
        for at, values, when in sorted(rebinds, key=lambda r: -r.at):
            current = a.entries[at].outputs[0] if a.entries[at].outputs else a.inputs[0]
            for group in reversed(list(Printer.chunks(values))):
                entry = Entry("Rebind", (), [current] + group, [current])
                entry.view, entry.when = True, when
                a.entries.insert(at + 1, entry)
                a.defined.setdefault(current, []).append((entry, 0))
                a.holds = {i + (i > at): v for i, v in a.holds.items()}


def without_return(body: Body) -> List[Entry]:
    return [e for e in body.entries if not e.returns]


def last_result(body: Body) -> Optional[Value]:
    """What an entry that names nothing is given."""
    if not body.entries:
        return body.inputs[0] if body.inputs else None
    return body.entries[-1].outputs[0] if body.entries[-1].outputs else None


def last_allocation(body: Body) -> int:
    return max((e.event for inner in all_bodies(body) for e in inner.entries if not e.view and e.body is None), default=0)


def replace_values(body: Body, replaced: Dict[Value, Value]) -> None:
    def of(values: List[Value]) -> List[Value]:
        return [replaced.get(v, v) for v in values]

    for inner in all_bodies(body):
        inner.inputs = of(inner.inputs)
        inner.defined = {replaced.get(v, v): d for v, d in inner.defined.items()}
        inner.holds = {i: of(values) for i, values in inner.holds.items()}
        for entry in inner.entries:
            entry.inputs, entry.outputs = of(entry.inputs), of(entry.outputs)


def tie_anew(top: Body) -> None:
    """Weights that both modes read, each in an entry of its own, are those of the first."""
    owners: Dict[str, str] = {}

    def visit(body: Body) -> None:
        for entry in body.entries:
            if entry.weights:
                shared = sorted({owners[w] for w in entry.weights if w in owners})
                entry.tie = shared[0] if shared else ""
                for weight in entry.weights:
                    owners.setdefault(weight, entry.owner or entry.path)
            if entry.body is not None:
                visit(entry.body)

    visit(top)


# --- equal blocks -----------------------------------------------------------------------------------------------------

# Arguments that are written without their name.
POSITIONAL = frozenset("in_channels out_channels kernel_size num_features in_features out_features num_embeddings "
                       "embedding_dim normalized_shape output_size p mode dim embed_dim num_heads num_groups num_channels nf "
                       "nx window_size shift_size input_size hidden_size".split())


class Variable(NamedTuple):
    """An expression of the spec's vars."""
    expression: str


class Template(NamedTuple):
    """A call with a gap for every number and flag in it."""
    text: str
    values: List[Any]
    names: List[str]


def template_of(entry: Entry) -> Template:
    values: List[Any] = []
    names: List[str] = []

    def write(value: Any, name: str) -> str:
        if isinstance(value, Variable):
            return "${" + value.expression + "}"
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(write(v, name) for v in value) + "]"
        if isinstance(value, (bool, int, float)):
            values.append(value)
            names.append(name)
            return "\0"
        if isinstance(value, str) and value != "_":
            return repr(value)
        if isinstance(value, Batch):
            raise ExportError(f"{entry.op} at {entry.path}: an argument that depends on the batch")
        return str(value)

    parts, positional = [], True
    for name, value in entry.arguments:
        skips = entry.op == "EmbeddingBag" and name == "mode"  # what is between is left out
        positional = positional and (not name or name in POSITIONAL) and not skips
        text = write(value, name or snake(entry.op))
        parts.append(text if not name or positional else f"{name}={text}")
    return Template(f"{entry.op}({', '.join(parts)})", values, names)


class Group:
    """Bodies that differ in numbers alone."""

    def __init__(self, name: str):
        self.name = name
        self.bodies: List[Body] = []
        self.columns: List[List[Any]] = []  # of every slot, its value in each body
        self.names: List[str] = []
        self.params: List[Tuple[str, int]] = []  # name, and the slot that stands for it
        self.param_of: Dict[int, str] = {}  # slot to parameter


class Folder:
    """Finds equal bodies, and what differs between them."""

    def __init__(self) -> None:
        self.groups: Dict[Any, Group] = {}
        self.of: Dict[int, Group] = {}
        self.vectors: Dict[int, List[Any]] = {}
        self.slot_names: Dict[int, List[str]] = {}

    def fold(self, top: Body) -> None:
        self.visit(top)
        taken: Dict[str, int] = {}
        for group in self.groups.values():
            base = re.sub(r"\W", "_", group.name) or "Block"
            taken[base] = taken.get(base, 0) + 1
            group.name = base if taken[base] == 1 else f"{base}_{taken[base]}"
            self.find_params(group)

    def visit(self, body: Body) -> Any:
        """The body's signature; its group is made on the way."""
        vector: List[Any] = []
        names: List[str] = []
        signature: List[Any] = [body.frame.kind, len(body.inputs), body.sequential, tuple(body.made), tuple(body.registered)]
        index = {id(e): i for i, e in enumerate(body.entries)}
        for i, entry in enumerate(body.entries):
            child = None
            if entry.body is not None:
                child = self.visit(entry.body)
                vector += self.vectors[id(entry.body)]
                names += self.slot_names[id(entry.body)]
                template = ""
            else:
                t = template_of(entry)
                template = t.text
                vector += t.values
                names += t.names
            references = tuple(self.reference(body, index, v, entry) for v in entry.inputs)
            held = tuple(self.reference(body, index, v, entry) for v in body.holds.get(i, ()))
            signature.append((template, entry.name, references, entry.keep, entry.tie, entry.frozen, held, child,
                              len(entry.outputs), entry.when, entry.checkpoint, entry.reentrant))
        key = tuple(signature)
        kinds = tuple(type(v) for v in vector)
        group = self.groups.setdefault((key, kinds), Group(body.frame.kind))
        group.bodies.append(body)
        group.names = names
        self.of[id(body)] = group
        self.vectors[id(body)], self.slot_names[id(body)] = vector, names
        return (key, kinds)

    @staticmethod
    def reference(body: Body, index: Dict[int, int], value: Value, user: Entry) -> Any:
        known = body.definition(value, user)
        if known is not None:
            return (index[id(known[0])], known[1])
        return ("given", body.inputs.index(value))

    def find_params(self, group: Group) -> None:
        vectors = [self.vectors[id(b)] for b in group.bodies]
        seen: Dict[Any, str] = {}
        taken: Dict[str, int] = {}
        for slot in range(len(vectors[0])):
            column = tuple(v[slot] for v in vectors)
            if len(set(column)) == 1:
                continue
            key = (type(column[0]), column)
            if key not in seen:
                base = group.names[slot]
                taken[base] = taken.get(base, 0) + 1
                seen[key] = base if taken[base] == 1 else f"{base}_{taken[base]}"
                group.params.append((seen[key], slot))
            group.param_of[slot] = seen[key]


# --- YAML -------------------------------------------------------------------------------------------------------------


def scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return call_scalar(value)


def call_scalar(value: Any) -> str:
    if isinstance(value, float):
        if math.isinf(value):  # the grammar's numbers are finite: the largest of fp32
            return repr(math.copysign(3.4028234663852886e+38, value))
        return repr(value)
    return str(value)


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def plain(name: str) -> str:
    """A name that is a YAML word for nothing is written in quotes; other words are names as they are."""
    return quoted(name) if name in ("null", "Null", "NULL") else name


# Words of the grammar, which an entry can be called only by `name:`.
STRUCTURE_WORDS = frozenset("name op block layers residual parallel if from tie frozen checkpoint keep when order repeat loop with "
                            "first last".split())


def listed(names: Sequence[str]) -> str:
    return f"[{', '.join(plain(n) for n in dict.fromkeys(names))}]"


class Printer:
    """Writes the spec."""

    def __init__(self, folder: Folder):
        self.folder = folder
        self.printed: Dict[int, List[str]] = {}  # of a group
        self.defaults: Dict[int, Dict[str, Any]] = {}
        self.folded: Dict[Tuple[int, str], str] = {}  # of a body's entry that is part of a repeat, the repeat's name
        self.loss_line = 0  # of the model's own body, the first one of the loss

    def blocks(self, top: Body) -> List[str]:
        lines: List[str] = []
        for group in self.folder.groups.values():
            if group.bodies[0] is top or all(b.sequential for b in group.bodies):
                continue
            lines.append(f"  {plain(group.name)}:")
            if group.params:
                lines.append("    params: {" + ", ".join(self.param(group, n, s) for n, s in group.params) + "}")
            entries = self.entries(group.bodies[0], group.param_of)
            lines += self.order(group.bodies[0], "    ")
            lines.append("    layers:")
            lines += ["      " + line for line in entries]
        return lines

    def order(self, body: Body, indent: str) -> List[str]:
        made, registered = ([self.folded.get((id(body), n), n) for n in names] for names in (body.made, body.registered))
        if made == registered:
            return [f"{indent}order: {listed(made)}"] if made else []
        parts = [f"{word}: {listed(names)}" for word, names in (("made", made), ("registered", registered)) if names]
        return [f"{indent}order: {{{', '.join(parts)}}}"]

    def param(self, group: Group, name: str, slot: int) -> str:
        column = [self.folder.vectors[id(b)][slot] for b in group.bodies]
        common = max(dict.fromkeys(column), key=column.count)
        if column.count(common) * 2 > len(column):
            self.defaults.setdefault(id(group), {})[name] = common
            return f"{name}: {scalar(common)}"
        return f"{name}: required"

    # Entries of a body, numbers of `param_of`'s slots written as parameters.
    def entries(self, body: Body, param_of: Dict[int, str], start: int = 0) -> List[str]:
        names = self.names(body)
        lines: List[str] = []
        slot, current, i = start, body.inputs[0] if body.inputs else None, 0
        while i < len(body.entries):
            entry = body.entries[i]
            self.loss_line = len(lines) if i == body.loss_from else self.loss_line
            count, folded = self.repeat(body, i, param_of, slot, names)
            origin = self.origin(body, entry, current, names)
            if count > 1:
                lines += self.flow(entry.name.rpartition(".")[0], folded + origin)
                slot += sum(len(self.folder.vectors[id(e.body)]) for e in body.entries[i:i + count])
            else:
                written, used = self.entry(entry, param_of, slot, names, origin)
                lines += written
                slot += used
            last = body.entries[i + count - 1]
            current = last.outputs[0] if last.outputs else None
            for held in self.chunks(body.holds.get(i + count - 1, ())):
                after = body.entry_after(i + count - 1)
                refs = [self.name_of(body, v, names, after) for v in [current] + held]
                lines.append(f"- {{op: Rebind(), from: [{', '.join(refs)}]}}")
            i += count
        return lines

    @staticmethod
    def chunks(values: Sequence[Value]) -> Iterable[List[Value]]:
        return (list(values[i:i + 7]) for i in range(0, len(values), 7))

    def origin(self, body: Body, entry: Entry, current: Optional[Value], names: Dict[int, str]) -> List[str]:
        if not entry.inputs or entry.inputs == [current]:
            return []
        refs = [self.name_of(body, v, names, entry) for v in entry.inputs]
        return [f"from: {refs[0]}" if len(refs) == 1 else f"from: [{', '.join(refs)}]"]

    def name_of(self, body: Body, value: Value, names: Dict[int, str], user: Optional[Entry]) -> str:
        known = body.definition(value, user)
        if known is not None:
            entry, k = known
            name = names[id(entry)]
            return f"{name}.{k}" if len(entry.outputs) > 1 else plain(name)
        k = body.inputs.index(value)
        if body.input_names:
            return plain(body.input_names[k])
        return f"input.{k}" if k else "input"

    @staticmethod
    def definers(body: Body, values: Iterable[Value], user: Optional[Entry]) -> Iterable[int]:
        known = (body.definition(v, user) for v in values)
        return (id(d[0]) for d in known if d is not None)

    def names(self, body: Body) -> Dict[int, str]:
        """Every entry that something refers to has a name; others need none."""
        wanted = set()
        current = body.inputs[0] if body.inputs else None
        for i, entry in enumerate(body.entries):
            if entry.inputs != [current]:
                wanted.update(self.definers(body, entry.inputs, entry))
            current = entry.outputs[0] if entry.outputs else None
            if i in body.holds:
                after = body.entry_after(i)
                wanted.update(self.definers(body, body.holds[i] + [current], after))
        numeric = not body.sequential and any(e.name.isdigit() for e in body.entries)
        names: Dict[int, str] = {}
        taken = {e.name for e in body.entries if e.name}
        for i, entry in enumerate(body.entries):
            name = "" if body.sequential and entry.name == str(i) else entry.name
            if not name and (id(entry) in wanted or numeric):
                base, n = snake(entry.op) if entry.op else "block", 1
                name = base
                while name in taken or name in ("input", "inputs"):
                    n += 1
                    name = f"{base}_{n}"
                taken.add(name)
            names[id(entry)] = name
        return names

    def entry(self, entry: Entry, param_of: Dict[int, str], slot: int, names: Dict[int, str],
              origin: List[str]) -> Tuple[List[str], int]:
        name = plain(names[id(entry)])
        extra = origin + self.flags(entry)
        if entry.body is None:
            t = template_of(entry)
            call = self.filled(t, param_of, slot)
            if not extra and name not in STRUCTURE_WORDS:
                return [f"- {name}: {call}" if name else f"- {call}"], len(t.values)
            return self.flow(name, [f"op: {quoted(call)}"] + extra), len(t.values)
        used = len(self.folder.vectors[id(entry.body)])
        if entry.body.sequential:
            return self.sequential(entry, param_of, slot, name, extra), used
        return self.flow(name, [f"block: {plain(self.folder.of[id(entry.body)].name)}"] + self.given(entry.body, param_of, slot) + extra), used

    def sequential(self, entry: Entry, param_of: Dict[int, str], slot: int, name: str, extra: List[str]) -> List[str]:
        body = entry.body
        assert body is not None
        items = self.repeated_items(body, param_of, slot)
        if items is not None:
            return self.flow(name, items + extra)
        inner = self.entries(body, param_of, slot)
        if not extra and name not in STRUCTURE_WORDS:
            return ([f"- {name}:", "    layers:"] if name else ["- layers:"]) + ["      " + l if name else "    " + l for l in inner]
        head = ([f"name: {name}"] if name else []) + extra
        return ["- " + head[0]] + ["  " + h for h in head[1:]] + ["  layers:"] + ["    " + l for l in inner]

    @staticmethod
    def flags(entry: Entry) -> List[str]:
        flags = ["keep: true"] if entry.keep else []
        flags += [f"when: {entry.when}"] if entry.when else []
        flags += [f"tie: {plain(entry.tie)}"] if entry.tie else []
        flags += [f"checkpoint: {'reentrant' if entry.reentrant else 'true'}"] if entry.checkpoint else []
        return flags + (["frozen: true"] if entry.frozen else [])

    @staticmethod
    def flow(name: str, parts: List[str]) -> List[str]:
        if name and name not in STRUCTURE_WORDS and not parts[0].startswith("op:") and not any(p.startswith("from:") for p in parts):
            return [f"- {name}: {{{', '.join(parts)}}}"]
        return ["- {" + ", ".join(([f"name: {name}"] if name else []) + parts) + "}"]

    @staticmethod
    def filled(t: Template, param_of: Dict[int, str], slot: int) -> str:
        pieces = t.text.split("\0")
        out = pieces[0]
        for k, value in enumerate(t.values):
            out += ("$" + param_of[slot + k] if slot + k in param_of else call_scalar(value)) + pieces[k + 1]
        return out

    def given(self, body: Body, param_of: Dict[int, str], slot: int) -> List[str]:
        values = self.with_values(body, param_of, slot)
        return ["with: {" + ", ".join(f"{n}: {v}" for n, v in values.items()) + "}"] if values else []

    def with_values(self, body: Body, param_of: Dict[int, str], slot: int) -> Dict[str, str]:
        """What a block is called with, defaults left out."""
        group = self.folder.of[id(body)]
        defaults = self.defaults.get(id(group), {})
        vector = self.folder.vectors[id(body)]
        values: Dict[str, str] = {}
        for name, own in group.params:
            if slot + own in param_of:
                values[name] = "$" + param_of[slot + own]
            elif name not in defaults or defaults[name] != vector[own]:
                values[name] = scalar(vector[own])
        return values

    # --- repeats

    def repeated_items(self, body: Body, param_of: Dict[int, str], slot: int) -> Optional[List[str]]:
        """An nn.Sequential of one block over and over."""
        if len(body.entries) < 2 or any(e.body is None or e.body.sequential or e.name != str(i) or self.flags(e)
                                        for i, e in enumerate(body.entries)):
            return None
        return self.run_of(body.entries, param_of, slot, [])

    def repeat(self, body: Body, i: int, param_of: Dict[int, str], slot: int,
               names: Dict[int, str]) -> Tuple[int, List[str]]:
        """How many entries from i on are one loop over an nn.ModuleList, and how it is written."""
        first = body.entries[i]
        prefix, _, number_ = first.name.rpartition(".")
        if body.sequential or first.body is None or first.body.sequential or number_ != "0" or not prefix:
            return 1, []
        run = [first]
        for j in range(i + 1, len(body.entries)):
            entry, before = body.entries[j], body.entries[j - 1]
            if entry.name != f"{prefix}.{j - i}" or entry.body is None or (j - 1) in body.holds or self.flags(before) or self.flags(entry) \
                    or self.folder.of[id(entry.body)] is not self.folder.of[id(first.body)] \
                    or not entry.inputs or entry.inputs[0] is not before.outputs[0] or len(before.outputs) != 1 \
                    or entry.inputs[1:] != first.inputs[1:]:
                break
            run.append(entry)
        inner = {id(e) for e in run}
        others = [v for e in body.entries if id(e) not in inner for v in e.inputs] + [v for h in body.holds.values() for v in h]
        beyond = any(e.name.startswith(prefix + ".") and id(e) not in inner for e in body.entries)
        used = any(v in body.defined and any(id(d[0]) in inner and d[0] is not run[-1] for d in body.defined[v]) for v in others)
        if len(run) < 2 or beyond or used or i + len(run) - 1 in body.holds or prefix in body.names:
            return 1, []
        written = self.run_of(run, param_of, slot, ["loop: true"])
        if written is None:
            return 1, []
        names[id(run[-1])] = prefix
        self.folded.update({(id(body), e.name): prefix for e in run})
        return len(run), written

    def run_of(self, run: Sequence[Entry], param_of: Dict[int, str], slot: int, extra: List[str]) -> Optional[List[str]]:
        group = self.folder.of[id(run[0].body)]
        given = []
        for entry in run:
            if self.folder.of[id(entry.body)] is not group:
                return None
            given.append(self.with_values(entry.body, param_of, slot))
            slot += len(self.folder.vectors[id(entry.body)])
        common = given[1] if len(given) > 1 else given[0]
        middle = given[1:-1] if len(given) > 2 else []
        if any(g != common for g in middle):
            return None
        first, last = self.differing(given[0], common, group), self.differing(given[-1], common, group)
        parts = [f"block: {plain(group.name)}", f"repeat: {len(run)}"] + extra
        for word, values in (("with", common), ("first", first), ("last", last)):
            if values:
                parts.append(f"{word}: {{" + ", ".join(f"{n}: {v}" for n, v in values.items()) + "}")
        return parts

    def differing(self, given: Dict[str, str], common: Dict[str, str], group: Group) -> Dict[str, str]:
        defaults = self.defaults.get(id(group), {})
        names = [n for n, _ in group.params if given.get(n) != common.get(n)]
        return {n: given.get(n, scalar(defaults[n]) if n in defaults else "") for n in names}


# --- the spec ---------------------------------------------------------------------------------------------------------


def make_sequential(body: Body, entry: Entry) -> None:
    """A frame of nn.Sequential is written as a list where nothing in it needs a name."""
    module = body.frame.module
    if not isinstance(module, nn.Sequential) or type(module).forward is not nn.Sequential.forward or body.holds:
        return
    current = body.inputs[0] if len(body.inputs) == 1 else None
    for i, e in enumerate(body.entries):
        if current is None or e.inputs != [current] or e.keep or len(e.outputs) != 1 or e.tie:
            return
        current = e.outputs[0]
    body.sequential = True


def construction_order(body: Body, ranks: Dict[str, int]) -> List[str]:
    """The names of the entries with weights by their ranks, where that is not the order of their run."""
    owned = [(ranks.get(e.path, -1), e.name) for e in body.entries
             if e.name and e.path in ranks and not e.tie and (e.has_weights or (e.body is not None and holds_weights(e.body)))]
    return [] if owned == sorted(owned) else [name for _, name in sorted(owned)]


def holds_weights(body: Body) -> bool:
    return any(e.has_weights or (e.body is not None and holds_weights(e.body)) for e in body.entries)


def name_ties(top: Body) -> None:
    """A tie names the entry that had the weights first by its path in the spec: a module that is called from another
    one's frame is written there."""
    paths: Dict[str, str] = {}
    tied: List[Entry] = []

    def visit(body: Body, prefix: str) -> None:
        for entry in body.entries:
            path = prefix + entry.name
            if entry.tie:
                tied.append(entry)
            elif entry.has_weights:
                paths.setdefault(entry.path, path)
                paths.setdefault(entry.owner, path)
            if entry.body is not None:
                visit(entry.body, path + ".")

    visit(top, "")
    for entry in tied:
        entry.tie = paths.get(entry.tie, entry.tie)


def moving_ranks(model: nn.Module) -> Dict[str, int]:
    """When each module's weights get their memory, by path, as model.to("cuda") moves them: a module's children first,
    then its own (torch.nn.Module._apply)."""
    ranks: Dict[str, int] = {}

    def visit(module: nn.Module, path: str) -> None:
        prefix = path + "." if path else ""
        first = len(ranks)
        for name, child in module.named_children():
            visit(child, prefix + name)
        for name, tensor in list(module._parameters.items()) + list(module._buffers.items()):
            if tensor is not None:
                ranks[prefix + name] = len(ranks)
        if len(ranks) > first:
            ranks[path] = first

    visit(model, "")
    return ranks


class Construction:
    """What a model's constructors did, which nothing in the model tells: the order of its weights, and which of them were
    drawn by nn.init.trunc_normal_, whose masks leave segments in the allocator's cache."""

    def __init__(self) -> None:
        self.registered: List[Tuple[nn.Module, str]] = []
        self.truncated: List[torch.Tensor] = []

    def ranks(self, model: nn.Module) -> Dict[str, int]:
        """When each module's weights got their memory, by path, where it is made on the GPU."""
        paths = {id(module): path for path, module in model.named_modules()}
        ranks: Dict[str, int] = {}
        for i, (module, name) in enumerate(self.registered):
            path = paths.get(id(module))
            if path is None:
                continue  # of a module that the model did not keep
            parts = (path.split(".") if path else []) + [name]
            for n in range(len(parts) + 1):
                ranks.setdefault(".".join(parts[:n]), i)
        return ranks

    def initialization(self, model: nn.Module) -> List[str]:
        """The layer that stands for the draws; of types of which only some weights are drawn nothing is known."""
        drawn = {id(t) for t in self.truncated}
        flags = {}
        for flag, kind in (("linear", nn.Linear), ("conv", nn.Conv2d)):
            weights = [id(m.weight) in drawn for m in model.modules() if isinstance(m, kind)]
            flags[flag] = bool(weights) and all(weights)
        arguments = ([] if flags["linear"] else ["linear=False"]) + (["conv=True"] if flags["conv"] else [])
        return [f"  - {{name: init, op: \"TruncNormalInit({', '.join(arguments)})\"}}"] if any(flags.values()) else []


def put_first(top: Body, entries: List[Entry]) -> None:
    top.entries[:0] = entries
    top.holds = {i + len(entries): values for i, values in top.holds.items()}
    if top.loss_from is not None:
        top.loss_from += len(entries)


def add_replaced_tables(top: Body, lowering: Lowering) -> None:
    """Tables that no call reads, of which others have become the same parameter: each of those modules was constructed
    with one of its own (T5's `shared`)."""
    modules = dict(lowering.model.named_modules())
    called = {e.owner or e.path for body in all_bodies(top) for e in body.entries if e.weights}
    for name, _ in list(lowering.model.named_parameters()):
        path = name.rpartition(".")[0]
        sharing = [n for n, first in lowering.names_of_tied.items() if first == name and n != name]
        if not isinstance(modules[path], nn.Embedding) or path in called or not sharing:
            continue
        table = modules[path]
        entry = Entry("SharedEmbedding", [("", table.num_embeddings), ("", table.embedding_dim)], [], [])
        entry.view = True
        entry.name, owners = top.fresh_name(path), {lowering.used.get(name)}
        lowering.used.pop(name, None)
        lowering.own(entry, [name], path)
        for body in all_bodies(top):
            for other in body.entries:
                if name in other.weights or other.tie and other.tie in owners:
                    other.tie = path
        put_first(top, [entry])


def add_unused_weights(top: Body, lowering: Lowering) -> None:
    """Weights that no call reads take memory all the same."""
    unused: List[Entry] = []
    model = lowering.model
    for kind, named in (("Parameter", model.named_parameters()), ("Buffer", model.named_buffers())):
        for name, tensor in named:
            if name in lowering.used or lowering.names_of_tied.get(name, name) != name:
                continue
            sizes = list(tensor.shape)
            arguments = [("shape", sizes)] + ([("dtype", dtype_name(tensor.dtype))] if kind == "Buffer" else [])
            entry = Entry(kind, arguments, [], [])
            entry.name = top.fresh_name(name)
            entry.view = entry.has_weights = True
            entry.path = name
            entry.frozen = kind == "Parameter" and not tensor.requires_grad
            unused.append(entry)
    put_first(top, unused)


def input_names(batch: Any, run: Recorder) -> Dict[Value, str]:
    """What the batch calls its tensors; nothing where it has no names."""
    names: Dict[Value, str] = {}
    if hasattr(batch, "keys"):
        for key in batch.keys():
            held = [run.values.get(id(t)) for t in flat_tensors(batch[key])]
            for value in held:
                if value is not None:
                    names.setdefault(value, re.sub(r"\W", "_", str(key)) if len(held) == 1 else f"input{len(names)}")
    return names


def input_lines(run: Recorder, batch: Any) -> Tuple[List[str], List[str]]:
    """The inputs: section, and their names. batch: as it was given."""
    values = run.top.inputs
    # The run's own tensors want none: a graph of autograd would hold what Python lets go.
    given = {id(t): t for t in flat_tensors(batch)}.values()
    wanting = {value for value, tensor in zip(run.batch, given) if tensor.requires_grad}
    shapes = []
    for value in values:
        dtype = "" if value.dtype in (torch.float32, torch.float16, torch.bfloat16) else f", dtype: {dtype_name(value.dtype)}"
        dtype += ", requires_grad: true" if value in wanting else ""
        shapes.append("{shape: [" + ", ".join(str(n) for n in value.shape[1:]) + "]" + dtype + "}")
    if len(values) == 1 and not run.input_names:
        return [f"input: {shapes[0]}"], []
    names = [run.input_names.get(v, f"input{i}") for i, v in enumerate(values)]
    return ["inputs:"] + [f"  {plain(n)}: {s}" for n, s in zip(names, shapes)], names


def return_results(top: Body, lowering: Lowering, main: Optional[Value], both: Optional[BothModes],
                   infer_results: List[Value], infer_main: Optional[Value]) -> None:
    """The model's output is the last entry; what else its output object names lives as long."""
    results = top.frame.results
    if not results or not infer_results:
        raise ExportError("the model returns no tensor: expected one, or tuples, lists, dicts or dataclasses of them")
    main = main if main is not None else results[0]
    for value in results:
        lowering.find(top, value)
    others = [(value, "") for value in results if value is not main]
    if both is not None:
        infer_main = infer_main if infer_main is not None else infer_results[0]
        others = both.returned([v for v, _ in others], top, [e for e in infer_results if e is not infer_main])
        main = both.pick(top, main, infer_main)
    for value, when in others:
        top.add(Entry("ReturnedState", (), [value], [value]))
        top.entries[-1].view, top.entries[-1].when = True, when
    if top.entries[-1].outputs[:1] != [main] or len(top.entries[-1].outputs) != 1:
        top.add(Entry("Identity", (), [main], [main]))
        top.entries[-1].view = True


def unwrap(run: Recorder) -> None:
    """The model's frame becomes the top one."""
    steps = run.top.steps
    roots = [s for s in steps if isinstance(s, Frame) and s.module is run.model]
    if len(roots) == 1:
        at = steps.index(roots[0])
        run.top.steps = steps[:at] + roots[0].steps + steps[at + 1:]
        run.top.module = run.model


# Calls that a loss makes of the output and the targets before it reads them.
SHAPING = frozenset("view reshape flatten squeeze to float contiguous long __getitem__ permute transpose".split())
# transformers' functions of its losses (loss/loss_utils.py), and the layer of each.
OWN_LOSSES = {"ForCausalLMLoss": "CausalLMLoss", "ForMaskedLMLoss": "HuggingFaceTokenLoss",
              "ForTokenClassification": "HuggingFaceTokenLoss", "ForSequenceClassificationLoss": "HuggingFaceClassificationLoss"}


def flattened_calls(steps: Iterable[Any]) -> List[Call]:
    return [c for s in steps for c in ([s] if isinstance(s, Call) else flattened_calls(s.steps))]


class LossText(NamedTuple):
    """The loss as one layer of the catalog, or as calls of which each becomes an entry."""
    line: str = ""
    main: Optional[Value] = None  # the output that it reads
    shaping: List[Call] = []  # what is done to the output before
    calls: List[Call] = []


def loss_text(run: Recorder) -> LossText:
    if run.loss is None:
        return LossText()
    calls = flattened_calls(run.loss_steps)
    if not any(run.loss in c.results for c in calls):
        return LossText(*own_loss(run))
    of_model = set(run.top.results) | {v for c in flattened_calls(run.top.steps) for v in c.results}
    targets = {v for v in run.batch if v not in of_model}
    read: List[Call] = []
    for call in calls:
        if any(v in of_model for v in flat_values((call.args, call.kwargs))):
            read.append(call)
            of_model.update(call.results)
        elif call.name not in SHAPING:
            raise ExportError(f"{call.source}: {call.name} makes something of the loss's targets: make it before, in the batch")
    drop_targets(run, calls, targets)
    line = call_of_loss(calls[-1])
    if line and all(c.name in SHAPING for c in read[:-1]):
        return LossText(line, loss_call_operands(calls[-1])[0], read[:-1])
    return LossText(calls=read)


def loss_call_operands(call: Call) -> List[Value]:
    return flat_values(call.args) + flat_values(call.kwargs)


def drop_targets(run: Recorder, calls: List[Call], targets: set) -> None:
    """What of the batch the loss alone reads comes with the loss."""
    read = {v for call in calls for v in loss_call_operands(call)} & targets
    rest = {v for s in run.top.steps for v in read_by(s)}
    run.top.inputs = [v for v in run.top.inputs if v not in read or v in rest]


def add_loss_entries(top: Body, lowering: Lowering, run: Recorder, calls: List[Call]) -> None:
    """Losses of several outputs and what is made of them, after the model's own entries."""
    top.loss_from = len(top.entries)
    made_by = {v: c for c in flattened_calls(run.loss_steps) if c.name in SHAPING for v in c.results}
    known: Dict[Any, str] = {}  # by targets, the first loss that has them
    for call in calls:
        if call.name not in LOSSES.values():
            lowering.add_function(top, call)
            continue
        operands = loss_call_operands(call)
        entry = Entry({v: k for k, v in LOSSES.items()}[call.name], loss_arguments(call), operands[:1], call.results)
        entry.event = call.event
        entry.name = top.fresh_name("loss")
        root: Any = operands[1] if len(operands) > 1 else None
        while root in made_by:
            root = flat_values((made_by[root].args, made_by[root].kwargs))[0]
        key = (root, tuple(operands[1].shape)) if root is not None else None
        if key in known:
            entry.tie = known[key]
        elif key is not None:
            known[key] = entry.name
        lowering.connect(top, entry)
    last = top.entries[-1]
    assert run.loss is not None
    if len(top.entries) == top.loss_from or last.outputs[:1] != [run.loss]:
        add_return(top, "Identity", [run.loss], [run.loss])
    keep_locals_of_loss(top, run)


def keep_locals_of_loss(top: Body, run: Recorder) -> None:
    """Numbers that the loss's function named are there until it returns."""
    entries = top.entries[top.loss_from:]
    last_use = {v: e.event for e in entries for v in e.inputs + e.outputs}
    died: Dict[int, int] = {}
    for value in run.every_value:
        died[value.storage] = max(died.get(value.storage, 0), value.died)
    for entry in entries:
        for value in entry.outputs:
            later = [e.event for e in entries if not e.view and last_use[value] < e.event <= died.get(value.storage, 0)]
            entry.keep = entry.keep or (bool(later) and value is not run.loss)


# What a loss is told; weights of classes and the like are tensors, which no layer takes.
LOSS_OPTIONS = {"reduction": "mean", "label_smoothing": 0.0, "ignore_index": -100, "beta": 1.0, "delta": 1.0}


def loss_arguments(call: Call) -> List[Tuple[str, Any]]:
    if len(loss_call_operands(call)) > 2:
        raise ExportError(f"{call.source}: {call.name} with weights: gpuplan has no layer for it")
    return [(k, v) for k, v in call.kwargs.items() if k in LOSS_OPTIONS and v is not None and v != LOSS_OPTIONS[k]]


def call_of_loss(call: Call) -> str:
    names = {v: k for k, v in LOSSES.items()}
    if call.name in names:
        arguments = [f"{k}={repr(v) if isinstance(v, str) else call_scalar(v)}" for k, v in loss_arguments(call)]
        return f"{names[call.name]}({', '.join(arguments)})"
    if call.name in ("mean", "sum") and len(flat_values((call.args, call.kwargs))) == 1 and len(call.args) == 1:
        return f"{call.name}()"
    return ""


def own_loss(run: Recorder) -> Tuple[str, Value]:
    """The loss that the model's forward computes of labels. Its calls are taken out of the forward; labels that nothing
    else reads are the loss's own, others the first of the inputs, which is where those losses look for them."""
    steps = run.top.steps
    at = next((i for i, s in enumerate(steps) if run.loss in s.results), None)
    calls = [] if at is None else flattened_calls([steps[at]])
    if len(calls) != 1:
        raise ExportError("the model's own loss is not one call:\n" + "\n".join(f"  {c.source}: {c.name}" for c in calls))
    call = calls[0]
    run.loss_event = call.event
    run.notes["the loss in eval mode. --mode infer plans a call without labels; Trainer.evaluate() gives them."] = None
    del steps[at]
    made_by = {v: s for s in steps if isinstance(s, Call) and s.name in SHAPING for v in s.results
               if v not in read_by(s) and v not in run.top.results}
    logits, labels = loss_operands(call, made_by)
    steps[:] = [s for s in steps if not (isinstance(s, Call) and s.name == "to" and s.results == [labels])]  # where it was
    drop_unused(run, made_by)
    rest = {v for s in steps for v in read_by(s)}
    line = line_of_own_loss(call, logits, labels, labels in rest)
    inputs = [v for v in run.top.inputs if v is not labels]
    run.top.inputs = [labels] + inputs if labels in rest or line.startswith("CausalLM") else inputs
    run.top.results = [v for v in run.top.results if v is not run.loss]
    return line, logits


def loss_operands(call: Call, made_by: Dict[Value, Call]) -> Tuple[Value, Value]:
    """The tensors that the loss is of, as they were before they were brought into its shape."""
    names = (("logits", "pooled_logits", "input"), ("labels", "target"))
    found: List[Value] = []
    for position, wanted in enumerate(names):
        value = next((call.kwargs[n] for n in wanted if n in call.kwargs), None)
        value = call.args[position] if value is None and position < len(call.args) else value
        while value in made_by and isinstance(value, Value) and value.kind == "activation":
            value = flat_values((made_by[value].args, made_by[value].kwargs))[0]
        if not isinstance(value, Value):
            raise ExportError(f"{call.source}: the model's own loss, {call.name}, is of no tensor called {wanted[0]}")
        found.append(value)
    return found[0], found[1]


def line_of_own_loss(call: Call, logits: Value, labels: Value, read_elsewhere: bool) -> str:
    name = call.name.rpartition(":")[2]
    known = OWN_LOSSES.get(name)
    if call.kwargs.get("num_items_in_batch") is not None or call.kwargs.get("shift_labels") is not None:
        known = None
    floating = labels.dtype.is_floating_point
    if name == "cross_entropy" and not call_of_loss(call).strip("CrossEntropyLoss()"):
        token = "SequenceToSequenceLoss" if read_elsewhere else "HuggingFaceTokenLoss"
        known = {3: token, 2: "HuggingFaceClassificationLoss"}.get(len(logits.shape))
    if known is None or floating:
        raise ExportError(f"{call.source}: gpuplan has no layer for the model's own loss {name} of labels of {labels.dtype}. "
                          "Leave the labels out of the batch and give loss=.")
    return known + "()"


def read_by(step: Any) -> List[Value]:
    if isinstance(step, Call):
        return flat_values((step.args, step.kwargs))
    return list(step.inputs) + [v for s in step.steps for v in read_by(s)]


def drop_unused(run: Recorder, made_by: Dict[Value, Call]) -> None:
    """Takes out what shaped the loss's operands alone."""
    while True:
        needed = {v for s in run.top.steps for v in read_by(s)} | {v for v in run.top.results if v is not run.loss}
        kept = [s for s in run.top.steps
                if not (isinstance(s, Call) and s.name in SHAPING and s.results and not needed.intersection(s.results))]
        if len(kept) == len(run.top.steps):
            return
        run.top.steps[:] = kept


NOTE = "# Not in this spec: "


def header(model: nn.Module, name: str, modes: Sequence[str]) -> List[str]:
    count = sum(p.numel() for p in model.parameters())
    runs = f"its run in {modes[0]} mode" if len(modes) == 1 else "its runs in train and eval mode"
    return [f"# {type(model).__name__}: {count:,} parameters. Written by gpuplan_export.py from {runs},",
            f"# PyTorch {torch.__version__.split('+')[0]}.{plan_with(model)}", "gpuplan: 1", f"name: {name}"]


def plan_with(model: nn.Module) -> str:
    """What of the model is a flag of the plan."""
    words = {torch.bfloat16: "--precision bf16", torch.float16: "--precision fp16", torch.float64: "--precision fp64"}
    weights = list(model.parameters())
    flags = [words[t] for t in dict.fromkeys(p.dtype for p in weights) if t in words]
    last = any(p.dim() == 4 and p.is_contiguous(memory_format=torch.channels_last) and not p.is_contiguous() for p in weights)
    flags += ["--layout nhwc"] if last else []
    return f" As it was given: plan with {' '.join(flags)}." if flags else ""


# The variables that expressions of the spec read: what they are by default, and what another value means.
VARIABLES = {"packed": (0, "1: several sequences are packed into one, so SDPA kernels get a mask"),
             "padded": (1, "0: no token is padding, so the attention_mask leads to no mask for SDPA kernels")}


def variables(top: Body) -> List[str]:
    used = {a.expression.split()[0] for body in all_bodies(top) for e in body.entries for _, a in e.arguments if isinstance(a, Variable)}
    return ["vars:"] + [f"  {name}: {value}  # {other}" for name, (value, other) in VARIABLES.items() if name in used] if used else []


def what_stays(run: Recorder) -> Dict[Value, str]:
    """Tensors that a call of the forward made and that something, an attribute for one, still names after the step, and
    the line of the call."""
    made = {v: call.source for call in flattened_calls(run.top.steps) for v in call.results}
    kept = {*run.top.results, *run.batch, run.loss}
    return {v: made[v] for v in made if v.died == FOREVER and v.kind == "activation" and v not in kept and not v.host}


def mark_what_stays(first: Recorder, second: Recorder) -> None:
    """The attributes of the first run are the second one's by now. Planned are tensors that a call allocates, of no
    checkpoint; of the others the header tells."""
    stay = what_stays(second)
    planned = {v for call in uncheckpointed(first.top) if call.name != "cache_update" for v in call.results}
    owner: Dict[int, Value] = {}
    for value in first.every_value:
        owner.setdefault(value.storage, value)
    pairs = [(a, b) for a, b in zip(first.every_value, second.every_value) if b in stay]
    for a, _ in pairs:
        a.stays = a in planned and owner[a.storage] is a
    for a, b in pairs:
        if not owner[a.storage].stays:
            first.notes[f"{stay[b]}: its result stays alive after the step, in an attribute."] = None


def uncheckpointed(frame: Frame) -> List[Call]:
    """The calls of a frame that no checkpoint runs."""
    return [c for step in frame.steps for c in ([step] if isinstance(step, Call) else [] if step.checkpoint else uncheckpointed(step))]


def recorded_run(model: nn.Module, batch: Any, forward: Callable, loss: Optional[Callable]) -> Recorder:
    """A run with what depends on the batch. A model that keeps something of its first run, such as a table of positions,
    is run again."""
    for last in (False, True):
        runs = [run_checked(model, batch_on_meta(batch, size), forward, loss) for size in TRACED_BATCHES]
        try:
            merge_runs(*runs)
        except ExportError:
            if last:
                raise
            continue
        break
    mark_what_stays(*runs)
    return runs[0]


class Traced:
    """The model as it runs in one mode."""

    def __init__(self, model: nn.Module, batch: Any, forward: Callable, loss: Optional[Callable], mode: str):
        self.bare = on_meta(model)
        for layer, original in zip(self.bare.modules(), model.modules()):
            if isinstance(layer, nn.TransformerEncoderLayer):
                layer.partly_frozen = len({p.requires_grad for p in original.parameters()}) > 1
        if mode == "eval" or not model.training:
            self.bare.train(mode == "train")
        try:
            with torch.set_grad_enabled(mode == "train"):
                self.run = recorded_run(self.bare, batch, forward, loss)
            unwrap(self.run)
            self.loss = loss_text(self.run)
        except ExportError as e:
            raise ExportError(f"in {mode} mode: {e}") from e
        for p, original in zip(self.bare.parameters(), model.parameters()):
            p.requires_grad_(original.requires_grad)

    def lower(self, local_constants: bool = False) -> Body:
        self.lowering = Lowering(self.bare, self.run, local_constants)
        self.top = self.lowering.lower(self.run.top)
        if not self.top.entries and not self.lowering.unknown:
            raise ExportError("the model runs no operation of torch")
        return self.top


def refuse_unknown(traced: Sequence[Traced]) -> None:
    unknown = dict.fromkeys(u for t in traced for u in t.lowering.unknown)
    if unknown:
        raise ExportError("gpuplan has no layer for these calls:\n" + "\n".join("  " + u for u in unknown))


def in_both_modes(train: Traced, infer: Traced) -> BothModes:
    """Writes what eval mode runs into the body of train mode."""
    train.lower()
    infer.lower(local_constants=not any(e.op == "Constant" for body in all_bodies(train.top) for e in body.entries))
    refuse_unknown([train, infer])
    for traced in (train, infer):
        hold_what_python_holds(traced.top, traced.run)
    both = BothModes(last_seen(train.run), last_seen(infer.run))
    for t, e in zip(train.run.batch, infer.run.batch):
        both.is_in_infer(t, e)
    both.merge(train.top, infer.top)
    if any(e.when == "infer" and e.weights for body in all_bodies(train.top) for e in body.entries):
        tie_anew(train.top)
    for name, path in infer.lowering.used.items():
        train.lowering.used.setdefault(name, path)
    return both


def describe(model: nn.Module, batch: Any, name: str, forward: Callable, loss: Optional[Callable],
             construction: Optional[Construction] = None, modes: Sequence[str] = MODES) -> str:
    """The spec of a model as text."""
    traced: List[Traced] = []
    for mode in modes:
        # The model's own loss, which loss= took from its output, is computed in eval mode, too.
        is_asked = loss is None or mode == "train" or len(modes) == 1 or bool(traced and traced[0].run.loss_event)
        traced.append(Traced(model, batch, forward, loss if is_asked else no_loss, mode))
    first = traced[0]
    both = in_both_modes(*traced) if len(traced) == 2 else None
    if both is None:
        first.lower()
        refuse_unknown(traced)
        hold_what_python_holds(first.top, first.run)
    top, lowering, run, text = first.top, first.lowering, first.run, first.loss
    for call in text.shaping:
        lowering.add_function(top, call)
    return_results(top, lowering, text.main, both, traced[-1].run.top.results, traced[-1].loss.main)
    if text.calls:
        add_loss_entries(top, lowering, run, text.calls)
    refuse_unknown(traced)
    if construction:
        add_replaced_tables(top, lowering)
    add_unused_weights(top, lowering)
    inputs, top.input_names = input_lines(run, batch)
    name_ties(top)
    registered = moving_ranks(first.bare)
    made = construction.ranks(model) if construction else registered
    for body in all_bodies(top):
        for entry in body.entries:
            if entry.body is not None:
                make_sequential(entry.body, entry)
        if not body.sequential:
            body.made = construction_order(body, made)
            body.registered = construction_order(body, registered)
    folder = Folder()
    folder.fold(top)
    printer = Printer(folder)
    blocks = printer.blocks(top)
    notes = dict.fromkeys(n for t in traced for n in t.run.notes)
    lines = header(model, name, modes) + [NOTE + n for n in notes] + variables(top) + inputs
    lines += ["blocks:"] + blocks if blocks else []
    entries = printer.entries(top, {})
    lines += printer.order(top, "")
    of_loss = entries[printer.loss_line:] if text.calls else []
    lines += ["layers:"] + ["  " + line for line in entries[:len(entries) - len(of_loss)]]
    lines += construction.initialization(model) if construction else []
    lines += [f"loss: {text.line}"] if text.line else []
    lines += ["loss:"] + ["  " + line for line in of_loss] if of_loss else []
    return "\n".join(lines) + "\n"


def export(model: nn.Module, batch: Any, output: str = "model.yaml",
           forward: Callable[[nn.Module, Any], Any] = call_on_batch,
           loss: Optional[Callable[[nn.Module, Any, Any], Any]] = None, name: str = "",
           construction: Optional[Construction] = None, modes: Sequence[str] = MODES) -> str:
    """Writes the model's spec to `output` and returns it.

    batch: a tensor, or a tuple or dict of tensors, the first dimension of each being the batch. forward: how the model
    is called, on the batch where it is left out. loss: of the model, its output and the batch; its targets are not
    part of the spec's inputs. construction: how constructed() made it, for a model that is made on the GPU; without it
    its weights lie as model.to("cuda") moves them. modes: ("train",) or ("eval",) for a model that does not run in the
    other. The model, which may be on any device, meta included, and in any mode, is not changed."""
    if not isinstance(model, nn.Module):
        raise ExportError(f"the model is a {type(model).__name__}, expected a torch.nn.Module")
    model = unwrapped(model)
    refuse_modules(model)
    if not flat_tensors(batch):
        raise ExportError("the batch has no tensors: expected a tensor, or tuples, lists or dicts of them")
    if any(t.dtype.is_complex for t in flat_tensors(batch)):
        raise ExportError("the batch has complex numbers, which no layer takes")
    first = {t.shape[0] for t in flat_tensors(batch) if t.dim()}
    if len(first) > 1:
        raise ExportError(f"the first dimensions of the batch's tensors are {' and '.join(map(str, sorted(first)))}: the first one is "
                          "the batch. Give others to the model in forward=, as lambda model, batch: model(batch, other)")
    if tuple(modes) not in (MODES, MODES[:1], MODES[1:]):
        raise ExportError(f"modes={modes!r}: expected ('train', 'eval') or one of them")
    name = name or os.path.splitext(os.path.basename(output))[0]
    text = describe(model, batch, name, forward, loss, construction, modes)
    with open(output, "w", encoding="utf-8") as file:
        file.write(text)
    return text


# --- the command line -------------------------------------------------------------------------------------------------


def parsed_input(text: str) -> Tuple[str, torch.Tensor]:
    """3x224x224; 128:int64 for other types; input_ids:int64:128 for what is passed by name. No sizes: one for a sample."""
    name, dtype, sizes = "", torch.float32, []
    for part in text.split(":"):
        if re.fullmatch(r"\d+(x\d+)*", part):
            sizes = [int(n) for n in part.split("x")]
        elif isinstance(getattr(torch, part, None), torch.dtype):
            dtype = getattr(torch, part)
        elif part.isidentifier() and not name:
            name = part
        else:
            raise ExportError(f"--input {text}: expected 3x224x224, 128:int64 or NAME:int64:128, not {part!r}")
    if 0 in sizes or math.prod(sizes) >= 2**62:
        raise ExportError(f"--input {text}: " + ("a size of 0" if 0 in sizes else "too large"))
    return name, torch.empty([2] + sizes, dtype=dtype, device="meta")


def parsed_batch(texts: Sequence[str]) -> Any:
    """The batch that the inputs make: a dict where they have names, of which NAME=OTHER is the same tensor again."""
    named: Dict[str, torch.Tensor] = {}
    positional: List[torch.Tensor] = []
    for text in texts:
        alias, same, other = text.partition("=")
        if same and other not in named:
            raise ExportError(f"--input {text}: there is no earlier input {other!r}")
        name, tensor = (alias, named[other]) if same else parsed_input(text)
        if name in named:
            raise ExportError(f"--input {text}: {name} is given twice")
        if name:
            named[name] = tensor
        else:
            positional.append(tensor)
    if named and positional:
        raise ExportError("--input: either all inputs have names or none has")
    return named or (positional[0] if len(positional) == 1 else tuple(positional))


def read_config(cls: Any, config: str, options: Dict[str, Any]) -> Any:
    """The config of a class of transformers: of a config.json or its folder, of a name, or the class's defaults."""
    import json
    import transformers  # what the class came from

    file = os.path.join(config, "config.json") if os.path.isdir(config) else config
    values = {}
    if os.path.isfile(file):
        with open(file, encoding="utf-8") as opened:
            values = json.load(opened)
        if not isinstance(values, dict):
            raise ExportError(f"{file}: expected a JSON object, as a model's config.json is")
    elif config:
        try:
            values = transformers.AutoConfig.from_pretrained(config).to_dict()
        except (OSError, ValueError) as e:
            raise ExportError(f"--config {config}: neither a file, a folder nor a model that transformers finds: {e}")
    config_class = cls.config_class if getattr(cls, "config_class", None) is not None else None
    if config_class is None:
        kind = options.pop("model_type", values.get("model_type"))
        if kind is None:
            raise ExportError(f"{cls.__name__} needs --config, a config.json with its model_type")
        config_class = type(transformers.AutoConfig.for_model(kind))
    return config_class.from_dict({**values, **options})


def made_by_transformers(make: Any) -> bool:
    return inspect.isclass(make) and make.__module__.startswith("transformers.") and \
        (getattr(make, "config_class", None) is not None or hasattr(make, "from_config"))


def built(target: str, arguments: Sequence[str], config: str = "",
          construction: Optional[Construction] = None) -> nn.Module:
    """MODULE:CALLABLE, called with name=value arguments, without data where it can be. A class of transformers is made
    of its config, in which the arguments replace values."""
    module, _, attribute_ = target.partition(":")
    if not attribute_:
        raise ExportError(f"{target}: expected MODULE:CALLABLE, as in torchvision.models:resnet50")
    sys.path.insert(0, os.getcwd())
    if not all(part.isidentifier() for part in module.split(".")):
        raise ExportError(f"{target}: {module!r} is not a module's name: expected MODULE:CALLABLE, as in torchvision.models:resnet50, "
                          "net:Net of a file net.py in this folder")
    make: Any = importlib.import_module(module)
    for part in attribute_.split("."):
        near = difflib.get_close_matches(part, dir(make), 1)
        if not hasattr(make, part):
            raise ExportError(f"{target}: {getattr(make, '__name__', module)} has no {part}" + (f": did you mean {near[0]}?" if near else ""))
        make = getattr(make, part)
    if not callable(make):
        raise ExportError(f"{target} is a {type(make).__name__}: expected a function or class that makes the model")
    keywords = {}
    for argument in arguments:
        key, _, value = argument.partition("=")
        try:
            keywords[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            keywords[key] = value
    if made_by_transformers(make):
        made = read_config(make, config, keywords)
        return constructed(lambda: make.from_config(made) if make.__name__.startswith("Auto") else make(made), construction)
    if config:
        raise ExportError(f"--config is for classes of transformers; {target} takes --arg NAME=VALUE")
    return constructed(lambda: make(**keywords), construction)


def constructed(make: Callable[[], nn.Module], construction: Optional[Construction] = None) -> nn.Module:
    """A model whose parameters have no data, unless its constructor runs it. construction: where to note what the
    constructors did."""
    try:
        with weights_without_data(construction if construction is not None else Construction()):
            return make()
    except (NotImplementedError, RuntimeError):
        return make()


@contextlib.contextmanager
def weights_without_data(construction: Construction) -> Iterator[None]:
    """Modules that are made here have their parameters on the meta device, and all else where it is made: constructors
    may compute with values, and a model of any size takes no memory and no time to initialize."""
    original = nn.Module.register_parameter
    register_buffer, trunc_normal_ = nn.Module.register_buffer, nn.init.trunc_normal_

    def register(module: nn.Module, name: str, parameter: Optional[nn.Parameter]) -> None:
        if parameter is not None and parameter.device.type != "meta":
            parameter = nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad)
        if parameter is not None:
            construction.registered.append((module, name))
        original(module, name, parameter)

    def buffer(module: nn.Module, name: str, tensor: Optional[torch.Tensor], persistent: bool = True) -> None:
        if tensor is not None:
            construction.registered.append((module, name))
        register_buffer(module, name, tensor, persistent)

    def draw(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        construction.truncated.append(tensor)
        return trunc_normal_(tensor, *args, **kwargs)

    nn.Module.register_parameter = register  # type: ignore[assignment]
    nn.Module.register_buffer = buffer  # type: ignore[assignment]
    nn.init.trunc_normal_ = draw
    try:
        yield
    finally:
        nn.Module.register_parameter = original  # type: ignore[assignment]
        nn.Module.register_buffer = register_buffer  # type: ignore[assignment]
        nn.init.trunc_normal_ = trunc_normal_


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(description="Writes a gpuplan spec of a PyTorch model.")
    parser.add_argument("model", help="MODULE:CALLABLE that makes it, as torchvision.models:resnet50")
    parser.add_argument("--input", action="append", required=True, metavar="SIZES",
                        help="an input without the batch: 3x224x224, 128:int64, or by name input_ids:int64:128; once for each; "
                        "labels=input_ids is the same tensor again")
    parser.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE", help="of the callable, or of the config")
    parser.add_argument("--config", default="", metavar="FILE",
                        help="the config.json of a class of transformers, its folder, or a name that transformers finds")
    parser.add_argument("--eval", action="store_true", help="follow the model in eval mode alone")
    parser.add_argument("--on-gpu", action="store_true",
                        help="the model is made on the GPU, as within torch.device('cuda'), not moved there")
    parser.add_argument("-o", "--output", default="model.yaml")
    options = parser.parse_args(arguments)
    try:
        construction = Construction() if options.on_gpu else None
        batch = parsed_batch(options.input)
        model = made(options, construction)
        if not isinstance(model, nn.Module):
            raise ExportError(f"{options.model} makes a {type(model).__name__}, expected a torch.nn.Module")
        model.train()
        text = export(model, batch, options.output, construction=construction, modes=MODES[1:] if options.eval else MODES)
        for line in text.splitlines():
            if line.startswith(NOTE):
                print(f"note: {line[len(NOTE):]}", file=sys.stderr)
    except ExportError as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    except ImportError as e:
        print(f"error: {options.model}: {e}", file=sys.stderr)
        return 2
    except OSError as e:
        print(f"error: {options.output} cannot be written: {e.strerror}", file=sys.stderr)
        return 1
    return 0


def made(options: argparse.Namespace, construction: Optional[Construction]) -> nn.Module:
    try:
        return built(options.model, options.arg, options.config, construction)
    except (ExportError, ImportError):
        raise
    except Exception as e:  # whatever the model's code raises
        at = failing_line(e, "")
        raise ExportError(f"{options.model} makes no model: {at}{': ' if at else ''}{type(e).__name__}: {first_line(e)}") from e


if __name__ == "__main__":
    sys.exit(main())

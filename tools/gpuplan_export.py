#!/usr/bin/env python3
"""Writes a gpuplan spec of a PyTorch model. Needs torch alone: 2.1 or newer; 1.13 where its functions allow.

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
import importlib
import inspect
import math
import os
import re
import sys
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import nn
from torch.overrides import TorchFunctionMode, resolve_name

FOREVER = sys.maxsize
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


class Call:
    """One call of torch, or of a module that the catalog has as one layer."""

    def __init__(self, name: str, args: tuple, kwargs: dict, event: int, source: str, module: Optional[nn.Module] = None,
                 path: str = ""):
        self.name, self.args, self.kwargs, self.event, self.source = name, args, kwargs, event, source
        self.module, self.path = module, path
        self.results: List[Value] = []


class Frame:
    """A call of a module's forward, with the calls made in it."""

    def __init__(self, module: Optional[nn.Module], path: str, inputs: List[Value]):
        self.module, self.path = module, path
        self.inputs = inputs
        self.steps: List[Any] = []  # Call or Frame
        self.results: List[Value] = []
        self.structure: Any = None  # of the result, with Values for tensors
        self.end = FOREVER  # the event of its return


def flat_tensors(structure: Any, depth: int = 0) -> List[torch.Tensor]:
    """The tensors in nested tuples, lists, dicts, and objects that hold them (model outputs, caches)."""
    if isinstance(structure, torch.Tensor):
        return [structure]
    if depth > 6:
        return []
    if isinstance(structure, dict):
        children: Iterable[Any] = structure.values()
    elif isinstance(structure, (tuple, list)):
        children = structure
    elif isinstance(structure, nn.Module) or not hasattr(structure, "__dict__") or callable(structure):
        return []
    else:
        children = vars(structure).values()
    return [t for child in children for t in flat_tensors(child, depth + 1)]


def with_values(structure: Any, value_of: Callable[[torch.Tensor], Value]) -> Any:
    """The structure with Values in place of its tensors."""
    if isinstance(structure, torch.Tensor):
        return value_of(structure)
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
    "ELU Embedding Flatten GELU GRU GroupNorm Hardsigmoid Hardswish InstanceNorm2d LSTM LayerNorm LeakyReLU Linear "
    "LogSoftmax MaxPool2d MultiheadAttention RMSNorm RNN ReLU ReLU6 SiLU Sigmoid Softmax Tanh Unflatten Upsample "
    "Identity").split()}
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
    for base in type(module).__mro__:
        if base.__module__.startswith("torch.nn.modules") and base.__name__ in NN_LAYERS:
            same = type(module).forward is base.forward and getattr(module, "_conv_forward", None) is not False
            overridden = hasattr(base, "_conv_forward") and type(module)._conv_forward is not base._conv_forward
            return base.__name__ if same and not overridden else None
    return None


def layer_type(module: nn.Module) -> type:
    return next(b for b in type(module).__mro__ if b.__module__.startswith("torch.nn.modules") and b.__name__ in NN_LAYERS)


def simplified(value: Any) -> Any:
    """(3, 3) as 3; enumerations and sizes as plain values."""
    if isinstance(value, torch.Size):
        value = tuple(value)
    if isinstance(value, (tuple, list)):
        if len(value) in (1, 2) and len(set(value)) == 1 and not isinstance(value[0], (tuple, list)):
            return value[0]
        return tuple(value)
    return value


def constructor_arguments(module: nn.Module) -> List[Tuple[str, Any]]:
    """What the module was constructed with, read back from its attributes; defaults are left out."""
    other = OTHER_LAYERS.get(class_path(module))
    if other is not None:
        return other_arguments(module, other[0], other[1])
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
    return [(n, getattr(module, n)) for n in names]


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
        self.weights = {id(t): (name, "parameter") for name, t in model.named_parameters(remove_duplicate=True)}
        for name, t in model.named_buffers(remove_duplicate=True):
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

    # Storages are told apart by their StorageImpl; an address is another storage's once the first has died, which its
    # last Value's death says.
    def storage_of(self, tensor: torch.Tensor) -> int:
        address = tensor.untyped_storage()._cdata if hasattr(tensor, "untyped_storage") else tensor.storage()._cdata
        if address not in self.storages:
            self.storages[address] = len(self.every_value)
        return self.storages[address]

    def value_of(self, tensor: torch.Tensor) -> Value:
        known = self.values.get(id(tensor))
        if known is not None:
            return known
        value = Value(tensor, self.storage_of(tensor))
        self.alive[value.storage] = self.alive.get(value.storage, 0) + 1
        value.weight, value.kind = self.weights.get(id(tensor), (None, "activation"))
        key = id(tensor)
        self.values[key] = value
        self.every_value.append(value)
        address = tensor.untyped_storage()._cdata if hasattr(tensor, "untyped_storage") else tensor.storage()._cdata

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
        kwargs = kwargs or {}
        if self.inside:
            return func(*args, **kwargs)
        name = function_name(func)
        if name in SILENT:
            return func(*args, **kwargs)
        self.event += 1
        call = Call(name, with_values(args, self.value_of), with_values(kwargs, self.value_of), self.event, source_line())
        result = func(*args, **kwargs)
        results = flat_tensors(result)
        call.results = [self.value_of(t) for t in results]
        if results or name in IN_PLACE_WITHOUT_RESULT:
            self.frames[-1].steps.append(call)
        return result

    def call_module(self, original: Callable, module: nn.Module, args: tuple, kwargs: dict) -> Any:
        """Runs a module's __call__ as a frame, or as one call where the catalog has it."""
        if self.inside:
            return original(module, *args, **kwargs)
        path = self.paths.get(id(module), "")
        if module is not self.model and layer_of(module) is not None:
            self.event += 1
            call = Call(layer_of(module) or "", with_values(args, self.value_of), with_values(kwargs, self.value_of),
                        self.event, source_line(), module, path)
            self.inside += 1
            try:
                result = original(module, *args, **kwargs)
            finally:
                self.inside -= 1
            call.results = [self.value_of(t) for t in flat_tensors(result)]
            self.frames[-1].steps.append(call)
            return result
        frame = Frame(module, path, unique([self.value_of(t) for t in flat_tensors((args, kwargs))]))
        self.frames[-1].steps.append(frame)
        self.frames.append(frame)
        result = original(module, *args, **kwargs)
        self.frames.pop()
        self.event += 1
        frame.end = self.event
        frame.results = unique([self.value_of(t) for t in flat_tensors(result)])
        frame.structure = with_values(result, self.value_of) if isinstance(result, (dict, tuple, list, torch.Tensor)) else None
        return result


def unique(values: Iterable[Value]) -> List[Value]:
    return list(dict.fromkeys(values))


def function_name(func: Callable) -> str:
    """`add_` of torch.Tensor.add_, `T` of the property's getter."""
    name = getattr(func, "__name__", str(func))
    if name == "__get__":
        owner = getattr(func, "__self__", None)
        inner = getattr(owner, "__name__", "")
        return inner if inner in ("T", "mT", "H", "mH", "data") else "__get__"
    return name


OWN_FILE = os.path.abspath(__file__)
TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep


def source_line() -> str:
    """The line of the nearest caller that is not torch's."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(TORCH_FOLDER) and os.path.abspath(name) != OWN_FILE:
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return "?"


def run_recorded(model: nn.Module, batch: Any, forward: Callable, loss: Optional[Callable]) -> Recorder:
    recorder = Recorder(model)
    recorder.top.inputs = unique([recorder.value_of(t) for t in flat_tensors(batch)])
    for value in recorder.top.inputs:
        value.kind = "input"
    original = nn.Module.__call__

    def recorded(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return recorder.call_module(original, module, args, kwargs)

    nn.Module.__call__ = recorded  # type: ignore[assignment]
    try:
        with recorder:
            out = forward(model, batch)
            recorder.event += 1
            recorder.top.end = recorder.event
            recorder.top.results = unique([recorder.value_of(t) for t in flat_tensors(out)])
            steps = len(recorder.top.steps)
            if loss is not None:
                loss(model, out, batch)
            recorder.loss_steps = recorder.top.steps[steps:]
            del recorder.top.steps[steps:]
    finally:
        nn.Module.__call__ = original  # type: ignore[assignment]
    return recorder


# --- a model and batch without data -----------------------------------------------------------------------------------


def on_meta(model: nn.Module) -> nn.Module:
    """A copy of the model whose tensors have no data. No weight of the original is copied on the way."""
    memo: Dict[int, Any] = {}
    for module in model.modules():
        held = list(module._parameters.values()) + list(module._buffers.values()) + list(module.__dict__.values())
        for tensor in held:
            if isinstance(tensor, torch.Tensor) and id(tensor) not in memo:
                empty = torch.empty_like(tensor, device="meta", requires_grad=False)
                memo[id(tensor)] = nn.Parameter(empty, requires_grad=False) if isinstance(tensor, nn.Parameter) else empty
    return copy.deepcopy(model, memo)


def batch_on_meta(batch: Any, size: int) -> Any:
    if isinstance(batch, torch.Tensor):
        return torch.empty((size,) + tuple(batch.shape[1:]), dtype=batch.dtype, device="meta")
    if isinstance(batch, dict):
        return type(batch)((k, batch_on_meta(v, size)) for k, v in batch.items())
    if isinstance(batch, (tuple, list)):
        return type(batch)(batch_on_meta(v, size) for v in batch)
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
    else:
        problems.append("the model runs other operations for another batch")
    if problems:
        raise ExportError("\n".join(dict.fromkeys(problems)))


def merge_frames(a: Frame, b: Frame, problems: List[str]) -> None:
    if [getattr(s, "name", "") for s in a.steps] != [getattr(s, "name", "") for s in b.steps]:
        problems.append(f"{a.path or 'the model'}: runs other operations for another batch")
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
        self.own_weights = False  # its weights are the frame's own: F.conv2d(x, self.weight)
        self.body: Optional[Body] = None
        self.tie = ""
        self.frozen = self.keep = self.has_weights = False
        self.view = False  # moves no data


class Body:
    """A frame as entries."""

    def __init__(self, frame: Frame):
        self.frame = frame
        self.inputs = list(frame.inputs)
        self.entries: List[Entry] = []
        self.defined: Dict[Value, List[Tuple[Entry, int]]] = {}  # in-place calls define a tensor again
        self.names: Dict[str, int] = {}
        self.sequential = False
        self.holds: Dict[int, List[Value]] = {}  # after which entry what is let go
        self.order: List[str] = []
        self.input_names: List[str] = []
        self.starts_without_input = False

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        for k, value in enumerate(entry.outputs):
            self.defined.setdefault(value, []).append((entry, k))

    def definition(self, value: Value, before: Entry) -> Optional[Tuple[Entry, int]]:
        """The entry that a value was last the result of before another entry; None where it was given."""
        position = {id(e): i for i, e in enumerate(self.entries)}
        earlier = [d for d in self.defined.get(value, ()) if position[id(d[0])] < position[id(before)]]
        return earlier[-1] if earlier else None

    def fresh_name(self, wanted: str) -> str:
        """A name that no entry of this body has."""
        name, count = wanted, 1
        while name in self.names or name in ("input", "inputs"):
            count += 1
            name = f"{wanted}_{count}"
        self.names[name] = 1
        return name


def relative(path: str, frame_path: str) -> Optional[str]:
    """A module's path as seen from a frame; None for one outside of it."""
    if not frame_path:
        return path or None
    return path[len(frame_path) + 1:] if path.startswith(frame_path + ".") else None


class Lowering:
    """Turns a run into bodies. Collects what the catalog lacks."""

    def __init__(self, model: nn.Module, run: Recorder):
        self.model, self.run = model, run
        self.unknown: Dict[str, None] = {}
        self.used: Dict[str, str] = {}  # weights by path, and the absolute path of the entry that has them
        self.trained = {n: p.requires_grad for n, p in model.named_parameters(remove_duplicate=True)}
        self.names_of_tied = {}
        seen: Dict[int, str] = {}
        for n, p in list(model.named_parameters(remove_duplicate=False)) + list(model.named_buffers(remove_duplicate=False)):
            self.names_of_tied[n] = seen.setdefault(id(p), n)

    # --- frames

    def lower(self, frame: Frame) -> Body:
        body = Body(frame)
        for value in frame.inputs:
            value.shape = value.shape
        for step in frame.steps:
            if isinstance(step, Frame):
                self.add_block(body, step)
            elif step.module is not None:
                self.add_module(body, step)
            else:
                self.add_function(body, step)
        return body

    def add_block(self, body: Body, frame: Frame) -> None:
        child = self.lower(frame)
        if not child.entries:
            return
        only = child.entries[0]
        collapses = len(child.entries) == 1 and only.own_weights and only.outputs == frame.results and len(frame.inputs) == 1
        if collapses:
            entry = only
            entry.own_weights = False
            entry.inputs = list(frame.inputs)
        else:
            self.finish(child)
            entry = Entry("", (), child.inputs, list(frame.results))
            entry.body = child
        entry.event = frame.end
        entry.path = frame.path
        rel = relative(frame.path, body.frame.path)
        entry.name = body.fresh_name(rel or snake(type(frame.module).__name__))
        for value in entry.inputs:
            self.find(body, value)
        body.add(entry)

    def finish(self, body: Body) -> None:
        """The last entry is what the frame returned."""
        results = [v for v in body.frame.results]
        for value in results:
            self.find(body, value)
        last = body.entries[-1]
        if len(results) == 1 and (not last.outputs or last.outputs[0] is not results[0]):
            body.add(Entry("Identity", (), results, results))
            body.entries[-1].view = True
        elif len(results) > 1 and last.outputs != results:
            body.add(Entry("Return", (), results, results))
            body.entries[-1].view = True

    def find(self, body: Body, value: Value) -> None:
        """Makes a value known in a body: defined by an entry, given to it, or a weight of its own."""
        if value in body.defined or value in body.inputs:
            return
        if value.weight is not None:
            rel = relative(value.weight, body.frame.path)
            if rel is not None and not self.is_leaf_weight(body, rel):
                return self.add_weight(body, value, rel)
        if body.frame is self.run.top:
            if value.kind == "activation":
                self.constant(body, value)
            return
        body.inputs.append(value)

    def is_leaf_weight(self, body: Body, rel: str) -> bool:
        return False

    def constant(self, body: Body, value: Value) -> None:
        """A tensor that the model's code keeps outside of parameters and buffers."""
        entry = Entry("Buffer", [("shape", list(value.shape)), ("dtype", dtype_name(value.dtype))], [], [value])
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
        body.add(entry)

    def own(self, entry: Entry, weights: List[str], path: str) -> None:
        """The entry has these weights, or shares them with the one that had them first."""
        entry.has_weights = True
        entry.path = path
        parameters = [w for w in weights if w in self.trained]
        entry.frozen = bool(parameters) and not any(self.trained[w] for w in parameters)
        if parameters and not entry.frozen and not all(self.trained[w] for w in parameters):
            self.unknown[f"{path}: some of its weights are frozen and others are not"] = None
        owners = {self.used[w] for w in weights if w in self.used}
        if owners:
            entry.tie = sorted(owners)[0]
        for w in weights:
            self.used.setdefault(w, path)

    # --- modules

    def add_module(self, body: Body, call: Call) -> None:
        module, path = call.module, call.path
        assert module is not None
        tensors = flat_values((call.args, call.kwargs))
        if call.name == "Identity":
            return
        arguments = constructor_arguments(module)
        if call.name == "MultiheadAttention":
            if len(set(tensors[:3])) != 1 or len(tensors) > 3:
                return self.refuse(call, "attention of several tensors, or with a mask")
            need = call.kwargs.get("need_weights", True)
            arguments += [] if need else [("need_weights", False)]
            tensors = tensors[:1]
        outputs = call.results[:1] if call.name in ("MultiheadAttention",) else list(call.results)
        if call.name in ("Dropout", "Dropout2d", "StochasticDepth") and outputs == tensors and not getattr(module, "inplace", False) \
                and dict(arguments).get("p") in (0, 0.0):
            outputs = list(tensors)
        entry = Entry(call.name, arguments, tensors, outputs)
        entry.event = call.event
        weights = [self.names_of_tied.get(f"{path}.{n}", f"{path}.{n}") for n, _ in list(module.named_parameters()) + list(module.named_buffers())]
        entry.path = path
        if weights:
            self.own(entry, weights, path)
        rel = relative(path, body.frame.path)
        entry.name = body.fresh_name(rel or snake(call.name))
        self.connect(body, entry)

    def connect(self, body: Body, entry: Entry) -> None:
        for value in entry.inputs:
            self.find(body, value)
        body.add(entry)

    def refuse(self, call: Call, why: str = "") -> None:
        self.unknown[f"{call.source}: {call.name}" + (f" ({why})" if why else "")] = None

    # --- functions

    def add_function(self, body: Body, call: Call) -> None:
        handler = FUNCTIONS.get(call.name)
        if handler is None:
            return self.refuse(call, "no layer does this")
        writer = Writer(self, body, call)
        try:
            handler(writer)
        except Unsupported as e:
            self.refuse(call, str(e))


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
        in_place = w.call.name.endswith("_") and not w.call.name.endswith("__") or w.call.name.startswith("__i")
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
    w.emit("Pow", [("exponent", exponent)], [w.x])


@handles("matmul", "__matmul__", "bmm", "mm")
def write_matmul(w: Writer) -> None:
    w.emit("MatMul", [], [w.x, w.argument(1, "other", w.kwargs.get("mat2"))])


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


@handles("leaky_relu")
def write_leaky_relu(w: Writer) -> None:
    slope = w.argument(1, "negative_slope", 0.01)
    flags = [("inplace", True)] if w.argument(2, "inplace", False) else []
    w.emit("LeakyReLU", [("negative_slope", slope)] + flags, [w.x])


@handles("dropout", "alpha_dropout")
def write_dropout(w: Writer) -> None:
    p, training, inplace = w.argument(1, "p", 0.5), w.argument(2, "training", True), w.argument(3, "inplace", False)
    if training or w.results() != [w.x]:
        w.emit("Dropout", [("p", p if training else 0.0)] + ([("inplace", True)] if inplace else []), [w.x])


@handles("softmax", "log_softmax")
def write_softmax(w: Writer) -> None:
    if w.kwargs.get("dtype") is not None and w.kwargs["dtype"] != w.x.dtype:
        raise Unsupported("of another type")
    op = "Softmax" if w.call.name == "softmax" else "LogSoftmax"
    dtype = w.kwargs.get("dtype")
    w.emit(op, [("dim", w.argument(1, "dim"))] + ([("dtype", dtype_name(dtype))] if dtype is not None else []), [w.x])


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
    return list(first) if isinstance(first, (tuple, list)) else list(w.args[1:])


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
    """x[a:b, ..., None, 3]: one view after the other, as torch does it; or rows by an index tensor."""
    index = w.argument(1, "index")
    parts = list(index) if isinstance(index, (tuple, list)) else [index]
    if any(isinstance(p, Value) for p in parts):
        return write_index(w, parts)
    steps = index_steps(parts, list(w.x.shape))
    x = w.x
    for i, (op, arguments, shape) in enumerate(steps):
        y = w.results()[0] if i == len(steps) - 1 else w.inner(shape)
        w.emit(op, [("", a) for a in arguments], [x], [y], view=True)
        x = y
    if not steps:
        w.emit("Identity", [], [x], view=True)


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
        raise Unsupported("nothing is left")
    arguments = [dim, start] + ([stop] if stop < size or step != 1 else []) + ([step] if step != 1 else [])
    return shape, [("Slice", arguments, shape)]


def write_index(w: Writer, parts: List[Any]) -> None:
    """table[index]: rows by int64 indices."""
    if len(parts) != 1 or parts[0].dtype != torch.int64:
        raise Unsupported("indexed by tensors")
    w.emit("Index", [], [w.x, parts[0]])


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
    w.emit("Mean" if w.call.name == "mean" else "Sum", arguments + ([("keepdim", True)] if keep else []), [w.x])


@handles("pad")
def write_pad(w: Writer) -> None:
    mode, value = w.argument(2, "mode", "constant"), w.argument(3, "value", 0)
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
    scale = w.argument(2, "scale_factor")
    arguments: List[Tuple[str, Any]] = [("scale_factor", simplified(scale))] if scale is not None else [("size", size)]
    arguments += [("mode", mode)] if mode != "nearest" else []
    w.emit("Interpolate", arguments + ([("align_corners", corners)] if corners is not None else []), [w.x])


@handles("adaptive_avg_pool2d")
def write_adaptive_pool(w: Writer) -> None:
    w.emit("AdaptiveAvgPool2d", [("", simplified(w.argument(1, "output_size")))], [w.x])


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


@handles("to", "float", "half", "bfloat16", "double", "type_as", "type", "long", "int", "bool")
def write_to(w: Writer) -> None:
    out = w.results()[0]
    if out is w.x and w.call.name not in ("float", "double"):
        return
    if out.dtype == w.x.dtype and out is not w.x and out.storage != w.x.storage:
        return w.emit("Clone", [], [w.x]) and None
    w.emit("To", [("dtype", dtype_name(out.dtype))], [w.x])


@handles("detach", "data")
def write_detach(w: Writer) -> None:
    w.emit("Detach", [], [w.x], view=True)


@handles("clamp", "clip")
def write_clamp(w: Writer) -> None:
    low, high = w.argument(1, "min"), w.argument(2, "max")
    if isinstance(low, Value) or isinstance(high, Value):
        raise Unsupported("between tensors")
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
    a = einsum_operand(w, operands[0], left, [both, only_left, summed], sizes)
    b = einsum_operand(w, operands[1], right, [both, summed, only_right], sizes)
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
    """x[a:b, c:d] = number."""
    index, value = w.argument(1, "key"), w.argument(2, "value")
    parts = list(index) if isinstance(index, (tuple, list)) else [index]
    if not number(value) or any(isinstance(p, Value) for p in parts):
        raise Unsupported("of a tensor, or by one")
    x = w.x
    for op, arguments, shape in index_steps(parts, list(w.x.shape)):
        y = w.inner(shape)
        w.emit(op, [("", a) for a in arguments], [x], [y], view=True)
        x = y
    w.emit("Fill", [("", value)], [x], [])


@handles("zero_", "fill_")
def write_fill(w: Writer) -> None:
    value = 0 if w.call.name == "zero_" else w.argument(1, "value")
    if not number(value):
        raise Unsupported("by a tensor")
    w.emit("Fill", [("", value)], [w.x])


@handles("zeros", "new_zeros")
def write_zeros(w: Writer) -> None:
    out = w.results()[0]
    if any(isinstance(n, Batch) and n.times != 1 for n in out.shape):
        raise Unsupported("of a multiple of the batch")
    dtype = [] if out.dtype == torch.float32 else [("dtype", dtype_name(out.dtype))]
    w.emit("Zeros", [("", "_" if isinstance(n, Batch) else n) for n in out.shape] + dtype, [])


def comparison(op: str) -> Callable[[Writer], None]:
    def write(w: Writer) -> None:
        other = w.argument(1, "other")
        if not number(other):
            raise Unsupported("with a tensor")
        w.emit(op, [("", other)], [w.x])
    return write


for _op, _names in {"Eq": "eq __eq__", "Ne": "ne __ne__", "Lt": "lt __lt__", "Le": "le __le__", "Gt": "gt __gt__",
                    "Ge": "ge __ge__"}.items():
    handles(*_names.split())(comparison(_op))


# --- functions with weights


@handles("linear")
def write_linear(w: Writer) -> None:
    weight, bias = w.argument(1, "weight"), w.argument(2, "bias")
    if weight.weight is None or (bias is not None and bias.weight is None):
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
    if weight.weight is None:
        return w.emit(op, arguments, [w.x, weight] + ([bias] if bias is not None else [])) and None
    w.with_weights(op, arguments + ([("bias", False)] if bias is None else []), [w.x], [weight, bias])


@handles("layer_norm")
def write_layer_norm(w: Writer) -> None:
    shape, weight, bias = w.argument(1, "normalized_shape"), w.argument(2, "weight"), w.argument(3, "bias")
    arguments: List[Tuple[str, Any]] = [("", shape[0] if len(shape) == 1 else list(shape)), ("eps", w.argument(4, "eps", 1e-5))]
    if weight is None:
        return w.emit("LayerNorm", arguments + [("elementwise_affine", False)], [w.x]) and None
    w.with_weights("LayerNorm", arguments + ([("bias", False)] if bias is None else []), [w.x], [weight, bias])


@handles("rms_norm")
def write_rms_norm(w: Writer) -> None:
    shape, weight = w.argument(1, "normalized_shape"), w.argument(2, "weight")
    arguments: List[Tuple[str, Any]] = [("", shape[0] if len(shape) == 1 else list(shape)), ("eps", w.argument(3, "eps"))]
    if weight is None:
        return w.emit("RMSNorm", arguments + [("elementwise_affine", False)], [w.x]) and None
    w.with_weights("RMSNorm", arguments, [w.x], [weight])


@handles("group_norm")
def write_group_norm(w: Writer) -> None:
    weight, bias = w.argument(2, "weight"), w.argument(3, "bias")
    arguments = [("", w.argument(1, "num_groups")), ("", w.x.shape[1]), ("eps", w.argument(4, "eps", 1e-5))]
    if weight is None:
        return w.emit("GroupNorm", arguments + [("affine", False)], [w.x]) and None
    w.with_weights("GroupNorm", arguments, [w.x], [weight, bias])


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


# --- lifetimes --------------------------------------------------------------------------------------------------------


def all_bodies(body: Body) -> Iterable[Body]:
    yield body
    for entry in body.entries:
        if entry.body is not None:
            yield from all_bodies(entry.body)


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
                for value in entry.inputs + entry.outputs:
                    if entry.body is None or value in entry.inputs:
                        last_use[value.storage] = max(last_use.get(value.storage, 0), entry.event)
            if entry.body is None and not entry.view and not (entry.op in ("ReLU", "Add", "Sub") and ("inplace", True) in entry.arguments):
                allocating.append(entry.event)
    died: Dict[int, int] = {}
    for value in run.every_value:
        died[value.storage] = max(died.get(value.storage, 0), min(value.died, run.top.end))
    permanent = {v.storage for v in run.every_value if v.kind != "activation"} | {v.storage for v in run.top.results}
    for storage, used in last_use.items():
        if storage in permanent or storage not in died:
            continue
        later = [e for e in allocating if used < e <= died[storage]]
        if later:
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
    if all(e.view and e.body is None for e in body.entries[at + 1:]):
        holder.keep = True
    else:
        body.holds.setdefault(at, []).append(value)


# --- equal blocks -----------------------------------------------------------------------------------------------------

# Arguments that are written without their name.
POSITIONAL = frozenset("in_channels out_channels kernel_size num_features in_features out_features num_embeddings "
                       "embedding_dim normalized_shape output_size p mode dim embed_dim num_heads num_groups num_channels nf "
                       "nx window_size shift_size input_size hidden_size".split())


class Template(NamedTuple):
    """A call with a gap for every number and flag in it."""
    text: str
    values: List[Any]
    names: List[str]


def template_of(entry: Entry) -> Template:
    values: List[Any] = []
    names: List[str] = []

    def write(value: Any, name: str) -> str:
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
        positional = positional and (not name or name in POSITIONAL)
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
        signature: List[Any] = [type(body.frame.module).__name__, len(body.inputs), body.sequential, tuple(body.order)]
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
                              len(entry.outputs)))
        key = tuple(signature)
        kinds = tuple(type(v) for v in vector)
        group = self.groups.setdefault((key, kinds), Group(type(body.frame.module).__name__))
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


# Words of the grammar, which an entry can be called only by `name:`.
STRUCTURE_WORDS = frozenset("name op block layers residual parallel if from tie frozen checkpoint keep order repeat loop with "
                            "first last".split())


class Printer:
    """Writes the spec."""

    def __init__(self, folder: Folder):
        self.folder = folder
        self.printed: Dict[int, List[str]] = {}  # of a group
        self.defaults: Dict[int, Dict[str, Any]] = {}

    def blocks(self, top: Body) -> List[str]:
        lines: List[str] = []
        for group in self.folder.groups.values():
            if group.bodies[0] is top or all(b.sequential for b in group.bodies):
                continue
            lines.append(f"  {group.name}:")
            if group.params:
                lines.append("    params: {" + ", ".join(self.param(group, n, s) for n, s in group.params) + "}")
            lines += self.order(group.bodies[0], "    ")
            lines.append("    layers:")
            lines += ["      " + line for line in self.entries(group.bodies[0], group.param_of)]
        return lines

    def order(self, body: Body, indent: str) -> List[str]:
        return [f"{indent}order: [{', '.join(body.order)}]"] if body.order else []

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
                after = body.entries[i + count]
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

    def name_of(self, body: Body, value: Value, names: Dict[int, str], user: Entry) -> str:
        known = body.definition(value, user)
        if known is not None:
            entry, k = known
            name = names[id(entry)]
            return f"{name}.{k}" if len(entry.outputs) > 1 else name
        k = body.inputs.index(value)
        if body.input_names:
            return body.input_names[k]
        return f"input.{k}" if k else "input"

    @staticmethod
    def definers(body: Body, values: Iterable[Value], user: Entry) -> Iterable[int]:
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
                after = body.entries[i + 1]
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
        name = names[id(entry)]
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
        return self.flow(name, [f"block: {self.folder.of[id(entry.body)].name}"] + self.given(entry.body, param_of, slot) + extra), used

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
        flags += [f"tie: {entry.tie}"] if entry.tie else []
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
        parts = [f"block: {group.name}", f"repeat: {len(run)}"] + extra
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
    """The names of the entries with weights in the order in which they are moved to the GPU, where it is not that of their run."""
    owned = [(ranks.get(e.path, -1), e.name) for e in body.entries
             if e.name and e.path in ranks and not e.tie and (e.has_weights or (e.body is not None and holds_weights(e.body)))]
    return [] if owned == sorted(owned) else [name for _, name in sorted(owned)]


def holds_weights(body: Body) -> bool:
    return any(e.has_weights or (e.body is not None and holds_weights(e.body)) for e in body.entries)


def moving_ranks(model: nn.Module) -> Dict[str, int]:
    """When each module's weights get their memory, by path, as model.to("cuda") moves them: a module's children first,
    then its own (torch.nn.Module._apply). A model that is made on the GPU gets them in the order of its constructors'
    statements, which nothing in the model tells."""
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
    top.entries[:0] = unused
    if unused:
        top.starts_without_input = True


def input_lines(batch: Any, run: Recorder) -> Tuple[List[str], List[str]]:
    """The inputs: section, and their names."""
    names = list(batch.keys()) if hasattr(batch, "keys") else []
    values = run.top.inputs
    if len(names) != len(values):
        names = [f"input{i}" for i in range(len(values))]
    shapes = []
    for value in values:
        dtype = "" if value.dtype in (torch.float32, torch.float16, torch.bfloat16) else f", dtype: {dtype_name(value.dtype)}"
        shapes.append("{shape: [" + ", ".join(str(n) for n in value.shape[1:]) + "]" + dtype + "}")
    if len(values) == 1:
        return [f"input: {shapes[0]}"], []
    return ["inputs:"] + [f"  {n}: {s}" for n, s in zip(names, shapes)], names


def return_results(top: Body, lowering: Lowering, main: Optional[Value]) -> None:
    """The model's output is the last entry; what else its output object names lives as long."""
    results = top.frame.results
    main = main if main is not None else results[0]
    for value in results:
        lowering.find(top, value)
        if value is not main:
            top.add(Entry("ReturnedState", (), [value], [value]))
            top.entries[-1].view = True
    if top.entries[-1].outputs[:1] != [main] or len(top.entries[-1].outputs) != 1:
        top.add(Entry("Identity", (), [main], [main]))
        top.entries[-1].view = True


def top_body(lowering: Lowering, run: Recorder, main: Optional[Value]) -> Body:
    """The model's own forward, with what the forward function does around it."""
    steps = run.top.steps
    roots = [s for s in steps if isinstance(s, Frame) and s.module is run.model]
    if len(roots) == 1:
        at = steps.index(roots[0])
        run.top.steps = steps[:at] + roots[0].steps + steps[at + 1:]
        run.top.module = run.model
    top = lowering.lower(run.top)
    if not top.entries:
        raise ExportError("the model runs no operation of torch")
    return top


def loss_line(run: Recorder) -> Tuple[str, Optional[Value]]:
    """The loss as a layer of the catalog, and the output that it reads."""
    steps = run.loss_steps
    calls = [s for s in steps if isinstance(s, Call)] + \
        [c for s in steps if isinstance(s, Frame) for c in s.steps if isinstance(c, Call)]
    if not calls:
        return "", None
    names = {v: k for k, v in LOSSES.items()}
    if len(calls) == 1 and calls[0].name in names:
        call = calls[0]
        arguments = [f"{k}={call_scalar(v) if not isinstance(v, str) else repr(v)}" for k, v in call.kwargs.items()
                     if k in ("reduction", "label_smoothing", "ignore_index", "beta", "delta") and v is not None
                     and (k, v) not in (("reduction", "mean"), ("label_smoothing", 0.0), ("ignore_index", -100), ("beta", 1.0), ("delta", 1.0))]
        return f"{names[call.name]}({', '.join(arguments)})", flat_values(call.args)[0]
    if len(calls) == 1 and calls[0].name in ("mean", "sum") and len(calls[0].args) == 1:
        return calls[0].name, flat_values(calls[0].args)[0]
    raise ExportError("the loss is more than one call of a loss that gpuplan has:\n" +
                      "\n".join(f"  {c.source}: {c.name}" for c in calls))


def header(model: nn.Module, name: str, mode: str) -> List[str]:
    count = sum(p.numel() for p in model.parameters())
    return [f"# {type(model).__name__}: {count:,} parameters. Written by gpuplan_export.py from its run in {mode} mode,",
            f"# PyTorch {torch.__version__.split('+')[0]}.", "gpuplan: 1", f"name: {name}"]


def describe(model: nn.Module, batch: Any, name: str, forward: Callable, loss: Optional[Callable]) -> str:
    """The spec of a model as text."""
    bare = on_meta(model)
    runs = [run_recorded(bare, batch_on_meta(batch, size), forward, loss) for size in TRACED_BATCHES]
    run = runs[0]
    merge_runs(run, runs[1])
    line, main = loss_line(run)
    for p, original in zip(bare.parameters(), model.parameters()):
        p.requires_grad_(original.requires_grad)
    lowering = Lowering(bare, run)
    top = top_body(lowering, run, main)
    return_results(top, lowering, main)
    add_unused_weights(top, lowering)
    if lowering.unknown:
        raise ExportError("gpuplan has no layer for these calls:\n" + "\n".join("  " + u for u in lowering.unknown))
    inputs, top.input_names = input_lines(batch, run)
    hold_what_python_holds(top, run)
    ranks = moving_ranks(bare)
    for body in all_bodies(top):
        for entry in body.entries:
            if entry.body is not None:
                make_sequential(entry.body, entry)
        if not body.sequential:
            body.order = construction_order(body, ranks)
    folder = Folder()
    folder.fold(top)
    printer = Printer(folder)
    blocks = printer.blocks(top)
    lines = header(model, name, "train" if model.training else "eval") + inputs
    lines += ["blocks:"] + blocks if blocks else []
    lines += printer.order(top, "")
    lines += ["layers:"] + ["  " + text for text in printer.entries(top, {})]
    return "\n".join(lines + ([f"loss: {line}"] if line else [])) + "\n"


def export(model: nn.Module, batch: Any, output: str = "model.yaml",
           forward: Callable[[nn.Module, Any], Any] = call_on_batch,
           loss: Optional[Callable[[nn.Module, Any, Any], Any]] = None, name: str = "") -> str:
    """Writes the model's spec to `output` and returns it.

    batch: a tensor, or a tuple or dict of tensors, the first dimension of each being the batch. forward: how the model
    is called, on the batch where it is left out. loss: of the model, its output and the batch; its targets are not
    part of the spec's inputs. The model, which may be on any device, meta included, is not changed."""
    name = name or os.path.splitext(os.path.basename(output))[0]
    text = describe(model, batch, name, forward, loss)
    with open(output, "w", encoding="utf-8") as file:
        file.write(text)
    return text


# --- the command line -------------------------------------------------------------------------------------------------


def parsed_input(text: str) -> torch.Tensor:
    """3x224x224, or 128:int64 for other types."""
    shape, _, dtype = text.partition(":")
    sizes = [int(n) for n in shape.split("x")] if shape else []
    return torch.empty([2] + sizes, dtype=getattr(torch, dtype or "float32"), device="meta")


def built(target: str, arguments: Sequence[str]) -> nn.Module:
    """MODULE:CALLABLE, called with name=value arguments, without data where it can be."""
    module, _, attribute_ = target.partition(":")
    if not attribute_:
        raise ExportError(f"{target}: expected MODULE:CALLABLE, as in torchvision.models:resnet50")
    sys.path.insert(0, os.getcwd())
    make: Any = importlib.import_module(module)
    for part in attribute_.split("."):
        make = getattr(make, part)
    keywords = {}
    for argument in arguments:
        key, _, value = argument.partition("=")
        try:
            keywords[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            keywords[key] = value
    return constructed(lambda: make(**keywords))


def constructed(make: Callable[[], nn.Module]) -> nn.Module:
    """A model whose parameters have no data, unless its constructor runs it."""
    try:
        with weights_without_data():
            return make()
    except (NotImplementedError, RuntimeError):
        return make()


@contextlib.contextmanager
def weights_without_data() -> Iterator[None]:
    """Modules that are made here have their parameters on the meta device, and all else where it is made: constructors
    may compute with values, and a model of any size takes no memory and no time to initialize."""
    original = nn.Module.register_parameter

    def register(module: nn.Module, name: str, parameter: Optional[nn.Parameter]) -> None:
        if parameter is not None and parameter.device.type != "meta":
            parameter = nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad)
        original(module, name, parameter)

    nn.Module.register_parameter = register  # type: ignore[assignment]
    try:
        yield
    finally:
        nn.Module.register_parameter = original  # type: ignore[assignment]


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(description="Writes a gpuplan spec of a PyTorch model.")
    parser.add_argument("model", help="MODULE:CALLABLE that makes it, as torchvision.models:resnet50")
    parser.add_argument("--input", action="append", required=True, metavar="SIZES",
                        help="an input without the batch: 3x224x224, or 128:int64; once for each")
    parser.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE", help="of the callable")
    parser.add_argument("--eval", action="store_true", help="run in eval mode")
    parser.add_argument("-o", "--output", default="model.yaml")
    options = parser.parse_args(arguments)
    try:
        model = built(options.model, options.arg)
        model.train(not options.eval)
        inputs = tuple(parsed_input(i) for i in options.input)
        export(model, inputs[0] if len(inputs) == 1 else inputs, options.output)
    except ExportError as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    except (ImportError, AttributeError) as e:
        print(f"error: {options.model}: {e}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

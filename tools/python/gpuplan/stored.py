"""Modules of libraries that store weights in forms of their own: bitsandbytes' 4 and 8 bits, torchao's and HQQ's tensors.

Nothing is known here of a form. Such a module is copied around tensors without data, runs as one call, and is written as an
operator without a layer: a simulated GPU runs the module itself, made again around tensors of the same sizes."""
from __future__ import annotations

import base64
import functools
import io
import pickle
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import torch
from torch import nn

LIBRARIES = ("bitsandbytes", "torchao", "hqq", "gptqmodel", "auto_gptq", "awq")
HELD = "held"  # of a call of such a module: its tensors, by their numbers
DEPTH = 5  # of the objects in which a module holds its tensors


def of_library(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in LIBRARIES


def is_stored(module: nn.Module) -> bool:
    """Whether it has tensors of a library's class, or floating numbers of 8 bits, or is of a library and has integers."""
    own = [t for t in [*module._parameters.values(), *module._buffers.values()] if t is not None]
    return any(of_library(type(t)) or of_library(type(module)) and not t.is_floating_point() or is_float8(t.dtype) for t in own)


def is_float8(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point and dtype.itemsize == 1


class Key(NamedTuple):
    """Which memory a tensor is: a parameter and the attribute that is its data are one."""

    storage: int
    offset: int
    shape: Tuple[int, ...]
    dtype: torch.dtype


def key_of(tensor: torch.Tensor) -> Key:
    return Key(tensor.untyped_storage()._cdata, tensor.storage_offset(), tuple(tensor.shape), tensor.dtype)


def parts(tensor: torch.Tensor) -> Dict[str, torch.Tensor]:
    """The tensors that one of a library's is a wrapper of; empty of one that has memory itself."""
    return {name: getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]} if hasattr(tensor, "__tensor_flatten__") else {}


def named_tensors_of(holder: Any, depth: int = 0) -> List[Tuple[str, torch.Tensor]]:
    """Those that a module, or an object in it, holds, by the path of attributes: weight, weight_quant_state_absmax. A dot would make them
    parts of an entry `weight`."""
    if isinstance(holder, nn.Module):
        children = {**holder._parameters, **holder._buffers, **vars(holder)}
    else:
        children = holder if isinstance(holder, dict) else dict(getattr(holder, "__dict__", {}))
        children = {**(parts(holder) if isinstance(holder, torch.Tensor) else {}), **children}
    found: List[Tuple[str, torch.Tensor]] = []
    for name, child in children.items():
        if isinstance(child, nn.Module) or depth > DEPTH or isinstance(child, type):
            continue
        if isinstance(child, torch.Tensor) and not parts(child):
            found.append((str(name), child))
        if not callable(child):
            found += [(f"{name}_{inner}", tensor) for inner, tensor in named_tensors_of(child, depth + 1)]
    return found


class Data(NamedTuple):
    """The tensor itself, behind its class."""

    tensor: torch.Tensor


class Writing(pickle.Pickler):
    """A module with numbers in place of its tensors."""

    def __init__(self, file: io.BytesIO):
        super().__init__(file)
        self.tensors: List[torch.Tensor] = []
        self.numbers: Dict[Key, int] = {}

    def persistent_id(self, value: Any) -> Any:
        if type(value) in (torch.Tensor, nn.Parameter):
            return self.number(value), isinstance(value, nn.Parameter)
        return (self.number(value.tensor), False) if isinstance(value, Data) else None

    def number(self, tensor: torch.Tensor) -> int:
        key = key_of(tensor)
        if key not in self.numbers:
            self.numbers[key] = len(self.tensors)
            self.tensors.append(tensor)
        return self.numbers[key]

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, nn.Module):
            # torchao's extra_repr, our forward, and what libraries compile: methods of the instance, which its class has, too.
            make, of, state, *rest = value.__reduce_ex__(2)
            return (make, of, {k: v for k, v in state.items() if not (callable(v) and callable(getattr(type(value), k, None)))}, *rest)
        if not isinstance(value, torch.Tensor):
            return NotImplemented
        inner = parts(value)
        if inner:
            return wrapped, (type(value), inner, value.__tensor_flatten__()[1], tuple(value.shape), value.stride())
        return of_class, (type(value), Data(value)), dict(vars(value)), None, None, with_attributes


def with_attributes(tensor: torch.Tensor, attributes: Dict[str, Any]) -> None:
    vars(tensor).update(attributes)


def of_class(cls: Any, data: torch.Tensor) -> torch.Tensor:
    return torch.Tensor._make_subclass(cls, data.detach(), False)


def wrapped(cls: Any, inner: Dict[str, torch.Tensor], context: Any, shape: Sequence[int], strides: Sequence[int]) -> torch.Tensor:
    made: torch.Tensor = cls.__tensor_unflatten__(inner, context, torch.Size(shape), tuple(strides))
    return made


class Reading(pickle.Unpickler):
    def __init__(self, data: bytes, tensors: Sequence[torch.Tensor]):
        super().__init__(io.BytesIO(data))
        self.tensors = tensors
        self.parameters: Dict[int, nn.Parameter] = {}

    def persistent_load(self, what: Tuple[int, bool]) -> torch.Tensor:
        number, is_parameter = what
        tensor = self.tensors[number]
        if not is_parameter or tensor.requires_grad:
            return tensor
        return self.parameters.setdefault(number, tensor if isinstance(tensor, nn.Parameter) else nn.Parameter(tensor, requires_grad=False))


class Stored(NamedTuple):
    """A module without its tensors, as text."""

    text: str

    def around(self, tensors: Sequence[torch.Tensor]) -> nn.Module:
        module: nn.Module
        forward, module = Reading(base64.b64decode(self.text), tensors).load()
        if type(module).forward.__name__ != forward:
            type(module).forward = getattr(type(module), forward)  # type: ignore[method-assign] # HQQ's, which its constructor chooses
        return module


def taken_apart(module: nn.Module) -> Tuple[Stored, List[torch.Tensor]]:
    file = io.BytesIO()
    writing = Writing(file)
    writing.dump((type(module).forward.__name__, module))
    return Stored(base64.b64encode(file.getvalue()).decode()), writing.tensors


def without_data(module: nn.Module, known: Dict[int, Any]) -> nn.Module:
    """A copy whose tensors have no data, in the library's form. known: copies of tensors by the originals' ids."""
    stored, tensors = taken_apart(module)
    for tensor in tensors:
        known.setdefault(id(tensor), torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta"))
    made = stored.around([known[id(t)] for t in tensors])
    for weight in made._parameters.values():
        # bitsandbytes brings a weight into its form when it is moved to a GPU (nn/modules.py, Params4bit.to, Int8Params.to).
        if weight is not None and of_library(type(weight)) and hasattr(weight, "_quantize") and weight.dtype.is_floating_point:
            weight._quantize("meta")
    made.forward = functools.partial(run_without_data, made)  # type: ignore[method-assign]
    return made


def run_without_data(module: nn.Module, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """A library's kernel may have no rule for tensors without data, or decide by values."""
    try:
        return type(module).forward(module, x, *args, **kwargs)
    except (NotImplementedError, RuntimeError):
        if not hasattr(module, "out_features"):
            raise
        return x.new_empty((*x.shape[:-1], module.out_features))


def products(module: nn.Module, x: torch.Tensor) -> Tuple[int, int]:
    """Multiply-adds of a linear module's forward and of its backward for x: its kernels are not those that PyTorch counts."""
    if not hasattr(module, "out_features"):
        return 0, 0
    macs = x.numel() * int(module.out_features)
    return macs, macs if x.requires_grad else 0

"""What a run of the model leaves behind: tensors, calls, the frames of its modules, and structures that hold them."""
from __future__ import annotations

import dataclasses
import sys
from typing import Any, Callable, Iterable, List, NamedTuple, Optional, Tuple

import torch
from torch import nn

FOREVER = sys.maxsize


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
        self.sample_of: Optional[Value] = None  # where it is each sample of this one
        self.everywhere = same_everywhere(tensor)  # booleans, where all are known to be the same
        self.host = tensor.device.type == "cpu"  # not on the device that the model runs on
        self.order = () if self.contiguous else order_of(tensor)


def same_everywhere(tensor: torch.Tensor) -> Optional[bool]:
    """Of a tensor on the host, which has data: True of ones, False of zeros. Of integers logic is another one."""
    if tensor.device.type != "cpu" or not (tensor.is_floating_point() or tensor.dtype == torch.bool) or tensor.numel() == 0:
        return None
    first = tensor.flatten()[0].item()
    return bool(first) if first in (0, 1) and bool((tensor == first).all()) else None


def order_of(tensor: torch.Tensor) -> Tuple[int, ...]:
    """Its dimensions as they lie in memory, the outermost first; nothing where there are gaps or repeated elements."""
    order = tuple(sorted(range(tensor.dim()), key=lambda d: -tensor.stride(d)))
    return order if tensor.permute(order).is_contiguous() else ()


class Call:
    """One call of torch, or of a module that the catalog has as one layer."""

    def __init__(self, name: str, args: tuple, kwargs: dict, event: int, source: str, module: Optional[nn.Module] = None,
                 path: str = ""):
        self.name, self.args, self.kwargs, self.event, self.source = name, args, kwargs, event, source
        self.module, self.path = module, path
        self.results: List[Value] = []
        self.function: Any = None  # torch's own, or a Stored module
        self.grad = torch.is_grad_enabled()
        self.autocast = True  # False: within torch.autocast(enabled=False)
        self.to: Optional[Type] = None  # of a conversion, softmax or sum: the type that the code names

    def dtype_given(self) -> Optional[torch.dtype]:
        given = [a for a in (*self.args[1:], *self.kwargs.values()) if isinstance(a, torch.dtype)]
        return given[0] if given else None


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
        self.held: List[Value] = []  # by the function that such a checkpoint runs, beside its arguments


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


def unique(values: Iterable[Value]) -> List[Value]:
    return list(dict.fromkeys(values))


class Type(NamedTuple):
    """What a conversion is to: a type that the code names, or that of a tensor."""
    like: Optional[Value] = None


class Batch(NamedTuple):
    """A size of so many times the batch."""
    times: int


def flat_values(structure: Any) -> List[Value]:
    if isinstance(structure, Value):
        return [structure]
    if isinstance(structure, dict):
        structure = list(structure.values())
    if isinstance(structure, (tuple, list)):
        return [v for child in structure for v in flat_values(child)]
    return []


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).replace("torch.", "")


def flattened_calls(steps: Iterable[Any]) -> List[Call]:
    return [c for s in steps for c in ([s] if isinstance(s, Call) else flattened_calls(s.steps))]


def read_by(step: Any) -> List[Value]:
    if isinstance(step, Call):
        return flat_values((step.args, step.kwargs))
    return list(step.inputs) + [v for s in step.steps for v in read_by(s)]

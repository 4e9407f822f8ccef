"""A call of torch that another process makes again: which function, of what operands, in which types."""
from __future__ import annotations

import importlib
import inspect
import json
from dataclasses import dataclass
from typing import Any, Callable, List, NamedTuple, Sequence, Tuple

import torch
from torch import nn

from gpuplan.errors import Unsupported
from gpuplan.stored import HELD, Stored
from gpuplan.values import flat_tensors

HALF = torch.bfloat16
MODULES = ("torch", "torch.nn.functional", "torch.Tensor", "torch.special", "torch.linalg", "torch.fft", "torch._C._nn")


def path_of(function: Callable) -> str:
    """Where another process finds a function of torch; empty where it does not."""
    name = getattr(function, "__name__", "")
    owner = getattr(function, "__self__", None)
    if inspect.isclass(owner) and issubclass(owner, torch.autograd.Function):
        path = f"{owner.__module__}.{owner.__qualname__}"
        return f"{path}.{name}" if found(path) is owner else ""
    # torch.linalg.norm is called linalg_norm, torch.fft.fft fft_fft.
    return next((f"{place}.{n}" for place in MODULES for n in (name, name.partition("_")[2]) if n and getattr(found(place), n, None) is function), "")


def found(path: str) -> Any:
    """None where there is none."""
    module, names = path, []
    while module:
        try:
            at: Any = importlib.import_module(module)
        except ImportError:
            module, _, name = module.rpartition(".")
            names.insert(0, name)
            continue
        for name in names:
            at = getattr(at, name, None)
        return at
    return None


class Setting(NamedTuple):
    """In which types it runs: what the model computed, or the first operand where nothing else is a weight, and the others."""

    first: torch.dtype
    others: torch.dtype
    autocast: bool


FULL, IN_HALF = Setting(torch.float32, torch.float32, False), Setting(HALF, HALF, False)
AMP, AMP_HALF, MIXED = Setting(torch.float32, torch.float32, True), Setting(HALF, HALF, True), Setting(HALF, torch.float32, True)


@dataclass(frozen=True)
class Operand:
    """A tensor that the call reads."""

    shape: Tuple[Any, ...]  # each a size, or (times,) of the batch
    dtype: str
    wants_gradient: bool
    is_weight: bool
    order: Tuple[int, ...]  # its dimensions as they lie in memory, the outermost first; empty: as they are counted
    is_fixed: bool = False  # in its type, whatever the model's is

    @property
    def is_float(self) -> bool:
        return self.dtype == "float32" and not self.is_fixed

    def made(self, batch: int, dtype: torch.dtype) -> torch.Tensor:
        shape = [n[0] * batch if isinstance(n, (list, tuple)) else n for n in self.shape]
        order = list(self.order) or list(range(len(shape)))
        lying = [shape[d] for d in order]
        own = getattr(torch, self.dtype)
        if not own.is_floating_point:
            return torch.zeros(lying, dtype=own, device="cuda").permute([order.index(d) for d in range(len(order))])
        return torch.rand(lying, device="cuda").to(dtype if self.is_float else own).permute([order.index(d) for d in range(len(order))])


@dataclass(frozen=True)
class Request:
    function: str
    arguments: str  # JSON of [positional, by name], with {"tensor": i} for the operands and {"batch": times} for sizes
    operands: Tuple[Operand, ...]
    stored: str = ""  # instead of a function, a Stored module, which is called

    def module(self, tensors: Sequence[torch.Tensor]) -> nn.Module:
        """A stored one, around those of the operands that are its own."""
        held = json.loads(self.arguments)[1]["dict"][HELD]
        return Stored(self.stored).around([tensors[operand["tensor"]] for operand in held])

    def called(self, tensors: Sequence[torch.Tensor], batch: int, setting: Setting) -> List[torch.Tensor]:
        """Its results."""
        def given(value: Any) -> Any:
            if isinstance(value, list):
                return [given(v) for v in value]
            if not isinstance(value, dict):
                return value
            (kind, held), = value.items()
            return {"tensor": lambda: tensors[held], "batch": lambda: held * batch, "dtype": lambda: getattr(torch, held), "slice": lambda: slice(*given(held)), "ellipsis": lambda: ...,
                    "dict": lambda: {k: given(v) for k, v in held.items()}}[kind]()

        positional, by_name = (given(part) for part in json.loads(self.arguments))
        by_name.pop(HELD, None)
        function = self.module(tensors) if self.stored else found(self.function)
        if function is None:
            raise Unsupported(f"another process does not find {self.function}")
        with torch.autocast("cuda", dtype=HALF, enabled=setting.autocast):
            result = function(*positional, **by_name)
        return list(tensors[:1]) if result is None else flat_tensors(result)


class Inputs(NamedTuple):
    tensors: List[torch.Tensor]  # results of a call, as in a model: autograd holds its leaves by itself
    leaves: List[torch.Tensor]  # of each, what its gradient is asked of


def inputs_of(request: Request, batch: int, setting: Setting) -> Inputs:
    floats = [operand for operand in request.operands if operand.is_float]
    others = [operand for operand in floats if operand.is_weight] or floats[1:]
    leaves = [operand.made(batch, setting.others if any(operand is o for o in others) else setting.first) for operand in request.operands]
    return Inputs([t.requires_grad_().clone() if operand.wants_gradient else t for t, operand in zip(leaves, request.operands)], leaves)

"""What a call of torch's is: its name, the memory of its tensors, and how it is made where there is no GPU."""
from __future__ import annotations

import inspect
import re
from typing import Any, Callable, Optional, Tuple

import torch

from gpuplan.errors import ExportError
from gpuplan.source_lines import source_line


def storage(tensor: torch.Tensor) -> Any:
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor._storage()


def storage_address(tensor: torch.Tensor) -> int:
    try:
        return storage(tensor)._cdata
    except (NotImplementedError, RuntimeError):
        kind = "sparse" if tensor.layout != torch.strided else "torch.func's (vmap, grad)"
        raise ExportError(f"{source_line()}: a tensor that is {kind} has no memory of its own, and is not followed")


def function_name(func: Callable) -> str:
    """`add_` of torch.Tensor.add_, `T` of the property's getter."""
    name = getattr(func, "__name__", str(func))
    if name == "__get__":
        owner = getattr(func, "__self__", None)
        inner = getattr(owner, "__name__", "")
        return inner if inner in ("T", "mT", "H", "mH", "data", "real", "imag") else "__get__"
    return name


def is_composed(func: Callable, name: str) -> bool:
    """Code of torch.nn.functional's around other functions, as softmin and lp_pool2d: for itself there is neither a layer nor a loss."""
    from gpuplan.losses import LOSSES
    from gpuplan.writer import FUNCTIONS

    return inspect.isfunction(func) and func.__module__ == "torch.nn.functional" and name not in FUNCTIONS and name not in LOSSES.values()


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

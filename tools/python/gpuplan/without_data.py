"""A model and a batch on the meta device, where tensors have no data, and what cannot be brought there."""
from __future__ import annotations

import copy
from typing import Any, Dict, Optional

import torch
from torch import nn

from gpuplan.errors import ExportError
from gpuplan.layers import class_path
from gpuplan.source_lines import first_line
from gpuplan.stored import is_stored, without_data
from gpuplan.values import dtype_name


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
            raise ExportError(f"{at}, a TorchScript module without Python code: export the nn.Module that it was made from")
        own = vars(module).get("forward")
        if own is not None and getattr(own, "__self__", None) is not module:
            raise ExportError(f"{at} whose forward was replaced by {getattr(own, '__qualname__', type(own).__name__)}, which a copy of "
                              "the model would run on the weights of the original: export the model before its forward is replaced")
        if type(module).__module__.startswith(QUANTIZED):
            raise ExportError(f"{path or 'the model'} is a {class_path(module)}, which is quantized: export the original model, and plan it with --mode infer --weights int8")
        if type(module).__name__ in ("FullyShardedDataParallel", "FSDPModule") or type(module).__name__.startswith("FSDP"):
            raise ExportError(f"{at}: export the model before it is sharded, and plan it with --gpus N --zero fsdp")
        for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
            if nn.parameter.is_lazy(tensor):
                raise ExportError(f"{at} whose {name} has no size before its first forward: run the model on a batch, then export it")
            if isinstance(tensor, nn.Parameter) and tensor.dtype.is_complex:
                raise ExportError(f"{at} whose {name} is complex, which no optimizer of a plan takes")
            if isinstance(tensor, nn.Parameter) and tensor.dtype.is_floating_point and not is_stored(module):
                types.setdefault(tensor.dtype, f"{path}.{name}" if path else name)
    if len(types) > 1:
        named = ", ".join(f"{name} of {dtype_name(dtype)}" for dtype, name in types.items())
        raise ExportError(f"parameters of several types: {named}. A spec has one, set by --precision: convert the model to one type")


def on_meta(model: nn.Module) -> nn.Module:
    """A copy of the model whose tensors have no data. No weight of the original is copied on the way."""
    memo: Dict[int, Any] = {}
    for module in model.modules():
        if is_stored(module):
            continue
        held = list(module._parameters.values()) + list(module._buffers.values()) + list(module.__dict__.values())
        for tensor in held:
            if isinstance(tensor, torch.Tensor) and id(tensor) not in memo:
                empty = torch.empty_like(tensor, device="meta", requires_grad=False)
                memo[id(tensor)] = nn.Parameter(empty, requires_grad=False) if isinstance(tensor, nn.Parameter) else empty
    try:
        memo.update({id(module): without_data(module, memo) for module in model.modules() if is_stored(module)})
        copied = copy.deepcopy(model, memo)
    except Exception as e:  # whatever the model holds
        raise ExportError(f"the model cannot be copied: {type(e).__name__}: {first_line(e)}") from e
    for module in list(copied.modules()):
        for name, child in list(module._modules.items()):
            if child is not None and unwrapped(child) is not child:
                module._modules[name] = unwrapped(child)
    return copied


def batch_on_meta(batch: Any, size: int, floating: Optional[torch.dtype] = None, known: Optional[Dict[int, torch.Tensor]] = None) -> Any:
    """The batch without data, of another size, and in another type where it is in floating point; what is one tensor stays one."""
    known = {} if known is None else known
    if isinstance(batch, torch.Tensor):
        if batch.dim() == 0:
            raise ExportError("a tensor of the batch is a scalar, but its first dimension must be the batch: pass it to the model in "
                              "forward=, as lambda model, batch: model(batch, other)")
        if id(batch) not in known:
            dtype = floating if floating is not None and batch.is_floating_point() else batch.dtype
            known[id(batch)] = torch.empty((size,) + tuple(batch.shape[1:]), dtype=dtype, device="meta")
        return known[id(batch)]
    if isinstance(batch, dict) or hasattr(batch, "keys"):
        made = {k: batch_on_meta(batch[k], size, floating, known) for k in batch.keys()}
        return made if type(batch) is dict or not isinstance(batch, dict) else type(batch)(made)
    if isinstance(batch, (tuple, list)):
        made_list = [batch_on_meta(v, size, floating, known) for v in batch]
        return type(batch)(*made_list) if hasattr(batch, "_fields") else type(batch)(made_list)
    return batch


def call_on_batch(model: nn.Module, batch: Any) -> Any:
    if isinstance(batch, dict) or hasattr(batch, "keys"):
        return model(**batch)
    if isinstance(batch, (tuple, list)):
        return model(*batch)
    return model(batch)

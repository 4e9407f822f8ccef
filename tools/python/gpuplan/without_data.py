"""A model and a batch on the meta device, where tensors have no data, and what cannot be brought there."""
from __future__ import annotations

import copy
from typing import Any, Callable, Dict, Optional

import torch
from torch import nn

from gpuplan.errors import ExportError
from gpuplan.layers import class_path
from gpuplan.source_lines import first_line
from gpuplan.stored import is_stored, without_data
from gpuplan.values import dtype_name, flat_tensors


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


def with_tensors(batch: Any, of: Callable[[torch.Tensor], torch.Tensor], known: Optional[Dict[int, torch.Tensor]] = None) -> Any:
    """The batch with of(tensor) in the place of each; what is one tensor stays one."""
    known = {} if known is None else known
    if isinstance(batch, torch.Tensor):
        if id(batch) not in known:
            known[id(batch)] = of(batch)
        return known[id(batch)]
    if isinstance(batch, dict) or hasattr(batch, "keys"):
        made = {k: with_tensors(batch[k], of, known) for k in batch.keys()}
        return made if type(batch) is dict or not isinstance(batch, dict) else type(batch)(made)
    if isinstance(batch, (tuple, list)):
        made_list = [with_tensors(v, of, known) for v in batch]
        return type(batch)(*made_list) if hasattr(batch, "_fields") else type(batch)(made_list)
    return batch


def samples_of(batch: Any) -> int:
    """As many as the first tensor has. Others may have several rows for each: the images of a text, one after the other."""
    return next((t.shape[0] for t in flat_tensors(batch) if t.dim() > 0), 1)


def rows_of_a_sample(tensor: torch.Tensor, samples: int) -> int:
    """Several of images alone; of others a first dimension that is not the batch is more often something else."""
    several = tensor.dim() >= 4 and samples > 0 and tensor.shape[0] > 0 and tensor.shape[0] % samples == 0
    return tensor.shape[0] // samples if several else 1


def batch_on_meta(batch: Any, size: int, floating: Optional[torch.dtype] = None) -> Any:
    """The batch without data, of another size, and in another type where it is in floating point."""
    samples = samples_of(batch)

    def resized(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() == 0:
            raise ExportError("a tensor of the batch is a scalar, but its first dimension must be the batch: pass it to the model in "
                              "forward=, as lambda model, batch: model(batch, other)")
        dtype = floating if floating is not None and tensor.is_floating_point() else tensor.dtype
        return torch.empty((size * rows_of_a_sample(tensor, samples),) + tuple(tensor.shape[1:]), dtype=dtype, device="meta")

    return with_tensors(batch, resized)


def rows_apart(batch: Any) -> Any:
    """A batch in which each tensor has the samples first, and then the rows of a sample where there are several."""
    samples = samples_of(batch)

    def apart(tensor: torch.Tensor) -> torch.Tensor:
        rows = rows_of_a_sample(tensor, samples)
        return tensor if rows == 1 else torch.empty((samples, rows, *tensor.shape[1:]), dtype=tensor.dtype, device=tensor.device)

    return with_tensors(batch, apart)


def rows_in_line(batch: Any, was: Any) -> Any:
    """What rows_apart() made, as views of the shape that it was in."""
    shapes = {id(a): t.shape for a, t in zip(flat_tensors(batch), flat_tensors(was))}
    return with_tensors(batch, lambda t: t if t.shape == shapes[id(t)] else t.flatten(0, 1))


def call_on_batch(model: nn.Module, batch: Any) -> Any:
    if isinstance(batch, dict) or hasattr(batch, "keys"):
        return model(**batch)
    if isinstance(batch, (tuple, list)):
        return model(*batch)
    return model(batch)

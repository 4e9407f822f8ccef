"""How the ranks of a loop of one's own share its model: DistributedDataParallel, ZeroRedundancyOptimizer and FSDP2, as `--gpus`, `--zero` and
`--fsdp` say. One rank is run; `gpuplan shadow --world` stands in for the others."""
from __future__ import annotations

import contextlib
import fnmatch
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

import torch
import torch.distributed as dist

from gpuplan.adapted import TYPES
from gpuplan.errors import ExportError


@dataclass
class Sharing:
    """By gpuplan's flags; what is empty was not given."""

    gpus: int
    way: str = "ddp"  # ddp, zero1 or fsdp
    param: str = ""  # of MixedPrecisionPolicy
    reduce: str = ""
    reshard: str = "true"  # or false, or but-last
    reshard_root: bool = False
    wrap: str = ""  # paths of the blocks
    replicas: int = 1
    offload: bool = False
    sync_last: bool = False
    bucket_view: bool = False
    find_unused: bool = False


def sharing_of(given: Optional[Dict[str, Any]]) -> Optional[Sharing]:
    """Loop.gpus'."""
    return None if given is None else Sharing(**given)


def begin(sharing: Optional[Sharing]) -> None:
    if sharing is None:
        return
    torch.cuda.set_device(0)
    dist.init_process_group("nccl")
    if dist.get_world_size() != sharing.gpus:
        raise ExportError(f"{dist.get_world_size()} ranks run, and --gpus {sharing.gpus} is asked for")


def blocks_of(model: Any, wrap: str) -> List[Any]:
    """Those of every repeat, which transformers does not split over GPUs; or those whose paths match."""
    if wrap:
        found = [module for path, module in model.named_modules() if path and (fnmatch.fnmatchcase(path, wrap) or fnmatch.fnmatchcase(path, f"*.{wrap}"))]
    else:
        names = set(getattr(model, "_no_split_modules", None) or ())
        found = [module for module in model.modules() if type(module).__name__ in names]
    if not found:
        raise ExportError(f"no module matches --wrap {wrap}" if wrap else f"{type(model).__name__} names no blocks (_no_split_modules): --wrap GLOB does")
    return found


def without_memory(model: Any) -> Any:
    """On `meta`, where FSDP2's models are made; what is moved there is tied no more."""
    model = model.to("meta")
    if hasattr(model, "tie_weights"):
        model.tie_weights()
    return model


def in_units(model: Any, blocks: List[Any], sharing: Sharing, stored: bool) -> Any:
    """FSDP2's. stored: the model is on the GPU, in a form that is not made on `meta`."""
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

    more: Dict[str, Any] = {}
    if sharing.param or sharing.reduce:
        more["mp_policy"] = MixedPrecisionPolicy(**{f"{key}_dtype": TYPES[name] for key, name in (("param", sharing.param), ("reduce", sharing.reduce)) if name})
    if sharing.offload:
        more["offload_policy"] = CPUOffloadPolicy()
    if sharing.replicas > 1:
        from torch.distributed.device_mesh import init_device_mesh

        more["mesh"] = init_device_mesh("cuda", (sharing.replicas, sharing.gpus // sharing.replicas), mesh_dim_names=("replicate", "shard"))
    for block in blocks:
        kept = sharing.reshard == "false" or (sharing.reshard == "but-last" and block is blocks[-1])
        fully_shard(block, reshard_after_forward=not kept, **more)
    fully_shard(model, **({"reshard_after_forward": True} if sharing.reshard_root else {}), **more)
    if not stored:
        model.to_empty(device="cpu" if sharing.offload else "cuda")
        if sharing.offload:
            for module in model.modules():
                module._buffers = {key: None if b is None else b.cuda() for key, b in module._buffers.items()}
        if hasattr(model, "tie_weights"):
            model.tie_weights()
    return model


def replicated(model: Any, sharing: Sharing) -> Any:
    from torch.nn.parallel import DistributedDataParallel

    return DistributedDataParallel(model, device_ids=[0], gradient_as_bucket_view=sharing.bucket_view, find_unused_parameters=sharing.find_unused)


def optimizer_of(kind: Any, parameters: List[Any], sharing: Optional[Sharing]) -> Any:
    """kind: as gpuplan.stepped.OPTIMIZERS has them."""
    if sharing is None or sharing.way != "zero1":
        return kind(parameters, lr=0.001)
    from torch.distributed.optim import ZeroRedundancyOptimizer

    return ZeroRedundancyOptimizer(parameters, kind, lr=0.001)


def without_reduction(model: Any, sharing: Optional[Sharing], last: bool) -> Any:
    """What a micro-batch is run in: DDP's reduce with the last one, FSDP2's with each, or with the last one."""
    if sharing is None:
        return contextlib.nullcontext()
    if sharing.way == "fsdp":
        if sharing.sync_last:
            model.set_requires_gradient_sync(last)
        return contextlib.nullcontext()
    return contextlib.nullcontext() if last else model.no_sync()

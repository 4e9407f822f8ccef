"""FSDP1 (torch.distributed.fsdp.FullyShardedDataParallel) for several_gpus.py, as PyTorch's tutorial applies it: the model is made on the
host, and each block, then the root, comes to the GPU when it is wrapped (device_id).

Words of a kind: gradop (SHARD_GRAD_OP), noshard (NO_SHARD), hybrid2 (HYBRID_SHARD over two replicas), orig (use_orig_params), post or
lazy (backward_prefetch BACKWARD_POST or None), ahead (forward_prefetch), unlimited (limit_all_gathers=False), offload (CPUOffload), send
(sync_module_states), block (apply_activation_checkpointing), buffers (buffer_dtype as param_dtype). fsdp1+bf16+fp32 is
MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32).
"""
import functools

import torch
import torch.distributed as dist
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import BackwardPrefetch, CPUOffload, FullyShardedDataParallel, MixedPrecision, ShardingStrategy
from torch.distributed.fsdp.wrap import lambda_auto_wrap_policy


def strategy_of(kind):
    names = {"gradop": ShardingStrategy.SHARD_GRAD_OP, "noshard": ShardingStrategy.NO_SHARD, "hybrid": ShardingStrategy.HYBRID_SHARD}
    return next((names[word] for word in names if word in kind), ShardingStrategy.FULL_SHARD)


def wrap(model, blocks, kind):
    more = {}
    if kind.policy:
        param, reduce = (*kind.policy, None)[:2]
        more["mixed_precision"] = MixedPrecision(param_dtype=param, reduce_dtype=reduce, buffer_dtype=param if "buffers" in kind else None)
    if "hybrid" in kind:
        replicas = kind.number("hybrid")
        more["device_mesh"] = init_device_mesh("cuda", (replicas, dist.get_world_size() // replicas), mesh_dim_names=("replicate", "shard"))
    prefetch = None if "lazy" in kind else BackwardPrefetch.BACKWARD_POST if "post" in kind else BackwardPrefetch.BACKWARD_PRE
    is_block = lambda module: any(module is block for block in blocks)  # noqa: E731
    model = FullyShardedDataParallel(
        model, auto_wrap_policy=functools.partial(lambda_auto_wrap_policy, lambda_fn=is_block), sharding_strategy=strategy_of(kind),
        device_id=torch.cuda.current_device(), use_orig_params="orig" in kind, backward_prefetch=prefetch, forward_prefetch="ahead" in kind,
        limit_all_gathers="unlimited" not in kind, cpu_offload=CPUOffload("offload" in kind), sync_module_states="send" in kind, **more)
    if "block" in kind:
        apply_activation_checkpointing(model, check_fn=is_block)
    return model

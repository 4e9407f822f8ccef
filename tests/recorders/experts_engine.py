"""Experts that are shared over some of the ranks, for several_gpus.py, as transformers distributes a model (DistributedConfig).

Words of a kind beside ep4: load150 (the rank is sent 1.5 times what it sends), hsdp2 (replicas), block, cp2 (the tokens of a
sample are shared over neighbours, as Accelerate's hooks have it), tp2 (layers are shared over neighbours, which have the same
batch), lora8 (peft's adapters beside the linear layers, of which
experts and routers are none).
"""
import torch
import torch.distributed as dist


def route(pairs, ranks, load):
    """What routers choose is not known on an imagined GPU: each rank is sent `load` % of the pairs that it sends."""
    as_list = torch.Tensor.tolist

    def sizes(tensor):
        if tensor.is_cuda and tensor.dtype == torch.int64 and tensor.shape == (2, ranks):
            tensor.cpu()
            return [[pairs // ranks] * ranks, [pairs * load // 100 // ranks] * ranks]
        return as_list(tensor)

    torch.Tensor.tolist = sizes


def with_experts(make, adapted, kind, size):
    """`make` returns a model, its blocks and what makes a batch."""
    from transformers.distributed.configuration_utils import DistributedConfig
    from transformers.distributed.utils import initialize_distributed_mesh
    with torch.device("meta"):
        model, _, batch = make()
        whole = adapted(model, kind)
    if "block" in kind:
        model.gradient_checkpointing_enable()
    if "cp" in kind:
        from accelerate.big_modeling import _attach_context_parallel_hooks
        _attach_context_parallel_hooks(model)
    tensor = kind.number("tp")
    tokens = size * kind.number("seq", 1024) // kind.number("cp") // tensor
    route(tokens * model.config.num_experts_per_tok, kind.number("ep"), kind.number("load", 100))
    replicas = kind.number("hsdp")
    config = DistributedConfig(dp_replicate_size=replicas, fsdp_size=dist.get_world_size() // replicas // tensor, tp_size=tensor, ep_size=kind.number("ep"),
                               fsdp_mixed_precision=bool(kind.policy))
    _, meshes = initialize_distributed_mesh(config)
    distributed = type(model).maybe_distribute_model(model, config, meshes)
    distributed.to_empty(device="cuda")
    distributed.tie_weights()
    return whole if "lora" in kind else distributed, batch

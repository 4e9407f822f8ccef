"""Accelerate's model and optimizer as one, for several_gpus.py: FSDP2, or FSDP1 (fsdp1), with a transformer-based wrapping, as a config of
`accelerate config` asks for it.

Words of a kind: keep (fsdp_reshard_after_forward: false), block (fsdp_activation_checkpointing), offload (fsdp_offload_params), cp4
(parallelism_config), lazy (fsdp_cpu_ram_efficient_loading: false), and no (mixed_precision: no, otherwise bf16). Of FSDP1 gradop and
noshard (fsdp_sharding_strategy), orig (fsdp_use_orig_params), pre and post (fsdp_backward_prefetch), ahead (fsdp_forward_prefetch); its
optimizer is made of the wrapped model, as Accelerate's guide and transformers' Trainer do it.
"""
import torch
import torch.distributed as dist
from accelerate import Accelerator, FullyShardedDataParallelPlugin


def plugin_of(kind):
    more = {"auto_wrap_policy": "transformer_based_wrap", "cpu_offload": "offload" in kind, "activation_checkpointing": "block" in kind,
            "cpu_ram_efficient_loading": "lazy" not in kind}
    if "fsdp" not in kind:
        return FullyShardedDataParallelPlugin(fsdp_version=2, reshard_after_forward="keep" not in kind, **more)
    sharding = "SHARD_GRAD_OP" if "gradop" in kind else "NO_SHARD" if "noshard" in kind else "FULL_SHARD"
    prefetch = "BACKWARD_PRE" if "pre" in kind else "BACKWARD_POST" if "post" in kind else "NO_PREFETCH"
    return FullyShardedDataParallelPlugin(fsdp_version=1, sharding_strategy=sharding, backward_prefetch=prefetch, use_orig_params="orig" in kind,
                                          forward_prefetch="ahead" in kind, **more)


class Engine:
    def __init__(self, model, make_optimizer, kind):
        more = {}
        if "cp" in kind:
            from accelerate import ParallelismConfig
            ranks, replicas = kind.number("cp"), kind.number("hsdp")
            more["parallelism_config"] = ParallelismConfig(
                dp_replicate_size=replicas, dp_shard_size=dist.get_world_size() // ranks // replicas, cp_size=ranks)
        self.accelerator = Accelerator(mixed_precision="no" if "no" in kind else "bf16", fsdp_plugin=plugin_of(kind), **more)
        if "fsdp" in kind:
            self.model = self.accelerator.prepare(model)
            self.optimizer = self.accelerator.prepare(make_optimizer(self.model))
        else:
            self.model, self.optimizer = self.accelerator.prepare(model, make_optimizer(model))
        self.backward = self.accelerator.backward

    def __call__(self, *inputs, **named):
        return self.model(*inputs, **named)

    def parameters(self):
        return self.model.parameters()

    def clip_grad_norm_(self, norm):
        self.accelerator.clip_grad_norm_(self.model.parameters(), norm)

    state = property(lambda self: self.optimizer.optimizer.state)

    def zero_grad(self, set_to_none=True):
        self.optimizer.zero_grad(set_to_none=set_to_none)

    def step(self):
        self.optimizer.step()

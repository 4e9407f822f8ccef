"""Accelerate's model and optimizer as one, for several_gpus.py: FSDP2 with a transformer-based wrapping, as a config of
`accelerate config` asks for it.

Words of a kind: keep (fsdp_reshard_after_forward: false), block (fsdp_activation_checkpointing), offload
(fsdp_offload_params), cp4 (parallelism_config), lazy (fsdp_cpu_ram_efficient_loading: false), and no (mixed_precision: no, otherwise bf16).
"""
import torch
import torch.distributed as dist
from accelerate import Accelerator, FullyShardedDataParallelPlugin


class Engine:
    def __init__(self, model, optimizer, kind):
        plugin = FullyShardedDataParallelPlugin(
            fsdp_version=2, auto_wrap_policy="transformer_based_wrap", reshard_after_forward="keep" not in kind,
            cpu_offload="offload" in kind, activation_checkpointing="block" in kind,
            cpu_ram_efficient_loading="lazy" not in kind)
        more = {}
        if "cp" in kind:
            from accelerate import ParallelismConfig
            ranks, replicas = kind.number("cp"), kind.number("hsdp")
            more["parallelism_config"] = ParallelismConfig(
                dp_replicate_size=replicas, dp_shard_size=dist.get_world_size() // ranks // replicas, cp_size=ranks)
        self.accelerator = Accelerator(mixed_precision="no" if "no" in kind else "bf16", fsdp_plugin=plugin, **more)
        self.model, self.optimizer = self.accelerator.prepare(model, optimizer)
        self.backward = self.accelerator.backward

    def __call__(self, *inputs, **named):
        return self.model(*inputs, **named)

    def parameters(self):
        return self.model.parameters()

    state = property(lambda self: self.optimizer.optimizer.state)

    def zero_grad(self, set_to_none=True):
        self.optimizer.zero_grad(set_to_none=set_to_none)

    def step(self):
        self.optimizer.step()

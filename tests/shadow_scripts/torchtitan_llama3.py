"""torchtitan 0.3.0's own Llama 3, shared by its own parallelize function: sequence and loss parallelism over --tp ranks, FSDP2 over the
others. One sample of --sequence tokens on each, three steps of fused AdamW; prints the peak of each step in bytes.

    gpuplan shadow --gpu a100-80gb --world 64 --rank 0 -- python torchtitan_llama3.py --tp 8

--flavor 1B|8B|70B, --checkpoint: each block (FullAC). On H100 and H200 its attention wants flash_attn_interface.
"""
import argparse
import dataclasses
import os

import torch
import torch.distributed as dist
from torchtitan.components.loss import cross_entropy_loss
from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig
from torchtitan.distributed import ParallelDims
from torchtitan.distributed.activation_checkpoint import FullAC
from torchtitan.models.llama3 import model_registry
from torchtitan.models.llama3.sharding import set_llama3_sharding_config


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--flavor", default="8B")
    parser.add_argument("--tp", type=int, default=8)
    parser.add_argument("--sequence", type=int, default=4096)
    parser.add_argument("--checkpoint", action="store_true")
    given = parser.parse_args()
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    dist.init_process_group("nccl")
    world = dist.get_world_size()
    parallelism = ParallelismConfig(data_parallel_shard_degree=world // given.tp, tensor_parallel_degree=given.tp)
    dims = ParallelDims.from_config(parallelism, world)
    dims.build_mesh()
    spec = model_registry(given.flavor, attn_backend="varlen")
    for layer in spec.model.layers:
        layer.attention.rope = dataclasses.replace(layer.attention.rope, max_seq_len=given.sequence)
    set_llama3_sharding_config(spec.model, enable_sp=True)
    with torch.device("meta"):
        model = spec.model.build()
    model = spec.parallelize_fn(model, parallel_dims=dims, training=TrainingConfig(), parallelism=parallelism, compile_config=CompileConfig(),
                                ac_config=FullAC.Config() if given.checkpoint else None, dump_folder=".")
    model.to_empty(device="cuda")
    model.init_states(buffer_device=torch.device("cuda"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    tokens = torch.zeros(1, given.sequence, dtype=torch.int64, device="cuda")
    positions = torch.arange(given.sequence, device="cuda")[None]
    for _ in range(3):
        torch.cuda.reset_peak_memory_stats()
        output = model(tokens, positions, model.get_attention_masks(positions))
        loss = cross_entropy_loss(output, tokens) / given.sequence
        del output
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        stats = torch.cuda.memory_stats()
        print("allocated", stats["allocated_bytes.all.peak"], "reserved", stats["reserved_bytes.all.peak"])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

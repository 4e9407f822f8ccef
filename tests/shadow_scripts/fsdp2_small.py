"""FSDP2 (fully_shard on each block and on the root, bf16 parameters, fp32 reduction) on every rank that torchrun gives."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

try:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
except ImportError:  # before 2.6
    from torch.distributed._composable.fsdp import MixedPrecisionPolicy, fully_shard


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    mesh = init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]),), mesh_dim_names=("shard",))
    rank, world = dist.get_rank(), dist.get_world_size()
    width, layers = 1024, 4
    with torch.device("meta"):
        model = nn.Sequential(*[Block(width) for _ in range(layers)], nn.Linear(width, 1000))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in list(model)[:layers]:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    model.to_empty(device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for step in range(3):
        inputs = torch.randn(16, 128, width, device="cuda")
        loss = model(inputs).float().square().mean()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        shown = loss.detach().clone()
        dist.all_reduce(shown, op=dist.ReduceOp.AVG)
        if rank == 0:
            full = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
            print(f"step {step}: loss {shown.item()}, norm {full.item()}")
        elif hasattr(norm, "full_tensor"):
            norm.full_tensor()
    state = {name: parameter.to_local().shape for name, parameter in model.named_parameters()}
    shapes = [None] * world
    dist.all_gather_object(shapes, {name: tuple(shape) for name, shape in state.items()})
    assert len(shapes) == world and all(set(each) == set(state) for each in shapes)
    dist.barrier()
    print(f"rank {rank}: {torch.cuda.max_memory_allocated()} allocated, {torch.cuda.max_memory_reserved()} reserved")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

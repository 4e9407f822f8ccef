"""DistributedDataParallel on every GPU that torchrun gives: gradient accumulation, metrics gathered, a checkpoint of rank 0."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    torch.manual_seed(rank)

    model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).to(device)
    model = DistributedDataParallel(model, device_ids=[device.index], gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(3):
        for micro in range(2):
            inputs = torch.randn(64, 512, device=device)
            if micro == 0:
                with model.no_sync():
                    model(inputs).square().mean().backward()
            else:
                model(inputs).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    # What scripts exchange among themselves must arrive, and in the right order.
    sizes = [None] * world
    dist.all_gather_object(sizes, {"rank": rank, "seen": 100 + rank})
    assert [s["rank"] for s in sizes] == list(range(world)), sizes
    name = [f"run of rank {rank}"]
    dist.broadcast_object_list(name, src=world - 1)
    assert name == [f"run of rank {world - 1}"], name
    counted = torch.tensor([rank + 1, 1], device=device)
    dist.all_reduce(counted)
    assert counted.tolist() == [world * (world + 1) // 2, world], counted
    if world > 1:
        token = torch.tensor([float(rank)], device=device)
        work = dist.isend(token, (rank + 1) % world) if rank % 2 == 0 else None
        received = torch.empty(1, device=device)
        dist.recv(received, (rank - 1) % world)
        if work is None:
            dist.send(token, (rank + 1) % world)
        else:
            work.wait()
        assert received.item() == (rank - 1) % world, received
    halves = [dist.new_group(list(range(part, world, 2))) for part in range(min(2, world))]
    mine = torch.tensor([1], device=device)
    dist.all_reduce(mine, group=halves[rank % 2] if world > 1 else halves[0])
    assert mine.item() == len(range(rank % 2, world, 2)), mine
    dist.barrier()
    torch.cuda.synchronize()
    print(f"rank {rank}: {torch.cuda.max_memory_allocated()} allocated, {torch.cuda.max_memory_reserved()} reserved")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

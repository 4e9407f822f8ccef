"""Everything that scripts ask torch.distributed for besides training: groups, meshes, Gloo, barriers, object collectives.
Runs on the ranks of torchrun, and as one imagined rank of many."""

import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    assert rank == int(os.environ["RANK"]) and world == int(os.environ["WORLD_SIZE"])

    mesh = init_device_mesh("cuda", (world // 2, 2), mesh_dim_names=("replicate", "shard"))
    assert mesh["shard"].size() == 2 and mesh.get_local_rank("shard") == rank % 2
    tensor = distribute_tensor(torch.ones(8, 16), mesh, [Replicate(), Shard(0)])
    assert tensor.to_local().shape == (4, 16)
    assert tensor.full_tensor().shape == (8, 16)

    halves = [dist.new_group(list(range(start, world, 2))) for start in (0, 1)]
    mine = halves[rank % 2]
    count = torch.ones(1).cuda()  # from the host: kernels compute nothing
    dist.all_reduce(count, group=mine)
    assert count.item() == world // 2, count
    gloo = dist.new_group(backend="gloo")
    dist.all_reduce(torch.ones(3), group=gloo)
    dist.barrier(group=gloo)

    gathered = [None] * world
    dist.all_gather_object(gathered, ("an", "object"))
    assert all(each == ("an", "object") for each in gathered), gathered
    collected = [None] * world if rank == 0 else None
    dist.gather_object({"loss": 1.0}, collected, dst=0)
    assert rank != 0 or all(each == {"loss": 1.0} for each in collected)
    said = ["configuration"]
    dist.broadcast_object_list(said, src=0)
    assert said == ["configuration"]

    blocks = torch.empty(world, 4, device="cuda")
    dist.all_gather_into_tensor(blocks, torch.full((4,), 2.0).cuda())
    assert blocks.tolist() == [[2.0] * 4] * world
    part = torch.empty(4, device="cuda")
    dist.reduce_scatter_tensor(part, torch.ones(world, 4).cuda())
    assert part.tolist() == [float(world)] * 4
    sizes = torch.empty(world, dtype=torch.long, device="cuda")
    dist.all_to_all_single(sizes, torch.full((world,), 3).cuda())
    assert sizes.tolist() == [3] * world
    peer = (rank + 1) % world
    received = torch.empty(2, device="cuda")
    operations = [
        dist.P2POp(dist.isend, torch.ones(2).cuda(), peer),
        dist.P2POp(dist.irecv, received, (rank - 1) % world),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    dist.barrier()
    dist.monitored_barrier(group=gloo)
    torch.cuda.synchronize()
    print(f"rank {rank} of {world}: well")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

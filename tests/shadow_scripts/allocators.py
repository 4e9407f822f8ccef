"""A step under the allocator that PYTORCH_CUDA_ALLOC_CONF asks for: expandable segments, cudaMallocAsync, ..."""
import os

import torch
from torch import nn


def main():
    backend = torch.cuda.get_allocator_backend()
    wanted = "cudaMallocAsync" if "cudaMallocAsync" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "") else "native"
    assert backend == wanted, (backend, wanted)
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(6)]).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for size in (100, 700, 5000, 40000, 300):
        optimizer.zero_grad()
        model(torch.randn(size, 1024, device="cuda")).sum().backward()
        optimizer.step()
    torch.cuda.synchronize()
    peak, reserved = torch.cuda.max_memory_allocated(), torch.cuda.memory_reserved()
    free, total = torch.cuda.mem_get_info()
    assert peak > 4 * 40000 * 1024 * 6, peak
    assert total - free >= torch.cuda.memory_allocated(), (total, free)
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() < reserved, (torch.cuda.memory_reserved(), reserved)
    assert torch.cuda.mem_get_info()[0] > free
    del model, optimizer
    print("finished:", backend, "peak", peak, "reserved", reserved)


if __name__ == "__main__":
    main()

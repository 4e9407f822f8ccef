"""Workers started by torch.multiprocessing, each with CUDA of its own."""
import torch
import torch.multiprocessing as mp


def work(rank, results):
    torch.cuda.set_device(rank % torch.cuda.device_count())
    model = torch.nn.Linear(256 * (rank + 1), 10).cuda()
    for _ in range(3):
        model(torch.randn(32, 256 * (rank + 1), device="cuda")).sum().backward()
    results.put((rank, torch.cuda.max_memory_allocated()))


def main():
    torch.zeros(1, device="cuda")
    context = mp.get_context("spawn")
    results = context.SimpleQueue()
    mp.spawn(work, args=(results,), nprocs=2)
    peaks = dict(results.get() for _ in range(2))
    assert peaks[1] > peaks[0] > 0, peaks
    print("finished:", peaks)


if __name__ == "__main__":
    main()

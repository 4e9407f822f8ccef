"""10,000 training steps of a small network: the host's memory must not grow."""
import sys

import torch
from torch import nn


def resident_kib():
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    y = torch.zeros(32, dtype=torch.int64, device="cuda")
    host = torch.randn(32, 64)
    done = torch.cuda.Event()
    for i in range(steps + 1):
        if i == steps // 10:
            early, allocated = resident_kib(), torch.cuda.memory_allocated()
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(host.to("cuda")), y)
        loss.backward()
        optimizer.step()
        if i % 100 == 0:
            loss.item()
            done.record()
            done.synchronize()
    late = resident_kib()
    assert torch.cuda.memory_allocated() == allocated + 0 * steps
    assert late - early < 2048, "the host's memory grew from %d to %d KiB" % (early, late)
    print("finished:", steps, "steps; resident", early, "KiB after a tenth,", late, "KiB at the end")


if __name__ == "__main__":
    main()

"""DataParallel: one process, every GPU that it sees."""

import torch
from torch import nn


def main():
    devices = list(range(torch.cuda.device_count()))
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 10)).cuda()
    model = nn.DataParallel(model, device_ids=devices)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(3):
        outputs = model(torch.randn(64, 256, device="cuda"))
        assert outputs.shape == (64, 10)
        nn.functional.cross_entropy(outputs, torch.zeros(64, dtype=torch.long, device="cuda")).backward()
        optimizer.step()
        optimizer.zero_grad()
    for device in devices:
        print(f"device {device}: {torch.cuda.max_memory_allocated(device)} allocated")


if __name__ == "__main__":
    main()

"""The time of ResNet-50's training step at batch 256 under the shadow runtime: gpuplan shadow -- python shadow_resnet50.py

Forward, loss, backward and SGD with momentum; the least, the median and the most of some steps, in milliseconds.
"""
import sys
import time

import torch
import torchvision


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with torch.device("cuda"):
        model = torchvision.models.resnet50()
        images, labels = torch.zeros(256, 3, 224, 224), torch.zeros(256, dtype=torch.int64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    taken = []
    for _ in range(steps + 3):
        started = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        torch.cuda.synchronize()
        taken.append((time.perf_counter() - started[0], time.process_time() - started[1]))
    for name, times in zip(("elapsed", "of the processor"), zip(*taken[3:])):
        times = sorted(times)
        print("ResNet-50, batch 256: %.0f ms, %.0f to %.0f, %s"
              % (1e3 * times[len(times) // 2], 1e3 * times[0], 1e3 * times[-1], name))


if __name__ == "__main__":
    main()

"""Prints PyTorch's memory statistics all along a training loop that resets them: the same with and without the hook."""

import json

import torch


def show(moment):
    print(moment, torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
    print(moment, json.dumps(dict(torch.cuda.memory_stats()), sort_keys=True, default=str))
    if hasattr(getattr(torch, "accelerator", None), "memory_stats"):
        print(moment, json.dumps(dict(torch.accelerator.memory_stats()), sort_keys=True, default=str))


def main():
    show("start")
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 3), torch.nn.BatchNorm2d(64), torch.nn.ReLU()).cuda()
    adam, sgd = torch.optim.Adam(model.parameters()), torch.optim.SGD(model.parameters(), 0.1)
    for i in range(10):
        loss = model(torch.randn(4 + 7 * (i % 3), 3, 64, 64, device="cuda")).square().mean()
        show("forward")
        if i == 3:
            torch.cuda.reset_peak_memory_stats()
            show("reset")
        loss.backward()
        adam.step()
        show("step")
        if i % 4 == 2:
            sgd.step()
            show("second step")
        if i == 6:
            torch.cuda.reset_peak_memory_stats()
            torch.cuda.reset_accumulated_memory_stats()
            show("both reset")
        if i == 8:
            torch.cuda.empty_cache()
            show("emptied")
        adam.zero_grad()
    print("compiled in one graph:", compiled(torch.ones(4, device="cuda")).shape)


@torch.compile(backend="eager", fullgraph=True)
def compiled(x):
    return (x * 2).relu()


main()

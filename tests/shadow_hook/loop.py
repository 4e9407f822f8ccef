"""loop.py HOW: a training loop of 50 steps, compiled as HOW says."""

import atexit
import sys

import torch

atexit.register(lambda: print("exit handler"))
how = sys.argv[1]
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 256)).cuda()
forward = torch.compile(model) if how == "inductor" else model
optimizer = torch.optim.AdamW(model.parameters())
try:
    for step in range(50):
        loss = forward(torch.randn(64, 256, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
finally:
    print("finally")
print("finished")

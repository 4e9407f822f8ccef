#!/usr/bin/env python3
"""Memory snapshots of small runs, and what PyTorch counted in them, for tests/unit/snapshot:

    gpuplan shadow --gpu l4 -q -- python tests/recorders/snapshots.py KIND tests/snapshots/NAME

KIND: plain; leak: a tensor more after every step; oom: the last step does not fit; cut: a history of 200 events; late: it
begins before the second step; two: on two GPUs (--gpus 2). Writes NAME.pickle and NAME.tsv: the peaks of allocated,
requested and reserved bytes, and what is allocated and reserved at the end, of GPU 0."""

import inspect
import os
import pickle
import re
import sys

import torch
from torch import nn

kind, name = sys.argv[1:]


def record():
    torch.cuda.memory.reset_peak_memory_stats()
    given = {"max_entries": 200 if kind == "cut" else 100000}
    if "stacks" in inspect.signature(torch.cuda.memory._record_memory_history).parameters:
        given["stacks"] = "python"
    torch.cuda.memory._record_memory_history(**given)


if kind != "late":
    record()
net = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
                    nn.AdaptiveAvgPool2d(8), nn.Flatten(), nn.Linear(4096, 1000)).cuda()
optimizer = torch.optim.Adam(net.parameters())


def step(batch):
    images = torch.randn(batch, 3, 64, 64, device="cuda")
    labels = torch.zeros(batch, dtype=torch.long, device="cuda")
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(images), labels)
    loss.backward()
    optimizer.step()


def scrub(snapshot):
    """Paths of the machine that recorded it, in each frame once: a pickle holds one that is shared once."""
    folder = os.path.dirname(os.path.dirname(torch.__file__))
    holders = [*(event for trace in snapshot["device_traces"] for event in trace), *snapshot["segments"],
               *(block for segment in snapshot["segments"] for block in segment["blocks"])]
    frames = {id(frame): frame for holder in holders for frame in holder.get("frames", [])}
    for frame in frames.values():
        path = frame["filename"].replace(folder, "/venv/lib/python3.11/site-packages")
        frame["filename"] = "train.py" if path == os.path.abspath(__file__) or path == __file__ else re.sub("^/.*/validate/|^/.*/shadow/python/", "/shadow/", path)


kept = []
for number in range(4):
    if kind == "late" and number == 1:
        record()
    step(64)
    if kind == "leak":
        kept.append(torch.zeros(1 << 20, device="cuda"))
if kind == "oom":
    try:
        step(200000)
    except torch.OutOfMemoryError as error:
        print(error)
if kind == "two":
    other = torch.zeros(1 << 22, device="cuda:1")
    more = other + 1
    del other
stats = torch.cuda.memory_stats(0)
snapshot = torch.cuda.memory._snapshot()
scrub(snapshot)
with open(name + ".pickle", "wb") as file:
    pickle.dump(snapshot, file)  # as _dump_snapshot() does
figures = [stats[f"{figure}_bytes.all.peak"] for figure in ("allocated", "requested", "reserved")]
figures += [stats[f"{figure}_bytes.all.current"] for figure in ("allocated", "reserved")]
with open(name + ".tsv", "w") as file:
    print(f"# torch {torch.__version__}, gpuplan shadow --gpu l4", *figures, sep="\n", file=file)

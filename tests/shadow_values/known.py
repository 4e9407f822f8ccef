"""Prints what a program reads of values that are known: the same on a CPU and, with --values, under `gpuplan shadow`.

    python known.py cpu|cuda"""

import sys

import torch

device = sys.argv[1]


def show(name, *values):
    print(name, *(value.tolist() if isinstance(value, torch.Tensor) else value for value in values))


x = torch.arange(10, device=device)
mask = x % 3 == 0
show("masks", mask.sum().item(), bool(mask.any()), x[mask], torch.nonzero(mask), torch.where(mask)[0], x.masked_select(mask))
x[mask] = 100
x += 1
show("in place", x, x.max().item(), x.cumsum(0))
show("unique", torch.unique(x), *torch.unique(x, return_inverse=True, return_counts=True))
show("bincount", torch.bincount(x.clamp(max=5)), torch.nn.functional.one_hot(x % 4))
repeats = torch.tensor([1, 2, 3], device=device)
show("repeats", torch.repeat_interleave(repeats), torch.repeat_interleave(torch.arange(3, device=device), repeats))
show("slices", x[: repeats.max()], x[repeats], torch.arange(repeats[1].item()), list(range(repeats[2])))
show("host", torch.tensor([3, 4, 5]).to(device).add(1), repeats.cpu(), int(repeats[0]), float(repeats[1]))
with torch.device(device):
    show("device", torch.zeros(5), torch.ones(3).sum(), torch.full((2, 2), 7))

show("type", repeats.type() == torch.empty_like(repeats).type())

tokens = torch.tensor([[1, 2, 0], [3, 0, 0]]).to(device)
padding = tokens != 0
show("padding", padding.cumsum(-1), padding.sum(-1).max().item(), tokens[padding])
large = torch.ones(3_000_000, device=device)
show("large", large.sum().item(), (large == 1).all().item(), torch.nonzero(large).shape[0], bool((large * 0).any()))

empty = torch.arange(0, device=device)
ends = repeats.new_empty(4)
ends.narrow(0, 0, 1).zero_()
torch.cumsum(repeats, 0, out=ends[1:])
show("parts", ends, ends[repeats])
show("empty", empty.sum(), (large[:0] == 1).sum(), x[: (large[:0] > 0).sum() + 1], torch.cat((empty, repeats)).sum())

# Nothing of an earlier tensor shows through a later one at its address.
count = torch.tensor(352321536, dtype=torch.int32).to(device)
del count
show("stale", torch.nonzero(torch.arange(1000, device=device) > 2000).shape)

# Floats that a kernel computes are finite, and within the range of their function.
logits = torch.nn.Linear(8, 50).to(device)(torch.randn(4, 8, device=device))
probabilities = logits.softmax(-1)
hidden, rows = logits * 1.0, torch.tensor([True, False, True, True]).to(device)
show("selected", hidden[rows].shape, hidden[hidden == hidden].shape, torch.masked_select(hidden, rows[:, None]).shape)
weight = torch.nn.Parameter(torch.ones(4, 50, device=device))
changed = weight * logits.detach()
changed[rows] = (weight * 2)[rows]
changed[rows].sum().backward()
show("gradient", weight.grad.shape, [hidden[rows].shape for _ in range(2)])
show("finite", torch.isfinite(logits).all().item(), logits.isnan().any().item(), (logits == logits).all().item())
show("ranges", (probabilities >= 0).all().item(), (logits.exp() > 0).all().item(), (logits.sigmoid() < 1).all().item())
show("more ranges", (logits.norm() >= 0).item(), (torch.nn.functional.logsigmoid(logits) <= 0).all().item())
assert device == "cpu" or (logits[:, 2:] >= logits[:, :-2]).all()  # a check of unknown numbers passes
torch.distributions.Normal(logits, logits.exp())
torch.distributions.Categorical(probs=probabilities)

# What is drawn lies within its range, each row by itself.
chosen = logits.topk(4).indices
show("drawn", all(len(set(row)) == 4 for row in chosen.tolist()), len(set(logits.argmax(0).tolist())) > 1)
show("sampled", all(0 <= token < 50 for token in torch.multinomial(probabilities, 1).flatten().tolist()))

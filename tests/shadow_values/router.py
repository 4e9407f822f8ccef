"""How many tokens each of eight experts gets of 64 that choose two, in two layers."""

import torch

tokens = torch.randn(64, 16, device="cuda")
for _ in range(2):
    probabilities = torch.nn.Linear(16, 8).cuda()(tokens).softmax(-1)
    chosen = probabilities.topk(2).indices
    print(torch.bincount(chosen.flatten(), minlength=8).tolist())

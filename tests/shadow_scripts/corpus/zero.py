"""zero.py STAGE: DeepSpeed's ZeRO on one rank, with its own optimizer step and loss scaling."""

import sys

import deepspeed
import torch

stage = int(sys.argv[-1])  # the launcher puts --local_rank before it
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)])
settings = {
    "train_micro_batch_size_per_gpu": 8,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}},
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": stage},
}
engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings)
for _ in range(2):
    loss = engine(torch.randn(8, 1024, device=engine.device, dtype=torch.bfloat16)).float().pow(2).mean()
    engine.backward(loss)
    engine.step()

"""GPT-2 of transformers in bf16 autocast, four steps, and its memory recorded: finetune.py BATCH LENGTH FILE."""
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.cuda.memory._record_memory_history(max_entries=1_000_000)
batch, length, file = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
model = GPT2LMHeadModel(GPT2Config(use_cache=False)).cuda().train()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(4):
    ids = torch.randint(0, 50257, (batch, length)).cuda()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(input_ids=ids, labels=ids).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
torch.cuda.memory._dump_snapshot(file)

"""What values cost of a step of transformers' GPT-2: half of the steps run with the hooks passing every call on.

    gpuplan shadow -- python tests/shadow_values/cost.py

The processor's time, of all threads, in the median of 190 steps each, in turn in one process, since one run differs from
the next by more than what is to be measured.
"""

import ctypes
import statistics
import time

import torch
import transformers

pause = ctypes.CDLL(None).gpuplan_shadow_pause
model = transformers.GPT2LMHeadModel(transformers.GPT2Config()).cuda().train()
optimizer = torch.optim.AdamW(model.parameters())
tokens = torch.randint(0, 50257, (4, 256)).cuda()
times = {True: [], False: []}
for step in range(400):
    without = step % 2 == 1
    if without:
        pause(1)
    begun = time.process_time()
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    times[without].append(time.process_time() - begun)
    if without:
        pause(0)
on, off = (1e3 * statistics.median(times[without][10:]) for without in (False, True))
print("%.1f ms with values, %.1f ms without: %+.1f %%" % (on, off, 100 * (on / off - 1)))

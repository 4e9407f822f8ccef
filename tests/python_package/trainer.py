"""A small GPT-2 of transformers in its Trainer: python3 trainer.py plan GPU SETTINGS prints the plan's peak of allocated bytes,
and python3 trainer.py train SETTINGS, under `gpuplan shadow`, what three steps took. SETTINGS are TrainingArguments in JSON."""

import json
import os
import sys
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, index):
        row = torch.arange(128)
        return {"input_ids": row, "labels": row}


def trainer(folder, **settings):
    config = GPT2Config(n_layer=4, n_embd=256, n_head=4, vocab_size=5000, n_positions=256)
    given = TrainingArguments(output_dir=folder, per_device_train_batch_size=8, report_to=[], max_steps=3, save_strategy="no",
                              disable_tqdm=True, **settings)
    return Trainer(model=GPT2LMHeadModel(config), args=given, train_dataset=Tokens())


def main():
    *what, settings = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        if what[0] == "plan":
            sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "python"))
            import gpuplan

            plan = gpuplan.estimate(trainer(folder, use_cpu=True, **json.loads(settings)), gpu=what[1])
            print(plan.peak_bytes)
        else:
            trainer(folder, **json.loads(settings)).train()
            print(torch.cuda.max_memory_allocated())


if __name__ == "__main__":
    main()

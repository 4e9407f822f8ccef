#!/usr/bin/env python3
"""What PyTorch's CUDA code allocates in a loop whose batches are of unequal length, beside `gpuplan plan --seq-lengths`:

    gpuplan shadow --gpu h200 -q -- python tests/recorders/unequal_lengths.py [--record] [--new] [WORD...]
    python tests/recorders/unequal_lengths.py --recorded --gpuplan build/gpuplan [WORD...]

Each line of tests/recorded/lengths/runs.txt is a model of tests/recorded/fine_tuning/models and gpuplan's flags; --seq-lengths
is a file beside it, of samples in the order in which they come. A batch is as long as its longest sample and is made on the
GPU beside the last one; where some batch of a run has padding, the model is given an attention_mask. A run has a process of
its own; the bytes requested, allocated and reserved are read after each step, with their peaks in it. --record writes h200.tsv beside runs.txt, --gpuplan compares; exits with 1 where a figure differs.
"""

import contextlib
import gc
import json
import os
import shlex
import subprocess

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import torch
from fine_tuning import FIGURES, FOLDER, TYPES, flags_of, model_of, optimizer_of, parser_of, run_all

RUNS = FOLDER.parent / "lengths"


def batches(run):
    """Of each step: how many samples of how many tokens."""
    lengths = [int(line) for line in (RUNS / run.seq_lengths).read_text().split()]
    parts = [lengths[i:i + run.batch] for i in range(0, len(lengths), run.batch)]
    return [(len(part), max(part), min(part) < max(part)) for part in parts]


def answer_of_padding():
    """transformers looks for padding in the mask, which has no values here: its operators run, and the answer is put in."""
    from transformers import masking_utils
    look, batch = masking_utils.fast_all, {"padded": False}

    def fast_all(mask):
        look(mask)
        return not batch["padded"]

    masking_utils.fast_all = fast_all
    return batch


def steps(text):
    run = flags_of(text)
    run.recorded = False
    if run.alloc_conf:
        torch.cuda.memory._set_allocator_settings(run.alloc_conf)
    model = model_of(run)
    gc.collect()
    trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    optimizer = optimizer_of(run, trained)
    scaler = torch.amp.GradScaler("cuda", enabled=run.amp == "fp16")
    rows = {}

    def end(step):
        stats = torch.cuda.memory_stats()
        rows["%d optimizer" % step] = {figure: stats[key] for figure, key in FIGURES.items()}
        torch.cuda.reset_peak_memory_stats()

    def autocast():
        return torch.autocast("cuda", TYPES[run.amp]) if run.amp else contextlib.nullcontext()

    def update(ids, mask):
        masks = [None] * run.micro_batches if mask is None else mask.chunk(run.micro_batches)
        for part, of_part in zip(ids.chunk(run.micro_batches), masks):
            with autocast():
                out = model(input_ids=part, attention_mask=of_part, labels=part)
                loss = out.loss
            if run.micro_batches > 1:
                loss = loss / run.micro_batches
            scaler.scale(loss).backward()
            del out, loss
        scaler.step(optimizer)
        scaler.update()

    gc.disable()
    torch.cuda.reset_peak_memory_stats()
    batch, all_batches, mask = answer_of_padding(), batches(run), None
    masked = any(padded for _, _, padded in all_batches)
    for step, (samples, tokens, batch["padded"]) in enumerate(all_batches, 1):
        optimizer.zero_grad()
        ids = torch.zeros(samples, tokens, dtype=torch.int64, device="cuda")
        if masked:
            mask = torch.zeros(samples, tokens, dtype=torch.int64, device="cuda")
        if run.loop == "function":
            update(ids, mask)
            end(step)
            continue
        with autocast():
            out = model(input_ids=ids, attention_mask=mask, labels=ids)
            loss = out.loss
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        end(step)
    return rows


def planned(gpuplan, text):
    model, _, flags = text.partition(" ")
    words = [str(RUNS / word) if word.endswith(".txt") else word for word in shlex.split(flags)]
    command = [gpuplan, str(FOLDER / "models" / (model + ".json")), "--gpu", "h200", "--format", "json", *words]
    for flag, default in (("--batch", "4"), ("--opt", "sgd")):
        command += [] if flag in command else [flag, default]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        return {"error": done.stderr.strip()}
    return {"%d optimizer" % step["step"]: step for step in json.loads(done.stdout)["steps"]}


if __name__ == "__main__":
    run_all(parser_of().parse_args(), RUNS, steps, planned)

#!/usr/bin/env python3
"""What PyTorch's CUDA code allocates where training is evaluated in between, beside `gpuplan plan --eval-batch`:

    gpuplan shadow --gpu h200 -q -- python tests/recorders/evaluation.py [--record] [--new] [WORD...]
    python tests/recorders/evaluation.py --recorded --gpuplan build/gpuplan [WORD...]

Each line of tests/recorded/evaluation/runs.txt is a model of tests/recorded/fine_tuning/models and gpuplan's flags: three steps
of training, an evaluation, and two more, by transformers' Trainer, by a loop with accelerate or by one of one's own. A run has
a process of its own; the bytes requested, allocated and reserved are read after each step, of training where the optimizer
has stepped, with their peaks since the step before. --record writes h200.tsv beside runs.txt, --gpuplan compares; exits with 1
where a figure differs.
"""

import argparse
import contextlib
import gc
import json
import os
import shlex
import subprocess
import tempfile

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import torch
import transformers
from fine_tuning import FIGURES, FOLDER, TYPES, flags_of, model_of, optimizer_of, parser_of, run_all
from trainer_loops import Tokens

RUNS = FOLDER.parent / "evaluation"
BEFORE, AFTER = 3, 2


def of_text(text):
    parser = argparse.ArgumentParser()
    parser.add_argument("--like", default="pytorch")
    parser.add_argument("--eval-batch", type=int)
    parser.add_argument("--eval-batches", type=int, default=3)
    parser.add_argument("--eval-logits", action="store_true")
    parser.add_argument("--eval-accumulation-steps", type=int)
    own, rest = parser.parse_known_args(shlex.split(text))
    run = flags_of(shlex.join(rest))
    run.recorded = False
    vars(run).update(vars(own))
    return run


class Readings:
    def __init__(self, steps):
        self.rows, self.step, self.steps = {}, 0, steps

    def end(self):
        self.step += 1
        if self.step > self.steps:
            return  # Trainer evaluates at the end, too
        stats = torch.cuda.memory_stats()
        self.rows["%d optimizer" % self.step] = {figure: stats[key] for figure, key in FIGURES.items()}
        torch.cuda.reset_peak_memory_stats()


def by_trainer(run, model, readings):
    predicted, empty_cache = 0, torch.cuda.empty_cache

    def goes_to_host():
        return run.eval_accumulation_steps and predicted % run.eval_accumulation_steps == 0

    class Reader(transformers.TrainerCallback):
        def on_optimizer_step(self, *_, **__):
            readings.end()

        def on_step_end(self, *_, **__):
            torch.cuda.reset_peak_memory_stats()  # the gradients are gone

        def on_prediction_step(self, *_, **__):
            nonlocal predicted
            predicted += 1
            if not goes_to_host():
                readings.end()

        def on_evaluate(self, *_, **__):
            torch.cuda.reset_peak_memory_stats()

    def end_after_emptying():
        empty_cache()
        if predicted and goes_to_host():
            readings.end()

    torch.cuda.empty_cache = end_after_emptying
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder, per_device_train_batch_size=run.batch, max_steps=BEFORE + AFTER, bf16=run.amp == "bf16", fp16=run.amp == "fp16",
            report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True, eval_strategy="steps", eval_steps=BEFORE,
            per_device_eval_batch_size=run.eval_batch, eval_accumulation_steps=run.eval_accumulation_steps,
            use_liger_kernel=run.kernels == "liger",
            **({} if run.opt is None else {"optim": {"adamw8bit": "adamw_bnb_8bit", "sgd": "sgd"}[run.opt]}),
            **({"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": run.checkpoint == "reentrant"}}
               if run.checkpoint else {}))
        trainer = transformers.Trainer(
            model=model, args=arguments, train_dataset=Tokens(run.batch * (BEFORE + AFTER), run.seq),
            eval_dataset=Tokens(run.eval_batch * run.eval_batches, run.seq), callbacks=[Reader()],
            **({"compute_metrics": lambda prediction: {}} if run.eval_logits else {}))
        gc.collect()
        gc.disable()
        torch.cuda.reset_peak_memory_stats()
        trainer.train()


def with_accelerate(run, model, readings):
    import accelerate

    accelerator = accelerate.Accelerator(mixed_precision=run.amp or "no")
    optimizer = optimizer_of(run, [(n, p) for n, p in model.named_parameters() if p.requires_grad])
    loader = torch.utils.data.DataLoader(Tokens(run.batch * (BEFORE + AFTER), run.seq), batch_size=run.batch)
    held_out = torch.utils.data.DataLoader(Tokens(run.eval_batch * run.eval_batches, run.seq), batch_size=run.eval_batch)
    model, optimizer, loader, held_out = accelerator.prepare(model, optimizer, loader, held_out)
    gc.collect()
    gc.disable()
    torch.cuda.reset_peak_memory_stats()

    @torch.no_grad()
    def evaluate():
        model.eval()
        kept = []
        for step, batch in enumerate(held_out, 1):
            outputs = model(**batch)
            if run.eval_logits:
                kept.append(outputs.logits)
            if run.eval_accumulation_steps and step % run.eval_accumulation_steps == 0:
                kept = []
            readings.end()
        model.train()

    for step, batch in enumerate(loader, 1):
        outputs = model(**batch)
        loss = outputs.loss
        accelerator.backward(loss)
        optimizer.step()
        readings.end()
        optimizer.zero_grad()
        if step == BEFORE:
            evaluate()


def by_oneself(run, model, readings):
    optimizer = optimizer_of(run, [(n, p) for n, p in model.named_parameters() if p.requires_grad])
    scaler = torch.amp.GradScaler("cuda", enabled=run.amp == "fp16")

    def autocast():
        return torch.autocast("cuda", TYPES[run.amp]) if run.amp else contextlib.nullcontext()

    def batch_of(samples):
        return torch.zeros(samples, run.seq, dtype=torch.int64, device="cuda")

    @torch.no_grad()
    def evaluate():
        model.eval()
        kept = []
        for step in range(1, run.eval_batches + 1):
            ids = batch_of(run.eval_batch)
            with autocast():
                out = model(input_ids=ids, labels=ids)
            if run.eval_logits:
                kept.append(out.logits)
            if run.eval_accumulation_steps and step % run.eval_accumulation_steps == 0:
                kept = []
            if run.loop == "function":
                del out
            readings.end()
        model.train()

    gc.collect()
    gc.disable()
    torch.cuda.reset_peak_memory_stats()
    for step in range(1, BEFORE + AFTER + 1):
        optimizer.zero_grad()
        ids = batch_of(run.batch)
        with autocast():
            out = model(input_ids=ids, labels=ids)
            loss = out.loss
        scaler.scale(loss).backward()
        if run.loop == "function":
            del out, loss
        scaler.step(optimizer)
        scaler.update()
        readings.end()
        if step == BEFORE:
            evaluate()


LOOPS = {"trainer": by_trainer, "accelerate": with_accelerate, "pytorch": by_oneself}


def steps(text):
    run = of_text(text)
    if run.checkpoint:
        run.checkpoint = run.checkpoint.replace("block,reentrant", "reentrant")
    if "--opt" not in shlex.split(text):
        run.opt = None if run.like == "trainer" else "sgd"
    readings = Readings(BEFORE + run.eval_batches + AFTER)
    LOOPS[run.like](run, model_of(run), readings)
    return readings.rows


def planned(gpuplan, text):
    model, _, flags = text.partition(" ")
    command = [gpuplan, str(FOLDER / "models" / (model + ".json")), "--gpu", "h200", "--format", "json", *shlex.split(flags)]
    for flag, default in (("--batch", "4"), ("--seq", "512")):
        command += [] if flag in command else [flag, default]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        return {"error": done.stderr.strip()}
    return {"%d optimizer" % step["step"]: step for step in json.loads(done.stdout)["steps"]}


if __name__ == "__main__":
    run_all(parser_of().parse_args(), RUNS, steps, planned)

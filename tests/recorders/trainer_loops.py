#!/usr/bin/env python3
"""What PyTorch's CUDA code allocates in the loops of transformers' Trainer and of a script with accelerate, beside `gpuplan --like`:

    gpuplan shadow --gpu h200 -q -- python tests/recorders/trainer_loops.py [--record] [--new] [WORD...]
    python tests/recorders/trainer_loops.py --recorded --gpuplan build/gpuplan [WORD...]

Each line of tests/recorded/trainers/runs.txt is a model of tests/recorded/fine_tuning/models and gpuplan's flags. A run has a
process of its own; the bytes requested, allocated and reserved, live and at their peaks, are read where Trainer calls its
callbacks: before a step, before the optimizer's and after it. --record writes h200.tsv beside runs.txt, --gpuplan compares;
exits with 1 where a figure differs.
"""

import gc
import json
import os
import pathlib
import shlex
import subprocess
import tempfile

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import torch
import transformers
from fine_tuning import FIGURES, FOLDER, flags_of, model_of, optimizer_of, parser_of, run_all

RUNS = FOLDER.parent / "trainers"
PHASES = ("start", "clip", "optimizer")  # what a plan calls them


class Tokens(torch.utils.data.Dataset):
    def __init__(self, rows, length):
        self.rows, self.length = rows, length

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        ids = torch.zeros(self.length, dtype=torch.int64)
        return {"input_ids": ids, "labels": ids}


class Readings:
    def __init__(self):
        self.rows, self.step = {}, 0

    def end(self, phase):
        stats = torch.cuda.memory_stats()
        name = {0: "first", 2: "steady"}.get(self.step)
        if name:
            self.rows["%s %s" % (name, phase)] = {figure: stats[key] for figure, key in FIGURES.items()}
        torch.cuda.reset_peak_memory_stats()
        self.step += phase == "optimizer"


def as_trainer(run, model, readings):
    class Reader(transformers.TrainerCallback):
        def on_step_begin(self, *_, **__):
            readings.end("start")

        def on_pre_optimizer_step(self, *_, **__):
            readings.end("clip")

        def on_optimizer_step(self, *_, **__):
            readings.end("optimizer")

    per_step = run.batch // run.micro_batches
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder, per_device_train_batch_size=per_step, gradient_accumulation_steps=run.micro_batches, max_steps=3,
            bf16=run.amp == "bf16", fp16=run.amp == "fp16", report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True,
            **({} if run.opt is None else {"optim": {"adamw8bit": "adamw_bnb_8bit", "sgd": "sgd", "adamw_torch": "adamw_torch"}[run.opt]}),
            **({"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": run.checkpoint == "reentrant"}}
               if run.checkpoint else {}))
        trainer = transformers.Trainer(model=model, args=arguments, train_dataset=Tokens(run.batch * 4, run.seq), callbacks=[Reader()])
        gc.collect()
        gc.disable()
        trainer.train()


def with_accelerate(run, model, readings):
    import accelerate

    accelerator = accelerate.Accelerator(mixed_precision=run.amp or "no", gradient_accumulation_steps=run.micro_batches)
    parameters = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    run.opt = run.opt or "sgd"
    optimizer = optimizer_of(run, parameters)
    loader = torch.utils.data.DataLoader(Tokens(run.batch * 4, run.seq), batch_size=run.batch // run.micro_batches)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    gc.collect()
    gc.disable()
    steps = 0
    for batch in loader:
        if steps % run.micro_batches == 0:
            readings.end("start")
        with accelerator.accumulate(model):
            outputs = model(**batch)
            loss = outputs.loss
            accelerator.backward(loss)
            if accelerator.sync_gradients and run.clip_grad_norm:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            if accelerator.sync_gradients:
                readings.end("clip")
            optimizer.step()
            if accelerator.sync_gradients:
                readings.end("optimizer")
            optimizer.zero_grad()
        steps += 1
        if steps == 3 * run.micro_batches:
            break


def as_lightning(run, model, readings):
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = model

        def training_step(self, batch, index):
            if index % run.micro_batches == 0:
                readings.end("start")
            return self.model(**batch).loss

        def configure_optimizers(self):
            run.opt = run.opt or "sgd"
            return optimizer_of(run, [(n, p) for n, p in self.model.named_parameters() if p.requires_grad])

        def on_before_optimizer_step(self, optimizer):
            if not run.clip_grad_norm:
                readings.end("clip")

        def configure_gradient_clipping(self, optimizer, **how):
            super().configure_gradient_clipping(optimizer, **how)
            if run.clip_grad_norm:
                readings.end("clip")

        def on_train_batch_end(self, outputs, batch, index):
            if (index + 1) % run.micro_batches == 0:
                readings.end("optimizer")

    precision = {None: "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}[run.amp]
    trainer = lightning.Trainer(max_steps=3, precision=precision if run.precision == "fp32" else "bf16-true", accelerator="gpu", devices=1,
                                gradient_clip_val=1.0 if run.clip_grad_norm else None, accumulate_grad_batches=run.micro_batches,
                                logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    loader = torch.utils.data.DataLoader(Tokens(run.batch * 4, run.seq), batch_size=run.batch // run.micro_batches)
    gc.collect()
    gc.disable()
    trainer.fit(Module(), loader)


LOOPS = {"trainer": as_trainer, "accelerate": with_accelerate, "lightning": as_lightning}


def steps(text):
    words = shlex.split(text)
    at = words.index("--like")
    like = words[at + 1]
    run = flags_of(shlex.join(words[:at] + words[at + 2:]))
    run.recorded = False
    if run.checkpoint:
        run.checkpoint = run.checkpoint.replace("block,reentrant", "reentrant")  # as fine_tuning.py has it
    if "--opt" not in words:
        run.opt = None
    readings = Readings()
    model = model_of(run)
    LOOPS[like](run, model, readings)
    return readings.rows


def planned(gpuplan, text):
    model, _, flags = text.partition(" ")
    command = [gpuplan, str(FOLDER / "models" / (model + ".json")), "--gpu", "h200", "--format", "json", *shlex.split(flags)]
    for flag, default in (("--batch", "4"), ("--seq", "512")):
        command += [] if flag in command else [flag, default]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        return {"error": done.stderr.strip()}
    return at_callbacks({"%s %s" % (p["step"], p["phase"]): p for p in json.loads(done.stdout)["phases"]})


def at_callbacks(phases):
    """A callback reads the peak since the one before it: the plan's phases in between."""
    plan = {}
    for step in ("first", "steady"):
        since = []
        for phase in ("start", "forward", "loss", "backward", "clip", "optimizer"):
            row = phases.get("%s %s" % (step, phase))
            if row:
                since.append(row)
            if phase in PHASES:
                last = since[-1]
                plan["%s %s" % (step, phase)] = {figure: max(r[figure] for r in since) if figure.startswith("peak") else last[figure]
                                                 for figure in FIGURES}
                since = []
    return plan


if __name__ == "__main__":
    run_all(parser_of().parse_args(), RUNS, steps, planned)

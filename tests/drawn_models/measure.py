#!/usr/bin/env python3
"""Steps of drawn models as PyTorch runs them, on a GPU or under `gpuplan shadow`:

    [gpuplan shadow --gpu h100 -q --] python tests/drawn_models/measure.py --rows ROWS.tsv [--batch 6] [--jobs N] [--seconds S] MODEL|FILE...

FILE: a list of models. A model is trained with Adam for three steps, in fp32, under autocast to bfloat16 and, with images, in
channels-last under autocast, and infers three times in fp32. ROWS.tsv gets a line for each phase of the first and the third: model, run,
batch, step, phase, bytes requested, allocated and reserved at its end, and their peaks within it (torch.cuda.memory_stats).
--times: instead, milliseconds of ten more steps by the GPU's events (median, least, most), with --jobs 1 on a GPU that
does nothing else. Every run has a process of its own. Runs that ROWS.tsv has are not repeated; one that fails has a line with its error.
"""
from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
import models  # noqa: E402

FIGURES = {"requested": "requested_bytes.all.current", "allocated": "allocated_bytes.all.current", "reserved": "reserved_bytes.all.current",
           "peak_requested": "requested_bytes.all.peak", "peak_allocated": "allocated_bytes.all.peak", "peak_reserved": "reserved_bytes.all.peak"}
COLUMNS = ["model", "run", "batch", "step", "phase", *FIGURES]
TIMES = ["model", "run", "batch", "median_ms", "least_ms", "most_ms"]
LIMIT_SECONDS = 90  # of a run; one that takes longer is killed, and has a line that says so
RUNS = ("fp32", "amp", "nhwc", "infer")


class Phases:
    def __init__(self) -> None:
        self.steps: List[Dict[str, List[int]]] = []

    def end(self, phase: str) -> None:
        if phase == "start":
            self.steps.append({})
        stats = torch.cuda.memory_stats()
        self.steps[-1][phase] = [stats[key] for key in FIGURES.values()]
        torch.cuda.reset_peak_memory_stats()


def train_step(model: torch.nn.Module, drawn: models.Drawn, batch: Any, optimizer: torch.optim.Optimizer, amp: bool, phases: Phases) -> None:
    """A function: its outputs and loss are gone when it returns."""
    optimizer.zero_grad()
    phases.end("start")
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=amp):
        out = models.call(model, batch)
        phases.end("forward")
        loss = drawn.loss(out, batch)
    phases.end("loss")
    loss.backward()
    phases.end("backward")
    del out, loss
    optimizer.step()
    phases.end("optimizer")


def prepared(name: str, run: str, samples: int) -> Tuple[Phases, Callable[[], None]]:
    """What a step of the run does, and where it writes its figures."""
    torch.manual_seed(0)
    drawn = models.drawn(name)
    with torch.device("cuda"):
        model = drawn.make()
    model = model.to("cuda").train(run != "infer")
    if run == "nhwc":  # before there is a batch, as training scripts do it
        model = model.to(memory_format=torch.channels_last)
    batch = drawn.batch(samples, "cuda")
    if run == "nhwc":
        batch = (batch[0].to(memory_format=torch.channels_last), batch[1])
    if run == "infer":
        batch = without_targets(batch, getattr(getattr(model, "config", None), "is_encoder_decoder", False))
    gc.collect()
    gc.disable()
    phases = Phases()
    if run == "infer":
        return phases, lambda: inference(model, batch, phases)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    return phases, lambda: train_step(model, drawn, batch, optimizer, run in ("amp", "nhwc"), phases)


def without_targets(batch: Any, decodes_labels: bool) -> Any:
    if not isinstance(batch, dict):
        return batch[:1]
    return {k: v for k, v in batch.items() if k not in ("start_positions", "end_positions", "return_loss") and (decodes_labels or k != "labels")}


@torch.no_grad()
def inference(model: torch.nn.Module, batch: Any, phases: Phases) -> None:
    phases.end("start")
    out = models.call(model, batch)
    phases.end("forward")
    del out


def steps_of(name: str, run: str, samples: int) -> List[Dict[str, List[int]]]:
    phases, step = prepared(name, run, samples)
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    return phases.steps


def times_of(name: str, run: str, samples: int) -> List[float]:
    phases, step = prepared(name, run, samples)
    phases.end = lambda _: None
    for _ in range(4):
        step()
    times = []
    for _ in range(10):
        began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        began.record()
        step()
        ended.record()
        torch.cuda.synchronize()
        times.append(began.elapsed_time(ended))
    return [statistics.median(times), min(times), max(times)]


def measure(name: str, run: str, samples: int, rows: Path, timed: bool) -> None:
    key = f"{name}\t{run}\t{samples}"
    try:
        if timed:
            text = "\t".join([key, *(f"{t:.3f}" for t in times_of(name, run, samples))]) + "\n"
        else:
            steps = steps_of(name, run, samples)
            text = "".join("\t".join([key, step, phase, *map(str, figures)]) + "\n"
                           for step, index in (("first", 0), ("steady", 2)) for phase, figures in steps[index].items())
    except Exception as e:  # of other people's models: whatever it raises is its result
        text = "\t".join([key, "error", f"{type(e).__name__}: {' '.join(str(e).split())[:200]}"]) + "\n"
    with open(rows, "a", encoding="utf-8") as out:  # one write, which other processes' do not cut
        out.write(text)


def in_own_processes(tasks: List[Tuple[str, str, int]], rows: Path, jobs: int, seconds: float, timed: bool) -> None:
    """torch and the models' packages are imported once; CUDA begins in the children."""
    began, running, left = time.time(), {}, list(tasks)
    while left or running:
        while left and len(running) < jobs and time.time() - began < seconds:
            task = left.pop(0)
            child = os.fork()
            if child == 0:
                os.close(1)
                os.open(os.devnull, os.O_WRONLY)
                measure(*task, rows, timed)
                os._exit(0)
            running[child] = (task, time.time())
        if time.time() - began >= seconds:
            left = []
        done, status = os.waitpid(-1, os.WNOHANG) if running else (0, 0)
        if done:
            task, _ = running.pop(done)
            if status:
                with open(rows, "a", encoding="utf-8") as out:
                    out.write("\t".join([*map(str, task), "error", f"its process ended with status {status}"]) + "\n")
            continue
        for child, (task, since) in running.items():
            if time.time() - since > LIMIT_SECONDS:
                os.kill(child, 9)
        time.sleep(0.02)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--batch", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="no run begins later")
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--runs", nargs="+", default=RUNS, choices=RUNS)
    parser.add_argument("models", nargs="+")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    names: List[str] = []
    for word in options.models:
        names += [word] if ":" in word else Path(word).read_text(encoding="utf-8").split()
    if not options.rows.exists():
        options.rows.write_text("\t".join(TIMES if options.times else COLUMNS) + "\n", encoding="utf-8")
    known = {tuple(line.split("\t")[:3]) for line in options.rows.read_text(encoding="utf-8").splitlines()}
    for kind in {name.partition(":")[0] for name in names}:
        models.names_of(kind)
    tasks = [(name, run, options.batch) for run in options.runs for name in names if run != "nhwc" or models.has_images(name)]
    in_own_processes([t for t in tasks if tuple(map(str, t)) not in known], options.rows, options.jobs, options.seconds, options.times)
    return 0


if __name__ == "__main__":
    sys.exit(main())

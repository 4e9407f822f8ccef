#!/usr/bin/env python3
"""A step of a model as PyTorch runs it, beside the plan of its exported spec, to the byte:

    gpuplan shadow --gpu h200 -q -- python export_shadow.py --gpuplan build/gpuplan [--batch N] [--infer | --amp] MODEL

MODEL as for export_check.py; --scratch no-cudnn where `gpuplan shadow` was told so. Compared are the bytes allocated and reserved after each phase of the third step, and the
peaks of the phase; what is requested is counted by memory_stats. Exits with 1 where a figure differs.
"""
from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
import export_check  # noqa: E402
import gpuplan as exporter  # noqa: E402
from gpuplan.batch_sizes import TRACED_BATCHES  # noqa: E402
from gpuplan.values import flat_tensors  # noqa: E402
from gpuplan.without_data import on_meta  # noqa: E402

FIGURES = {"requested_bytes": "requested_bytes.all.current", "allocated_bytes": "allocated_bytes.all.current",
           "reserved_bytes": "reserved_bytes.all.current", "peak_requested_bytes": "requested_bytes.all.peak",
           "peak_allocated_bytes": "allocated_bytes.all.peak", "peak_reserved_bytes": "reserved_bytes.all.peak"}


OPTIMIZERS = {"sgd": lambda weights: torch.optim.SGD(weights, lr=0.1), "adam": torch.optim.Adam}


class Phases:
    """Reads the allocator where a phase ends."""

    def __init__(self) -> None:
        self.steps: List[Dict[str, Dict[str, int]]] = []

    def end(self, phase: str) -> None:
        if phase == "start":
            self.steps.append({})
        stats = torch.cuda.memory_stats()
        self.steps[-1][phase] = {name: stats[key] for name, key in FIGURES.items()}
        torch.cuda.reset_peak_memory_stats()


def output_of(out: object) -> torch.Tensor:
    return flat_tensors(out)[0]


def target_of(shape: torch.Size, device: str) -> torch.Tensor:
    return torch.zeros(shape[:1] + shape[2:], dtype=torch.int64, device=device)


def loss_of(model: torch.nn.Module, out: object, classes: torch.Tensor) -> torch.Tensor:
    return getattr(model, "criterion", torch.nn.functional.cross_entropy)(output_of(out), classes)


def output_shape(case: export_check.Case) -> torch.Size:
    with torch.no_grad():
        return output_of(on_meta(case.model)(case.batch)).shape


def export_trained(case: export_check.Case, spec: Path, name: str, construction: Optional[Any] = None) -> None:
    """With its loss; targets are there before, as they come with the batch."""
    case.model.train()
    shape = output_shape(case)
    targets = {n: target_of(torch.Size((n,) + tuple(shape[1:])), "meta") for n in TRACED_BATCHES}
    exporter.export(case.model, case.batch, str(spec), name=name, construction=construction,
                    loss=lambda model, out, batch: loss_of(model, out, targets[len(batch)]))


def train_step(model: torch.nn.Module, batch: torch.Tensor, classes: torch.Tensor, optimizer: torch.optim.Optimizer,
               phases: Phases, amp: bool = False) -> None:
    """A function: its output and loss are gone when it returns. amp: forward and loss under autocast to bfloat16."""
    optimizer.zero_grad()
    phases.end("start")
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=amp):
        out = model(batch)
        phases.end("forward")
        loss = loss_of(model, out, classes)
    phases.end("loss")
    loss.backward()
    phases.end("backward")
    del out, loss
    optimizer.step()
    phases.end("optimizer")


def train(model: torch.nn.Module, batch: torch.Tensor, shape: torch.Size, phases: Phases, optimizer_name: str,
          amp: bool = False) -> None:
    """shape: of the output, of any batch."""
    optimizer = OPTIMIZERS[optimizer_name](model.parameters())
    classes = target_of(torch.Size((len(batch),) + tuple(shape[1:])), "cuda")
    for _ in range(3):
        train_step(model, batch, classes, optimizer, phases, amp)


def infer(model: torch.nn.Module, batch: torch.Tensor, phases: Phases) -> None:
    model.eval()
    with torch.no_grad():
        for _ in range(3):
            phases.end("start")
            out = model(batch)
            phases.end("forward")
            del out


def planned_phases(gpuplan: str, case: export_check.Case, options: argparse.Namespace) -> Dict[str, Dict[str, int]]:
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "model.yaml"
        export_trained(case, spec, "model")
        command = [gpuplan, str(spec), "--batch", str(options.batch), "--gpu", "h200", "--format", "json",
                   "--scratch", options.scratch]
        command += ["--mode", "infer"] if options.infer else ["--opt", options.optimizer, "--loop", "function"]
        command += ["--amp", "bf16"] if options.amp else []
        plan = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {p["phase"]: p for p in plan["phases"] if p["step"] == "steady"}


def differences(measured: Dict[str, Dict[str, int]], planned: Dict[str, Dict[str, int]]) -> Tuple[List[str], int]:
    wrong: List[str] = []
    count = 0
    for phase, figures in measured.items():
        for name, bytes_ in figures.items():
            if phase == "start" and name.startswith("peak"):
                continue
            count += 1
            if planned[phase][name] != bytes_:
                wrong.append(f"{phase} {name}: planned {planned[phase][name]:,}, PyTorch {bytes_:,}")
    return wrong, count


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpuplan", required=True)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--infer", action="store_true")
    parser.add_argument("--amp", action="store_true", help="the training step under autocast to bfloat16")
    parser.add_argument("--optimizer", default="sgd", choices=sorted(OPTIMIZERS))
    parser.add_argument("--scratch", default="full", choices=("full", "no-cudnn"))
    parser.add_argument("model")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    kind, _, name = options.model.partition(":")
    case = export_check.CASES[kind](name)
    planned = planned_phases(options.gpuplan, case, options)
    shape = output_shape(case)
    gc.disable()
    model = case.model.to_empty(device="cuda")
    batch = torch.zeros((options.batch,) + tuple(case.batch.shape[1:]), device="cuda")
    phases = Phases()
    if options.infer:
        infer(model, batch, phases)
    else:
        train(model, batch, shape, phases, options.optimizer, options.amp)
    wrong, count = differences(phases.steps[-1], planned)
    print(f"{options.model}{' infer' if options.infer else ''}: {count - len(wrong)} of {count} figures equal")
    for text in wrong:
        print("  " + text)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())

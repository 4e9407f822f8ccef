"""--verify: steps of the module itself on a simulated GPU, beside the plans of its spec, at batches that were not traced."""
from __future__ import annotations

import dataclasses
import json
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, NamedTuple, Sequence

import torch

from gpuplan.errors import ExportError, GpuplanError
from gpuplan.header import Verdict
from gpuplan.named import Named
from gpuplan.program import run_json
from gpuplan.simulated import last_line, run_simulated, simulated_gpu
from gpuplan.stepped import Measured, Request, Step, StepAt

BATCHES = (4, 6)
SHOWN = 3  # phases that differ
MODES = {"train": "train", "eval": "infer"}  # PyTorch's words, and a plan's


class Compared(NamedTuple):
    """In one mode."""

    wrong: List[str]  # a line for each phase that differs
    percent: List[float]  # of each run, how far off the highest requested bytes are


def can_verify() -> bool:
    """Whether this torch is a build for CUDA."""
    return torch.version.cuda is not None


def verified(spec: str, model: Named, on_gpu: bool, steps: Sequence[Step]) -> Verdict:
    """steps: of one type, in one mode or in both."""
    request = Request(model.target, model.arguments, model.config, model.inputs, on_gpu, [StepAt(step, batch) for step in steps for batch in BATCHES])
    # A plan knows cuDNN's workspaces by rule; whether the spec is the model is told without them.
    scratches = ("full", "no-cudnn")
    try:
        with ThreadPoolExecutor(len(scratches)) as pool:
            full, without = pool.map(lambda scratch: _compared(spec, request, scratch), scratches)
    except GpuplanError as e:
        return Verdict("", {}, [f"not verified{about(steps[0])}: {e.message}"])
    equal = [step for step in steps if not without[step.mode].wrong]
    said = f"equal to {tried(equal)}" if equal else ""
    if any(full[step.mode].wrong for step in equal):
        percent = [p for step in equal for p in full[step.mode].percent]
        said += f"; cuDNN's workspaces, by rule, make its peaks {min(percent):+.1f} to {max(percent):+.1f} % off"
    return Verdict(said, {MODES[step.mode]: not_equal(step, without[step.mode].wrong) for step in steps if step not in equal}, [])


def tried(steps: Sequence[Step]) -> str:
    taken = [" and ".join(step.mode for step in steps), *type_of(steps[0])]
    return f"PyTorch {release()} at batch {' and '.join(map(str, BATCHES))}, {', '.join(taken)}, simulated {simulated_gpu()}"


def not_equal(step: Step, wrong: List[str]) -> str:
    more = f", and {len(wrong) - SHOWN} more phases" if len(wrong) > SHOWN else ""
    return f"not equal to {tried([step])}, cuDNN's workspaces left out: {'; '.join(wrong[:SHOWN])}{more}"


def type_of(step: Step) -> List[str]:
    return [step.precision, *([f"autocast to {step.amp}"] if step.amp else []), *(["channels-last"] if step.channels_last else [])]


def about(step: Step) -> str:
    """Of a type that an export is not verified in by itself."""
    words = type_of(step)
    return "" if words == ["fp32"] else f" in {', '.join(words)}"


def flags_of(step: Step) -> List[str]:
    flags = ["--mode", "infer"] if step.mode == "eval" else ["--opt", step.optimizer, "--loop", "function"]
    flags += ["--precision", step.precision] if step.precision != "fp32" else []
    flags += ["--amp", step.amp] if step.amp else []
    return flags + (["--layout", "nhwc"] if step.channels_last else [])


def _compared(spec: str, request: Request, scratch: str) -> Dict[str, Compared]:
    modes = {step.mode: Compared([], []) for step, _ in request.runs}
    for (step, batch), measured in zip(request.runs, _measured(request, scratch)):
        flags = flags_of(step) + (["--labels"] if measured.with_labels else [])
        plan = run_json(["plan", spec, "--batch", str(batch), "--gpu", simulated_gpu(), "--pytorch", release(), "--scratch", scratch, *flags])
        modes[step.mode].wrong.extend(f"batch {batch}, {text}" for text in differences(measured.steps, plan))
        peak = max(read["peak_requested"] for phases in measured.steps for phase, read in phases.items() if phase != "start")
        modes[step.mode].percent.append(100.0 * (max(p["peak_requested_bytes"] for p in plan["phases"]) / peak - 1))
    return modes


def release() -> str:
    return ".".join(torch.__version__.split(".")[:2])


def differences(measured: "List[Dict[str, Dict[str, int]]]", plan: Dict[str, Any]) -> List[str]:
    """Of the first and the third step, a line for each phase: the figure that is furthest off."""
    planned = {(p["step"], p["phase"]): p for p in plan["phases"]}
    lines = []
    for step, figures in (("first", measured[0]), ("steady", measured[2])):
        for phase, read in figures.items():
            said = planned.get((step, phase), {})
            off = {name: said.get(name + "_bytes", 0) - size for name, size in read.items() if phase != "start" or not name.startswith("peak")}
            name = max(off, key=lambda n: abs(off[n]))
            if off[name]:
                lines.append(f"{step} step, {phase}: {name.replace('_', ' ')} {read[name]:,} B, planned {off[name]:+,} B")
    return lines


def _measured(request: Request, scratch: str) -> List[Measured]:
    if not can_verify():
        raise GpuplanError(f"steps on a simulated GPU need PyTorch's build for CUDA, and {sys.executable} has torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        asked = os.path.join(folder, "request")
        with open(asked, "w", encoding="utf-8") as file:
            json.dump(dataclasses.asdict(dataclasses.replace(request, output=folder)), file)
        ended = run_simulated("gpuplan.stepped", asked, scratch=scratch)
        return [_read(os.path.join(folder, str(n)), run, ended.output) for n, run in enumerate(request.runs)]


def _read(at: str, run: StepAt, output: str) -> Measured:
    if os.path.exists(at + ".json"):
        with open(at + ".json", encoding="utf-8") as file:
            return Measured(*json.load(file))
    why = last_line(output)
    if os.path.exists(at + ".error"):
        with open(at + ".error", encoding="utf-8") as file:
            why = file.read()
    raise ExportError(f"the model's own step in {run.step.mode} mode at batch {run.batch} ended with {why}")

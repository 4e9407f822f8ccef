"""--verify: steps of the module itself on a simulated GPU, beside the plans of its spec, at batches that were not traced."""
from __future__ import annotations

import dataclasses
import json
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import torch

from gpuplan.errors import ExportError, GpuplanError
from gpuplan.named import Named
from gpuplan.program import HERE, run_json
from gpuplan.shadowed import run_command
from gpuplan.stepped import Request

BATCHES = (4, 6)
GPU = "a100-80gb"  # that of a plan without --gpu
SHOWN = 3  # phases that differ
MODES = {"train": ["--opt", "sgd", "--loop", "function"], "eval": ["--mode", "infer"]}


class Compared(NamedTuple):
    wrong: List[str]  # a line for each phase that differs
    percent: List[float]  # of each run, how far off the highest requested bytes are


class Verdict(NamedTuple):
    """What the spec says of itself."""

    verified: str  # empty where it is not equal
    notes: List[str]


def verified(spec: str, model: Named, on_gpu: bool, modes: Sequence[str]) -> Verdict:
    runs = [(mode, batch) for mode in modes for batch in BATCHES]
    request = Request(model.target, model.arguments, model.config, model.inputs, on_gpu, runs)
    tried = f"PyTorch {release()} at batch {' and '.join(map(str, BATCHES))}, {' and '.join(modes)}, fp32, simulated {GPU}"
    # A plan knows cuDNN's workspaces by rule; whether the spec is the model is told without them.
    scratches = ("full", "no-cudnn")
    try:
        with ThreadPoolExecutor(len(scratches)) as pool:
            full, without = pool.map(lambda scratch: _compared(spec, request, scratch), scratches)
    except GpuplanError as e:
        return Verdict("", [f"not verified: {e.message}"])
    if not full.wrong:
        return Verdict(f"equal to {tried}", [])
    if not without.wrong:
        off = f"{min(full.percent):+.1f} to {max(full.percent):+.1f} %"
        return Verdict(f"equal to {tried}; cuDNN's workspaces, by rule, make its peaks {off} off", [])
    more = f", and {len(without.wrong) - SHOWN} more phases" if len(without.wrong) > SHOWN else ""
    return Verdict("", [f"not equal to {tried}, cuDNN's workspaces left out: {'; '.join(without.wrong[:SHOWN])}{more}"])


def _compared(spec: str, request: Request, scratch: str) -> Compared:
    compared = Compared([], [])
    for (mode, batch), measured in zip(request.runs, _measured(request, scratch)):
        plan = run_json(["plan", spec, "--batch", str(batch), "--gpu", GPU, "--pytorch", release(), "--scratch", scratch, *MODES[mode]])
        compared.wrong.extend(f"{mode}, batch {batch}, {text}" for text in differences(measured, plan))
        peak = max(read["peak_requested"] for step in measured for phase, read in step.items() if phase != "start")
        compared.percent.append(100.0 * (max(p["peak_requested_bytes"] for p in plan["phases"]) / peak - 1))
    return compared


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


def _measured(request: Request, scratch: str) -> "List[List[Dict[str, Dict[str, int]]]]":
    """The steps of each run."""
    if torch.version.cuda is None:
        raise GpuplanError(f"steps on a simulated GPU need PyTorch's build for CUDA, and {sys.executable} has torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        asked = os.path.join(folder, "request")
        with open(asked, "w", encoding="utf-8") as file:
            json.dump(dataclasses.asdict(dataclasses.replace(request, output=folder)), file)
        path = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
        ended = run_command(["env", f"PYTHONPATH={path}", sys.executable, "-m", "gpuplan.stepped", asked], gpu=GPU, scratch=scratch, quiet=True)
        return [_read(os.path.join(folder, str(n)), run, ended.output) for n, run in enumerate(request.runs)]


def _read(at: str, run: "Tuple[str, int]", output: str) -> "List[Dict[str, Dict[str, int]]]":
    if os.path.exists(at + ".json"):
        with open(at + ".json", encoding="utf-8") as file:
            return json.load(file)
    why = last_line(output)
    if os.path.exists(at + ".error"):
        with open(at + ".error", encoding="utf-8") as file:
            why = file.read()
    raise ExportError(f"the model's own step in {run[0]} mode at batch {run[1]} ended with {why}")


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "without a word"

"""The simulated GPU of an export: operators without a layer are recorded on it, and steps of the model are compared there."""
from __future__ import annotations

import functools
import os
import sys
from typing import Tuple

from gpuplan.errors import GpuplanError
from gpuplan.program import HERE, run_json
from gpuplan.shadowed import Run, run_command

VARIABLE = "GPUPLAN_EXPORT_GPU"


def simulated_gpu() -> str:
    """That of a plan without --gpu, where no other is named."""
    return os.environ.get(VARIABLE) or "a100-80gb"


def simulate(gpu: str) -> None:
    """By one of its names. Raises GpuplanError where there is no such GPU."""
    if gpu:
        os.environ[VARIABLE] = run_command(["true"], gpu=gpu, quiet=True).to_dict()["gpu"]


@functools.lru_cache(maxsize=None)
def simulated_capability() -> Tuple[int, int]:
    """Of CUDA. That of the default where this installation has no program."""
    try:
        major, minor = run_json(["gpus", simulated_gpu()])["gpus"][0]["compute_capability"].split(".")
        return int(major), int(minor)
    except GpuplanError:
        return 8, 0


def run_simulated(module: str, *words: str, scratch: str) -> Run:
    """A module of this package on that GPU."""
    path = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
    return run_command(["env", f"PYTHONPATH={path}", sys.executable, "-m", module, *words], gpu=simulated_gpu(), scratch=scratch, quiet=True)


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "without a word"

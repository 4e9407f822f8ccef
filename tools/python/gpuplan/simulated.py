"""The simulated GPU of an export: operators without a layer are recorded on it, and steps of the model are compared there."""
from __future__ import annotations

import os

VARIABLE = "GPUPLAN_EXPORT_GPU"


def simulated_gpu() -> str:
    """That of a plan without --gpu, where no other is named."""
    return os.environ.get(VARIABLE) or "a100-80gb"


def simulate(gpu: str) -> None:
    if gpu:
        os.environ[VARIABLE] = gpu

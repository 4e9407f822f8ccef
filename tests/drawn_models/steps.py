#!/usr/bin/env python3
"""Three steps of a drawn model, for `gpuplan shadow --learn`: python tests/drawn_models/steps.py MODEL RUN SAMPLES"""
from __future__ import annotations

import sys
import warnings
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
import measure  # noqa: E402

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    measure.steps_of(sys.argv[1], sys.argv[2], int(sys.argv[3]))

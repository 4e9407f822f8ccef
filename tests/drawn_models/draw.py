#!/usr/bin/env python3
"""Draws models: those of each kind that come first in the salt's order, are not too large, and take two training steps; or so many programs.

    gpuplan shadow --gpu h100 -q -- python tests/drawn_models/draw.py --salt SALT > LIST"""
from __future__ import annotations

import argparse
import os
import sys
import warnings
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
import measure  # noqa: E402
import models  # noqa: E402


def parameters(name: str) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in models.drawn(name).make().parameters())


def answer(name: str) -> str:
    """Nothing where it runs, else why it is passed over. In a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(2, 1)
        try:
            count = parameters(name)
            text = f"{count:,} parameters" if count > models.LARGEST else ""
            if not text:
                measure.steps_of(name, "fp32", 2)
        except BaseException as e:
            text = f"{type(e).__name__}: {' '.join(str(e).split())[:160]}"
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read().decode()
    return text if os.waitpid(child, 0)[1] == 0 else "its process died"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--salt", required=True)
    parser.add_argument("--programs", type=int, metavar="N", help="of programs.py, instead of models of timm, torchvision and transformers")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for kind, count in ({"program": options.programs} if options.programs else models.COUNTS).items():
        for name in models.in_order(options.salt, kind):
            why = answer(name)
            print(f"{name}: {why}" if why else name, file=sys.stderr, flush=True)
            if not why:
                print(name, flush=True)
                count -= 1
                if count == 0:
                    break
    return 0


if __name__ == "__main__":
    sys.exit(main())

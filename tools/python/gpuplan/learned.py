"""What the program runs under `gpuplan shadow --learn` for a model that cannot be exported: three steps of it.

    python -c '...' SOURCES BATCH '{"mode": "train", "optimizer": "adam", ...}' MODEL [--input SIZES ...] [--arg NAME=VALUE ...]

SOURCES gets the files that the model was made of, as door.py writes them."""
from __future__ import annotations

import json
import sys
from typing import List

from gpuplan.errors import GpuplanError


def main(arguments: List[str]) -> int:
    from gpuplan.command_line import parser_of
    from gpuplan.door import write_sources
    from gpuplan.named import named
    from gpuplan.stepped import STEPS, Request, Step, stepping
    import torch

    sources, samples, settings, *words = arguments
    options = parser_of("gpuplan").parse_args(words)
    try:
        model = named(options.model, options.arg, options.config, options.input, options.set)
        request = Request(model.target, model.arguments, model.config, model.inputs, False, [])
        step = stepping(request, Step(**json.loads(settings)), int(samples), lambda phase: None)
    except GpuplanError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    step()
    write_sources(sources, [])  # what learns ends a script within its third step
    for _ in range(STEPS - 1):
        step()
    torch.cuda.synchronize()
    return 0

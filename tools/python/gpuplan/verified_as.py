"""What the program runs where a model that was exported is planned in another type than the export was compared in: compares the
spec in that type, and writes it with what was found.

    python -c '...' OUT.yaml SPEC.yaml '{"mode": "train", "amp": "bf16", ...}' MODEL [--input SIZES ...] [--arg NAME=VALUE ...]

OUT.yaml.sources gets the files that SPEC.yaml was made of."""
from __future__ import annotations

import json
import os
import sys
from typing import List

from gpuplan.errors import GpuplanError


def main(arguments: List[str]) -> int:
    from gpuplan.command_line import parser_of
    from gpuplan.header import of_other_types, with_remarks, without_verdict
    from gpuplan.named import named
    from gpuplan.simulated import simulate
    from gpuplan.stepped import Step
    from gpuplan.verify import verified

    out, spec, settings, *words = arguments
    options = parser_of("gpuplan").parse_args(words)
    step = Step(**json.loads(settings))
    try:
        simulate(options.gpu)
        found = verified(spec, named(options.model, options.arg, options.config, options.input), options.on_gpu, [step])
    except GpuplanError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    with open(spec, encoding="utf-8") as file:
        text = without_verdict(file.read())
    if found.verified:  # what the spec was feared to lack in this type it does not lack
        text = of_other_types(text, [step.amp, step.precision])
    part = f"{out}.{os.getpid()}"
    with open(part, "w", encoding="utf-8") as file:
        file.write(with_remarks(text, [], found))
    os.replace(part, out)
    copy_sources(spec, out)
    return 0


def copy_sources(spec: str, out: str) -> None:
    part = f"{out}.sources.{os.getpid()}"
    with open(spec + ".sources", encoding="utf-8") as file, open(part, "w", encoding="utf-8") as copy:
        copy.write(file.read())
        for path in (spec, out):
            known = os.stat(path)
            copy.write(f"{known.st_size}\t{known.st_mtime_ns}\t{path}\n")
    os.replace(part, out + ".sources")

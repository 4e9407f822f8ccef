"""What the program runs where a model that was exported is planned in another type than the export was made and compared in: compares the
spec in that type, and writes it with what was found. A model whose code asks for its type is exported in that one first.

    python -c '...' OUT.yaml SPEC.yaml '{"mode": "train", "amp": "bf16", ...}' MODEL [--input SIZES ...] [--arg NAME=VALUE ...]

OUT.yaml.sources gets the files that SPEC.yaml was made of."""
from __future__ import annotations

import argparse
import json
import os
import sys
from typing import List

from gpuplan.errors import GpuplanError


def main(arguments: List[str]) -> int:
    from gpuplan.command_line import parser_of
    from gpuplan.header import Verdict, of_other_types, with_remarks, without_verdict
    from gpuplan.named import named
    from gpuplan.simulated import simulate
    from gpuplan.stepped import Step
    from gpuplan.verify import can_verify, verified

    out, spec, settings, *words = arguments
    options = parser_of("gpuplan").parse_args(words)
    step = Step(**json.loads(settings))
    part = f"{out}.{os.getpid()}"
    try:
        simulate(options.gpu)
        with open(spec, encoding="utf-8") as file:
            text = without_verdict(file.read())
        if of_other_types(text, [step.amp, step.precision]) != text:
            text = exported_in_type(options, step.precision, step.amp, part)
        else:
            write(part, text)
        found = verified(part, named(options.model, options.arg, options.config, options.input, options.set), options.on_gpu, [step]) if can_verify() else Verdict("", {}, [])
    except GpuplanError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    finally:
        if os.path.exists(part):
            os.remove(part)
    if found.verified:  # what the spec was feared to lack in this type it does not lack
        text = of_other_types(text, [step.amp, step.precision])
    write(part, with_remarks(text, [], found))
    os.replace(part, out)
    copy_sources(spec, out)
    return 0


def exported_in_type(options: argparse.Namespace, precision: str, amp: str, output: str) -> str:
    from gpuplan.command_line import exported

    options.precision, options.amp, options.output, options.verify = precision, amp, output, False
    return exported(options)


def write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def copy_sources(spec: str, out: str) -> None:
    part = f"{out}.sources.{os.getpid()}"
    with open(spec + ".sources", encoding="utf-8") as file, open(part, "w", encoding="utf-8") as copy:
        copy.write(file.read())
        for path in (spec, out):
            known = os.stat(path)
            copy.write(f"{known.st_size}\t{known.st_mtime_ns}\t{path}\n")
    os.replace(part, out + ".sources")

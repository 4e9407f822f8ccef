#!/usr/bin/env python3
"""Records steps of models as PyTorch runs them, and the specs that tools/python/gpuplan writes of them:

    gpuplan shadow --gpu h200 -q -- python tests/torch/export_record.py --gpu h200 --runs ROWS.tsv [--specs DIR] MODEL...

    python tests/torch/export_record.py --specs DIR MODEL...

MODEL as for export_check.py; those of tests/exported are in export_runs.txt. --specs gets MODEL.yaml, with the loss that
the model is trained with. --runs gets a line for each phase of the first and the third step of a run:
model, gpu, scratch, mode, optimizer, batch, step, phase, the bytes requested, allocated and reserved when the phase ends
and the peaks within it (torch.cuda.memory_stats). A training step is that of export_shadow.py. Runs that ROWS.tsv has
are not repeated; every run has a process of its own, so that it begins with an allocator that holds nothing.
tests/test_exported_runs.cpp plans the specs and compares every figure.
"""
from __future__ import annotations

import argparse
import gc
import os
import sys
import traceback
import warnings
from pathlib import Path
from typing import List, NamedTuple

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
import export_check  # noqa: E402
import export_shadow  # noqa: E402

COLUMNS = ["model", "gpu", "scratch", "mode", "optimizer", "batch", "step", "phase", *export_shadow.FIGURES]


class Run(NamedTuple):
    model: str
    gpu: str
    scratch: str
    mode: str
    optimizer: str
    batch: int

    def text(self) -> str:
        return "\t".join(map(str, self))


def runs_of(model: str, options: argparse.Namespace) -> List[Run]:
    place = file_name(model), options.gpu, options.scratch
    modes = ["train", "train-bf16"] if options.amp else ["train"]
    return [Run(*place, m, o, options.batch) for m in modes for o in options.optimizers] + [Run(*place, "infer", "-", 2 * options.batch)]


def file_name(model: str) -> str:
    return model.replace(":", ".").replace("/", ".")


def write_spec(model: str, folder: Path) -> None:
    kind, _, name = model.partition(":")
    case = export_check.CASES[kind](name)
    export_shadow.export_trained(case, folder / (file_name(model) + ".yaml"), name.replace("/", "."))


def record(model: str, run: Run, rows: Path) -> None:
    kind, _, name = model.partition(":")
    case = export_check.CASES[kind](name)
    shape = export_shadow.output_shape(case)
    gc.disable()
    moved = case.model.to_empty(device="cuda")
    batch = torch.zeros((run.batch,) + tuple(case.batch.shape[1:]), device="cuda")
    phases = export_shadow.Phases()
    if run.mode != "infer":
        export_shadow.train(moved, batch, shape, phases, run.optimizer, run.mode == "train-bf16")
    else:
        export_shadow.infer(moved, batch, phases)
    with open(rows, "a", encoding="utf-8") as out:
        for step, index in (("first", 0), ("steady", 2)):
            for phase, figures in phases.steps[index].items():
                out.write("\t".join([run.text(), step, phase, *(str(v) for v in figures.values())]) + "\n")


def in_own_process(what, *arguments) -> bool:
    """torch is imported once; CUDA begins in the child."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            what(*arguments)
            status = 0
        except Exception as e:  # of other people's models: whatever it raises is its result
            print(f"{arguments[0]}: {type(e).__name__}: {str(e)[:300]}", file=sys.stderr)
            if os.environ.get("EXPORT_TRACEBACK"):
                traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", default="h200", help="the name that the rows get")
    parser.add_argument("--scratch", default="full", choices=("full", "no-cudnn"), help="likewise")
    parser.add_argument("--runs", type=Path, help="without it, specs alone are written")
    parser.add_argument("--specs", type=Path)
    parser.add_argument("--batch", type=int, default=8, help="an inference takes twice as many")
    parser.add_argument("--amp", action="store_true", help="a training step under autocast to bfloat16 too, train-bf16")
    parser.add_argument("--optimizers", nargs="+", default=["adam"], choices=sorted(export_shadow.OPTIMIZERS))
    parser.add_argument("models", nargs="+")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if options.runs and not options.runs.exists():
        options.runs.write_text("\t".join(COLUMNS) + "\n", encoding="utf-8")
    known = options.runs.read_text(encoding="utf-8") if options.runs else ""
    failed = 0
    for model in options.models:
        if options.specs and not in_own_process(write_spec, model, options.specs):
            failed += 1
            continue
        for run in runs_of(model, options) if options.runs else []:
            if "\n" + run.text() + "\t" not in known:
                failed += not in_own_process(record, model, run, options.runs)
        print(model, flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Plans drawn models and compares every figure with what measure.py read:

    python tests/drawn_models/plan.py --gpuplan build/gpuplan --rows ROWS.tsv --gpu h200 --specs DIR --results RESULTS.tsv
        [--verified-by ROWS.tsv...] [--scratch no-cudnn] [--pytorch 2.15] [--flags=...] [--part K/N --no-plans]

A model is exported once, without data, into DIR (or DIR/MODEL.error says why not); its runs are planned from that spec, and where its code asks for
its type from one of that type. RESULTS.tsv gets a line for
each run: model, run, batch, `equal`, or `announced` or `silent` with the worst difference of a peak in percent, or `refused`. Equal is the bytes
requested, allocated and reserved after each phase of the first and the third step, and their peaks in it. Announced: the plan has a warning, or assumes
something that not every plan assumes; `equal, announced` is equal all the same. Models are exported in a process of their own; what is there is not
exported again. What is refused is planned as `gpuplan MODEL` does it, from its own steps under `gpuplan shadow --learn` at batches 2, 4 and 8
(DIR/MODEL.RUN.trace): `learned equal` has the peaks of the two steps, which is all that is compared there, and `learned` has not. --no-learning: not.
--verified-by: what measure.py read at other batches. A run whose plan differs there is planned as `gpuplan MODEL` does it too: learned.
"""
from __future__ import annotations

import argparse
import collections
import csv
import json
import os
import re
import subprocess
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools/python"))

import torch  # noqa: E402

import models  # noqa: E402
import gpuplan  # noqa: E402
import gpuplan.spec  # noqa: E402
from gpuplan.asked_type import AskedType  # noqa: E402
from gpuplan.construction import Construction, constructed  # noqa: E402

FLAGS = {"fp32": ["--opt", "adam"], "amp": ["--opt", "adam", "--amp", "bf16"], "nhwc": ["--opt", "adam", "--amp", "bf16", "--layout", "nhwc"],
         "infer": ["--mode", "infer"]}
FIGURES = ("requested", "allocated", "reserved", "peak_requested", "peak_allocated", "peak_reserved")
# What every plan says, every plan of a release without recordings, and what --scratch asked for.
ALWAYS_ASSUMED = {"alone", "context", "pytorch", "scratch"}
LEARNED_AT = "batch=2,4,8"
COLUMNS = ["model", "run", "batch", "result", "unequal", "requested_percent", "allocated_percent", "reserved_percent", "first"]


class Run(NamedTuple):
    model: str
    run: str
    batch: int


def file_name(model: str) -> str:
    return model.replace(":", ".").replace("/", ".")


def export(model: str, folder: Path, asked: AskedType = AskedType()) -> Path:
    """In a process of its own, since a model of others may do anything."""
    spec = folder / (file_name(model) + ("" if asked == AskedType() else "." + asked.word()) + ".yaml")
    error = spec.with_suffix(".error")
    if spec.exists() or error.exists():
        return spec
    began = time.time()
    child = os.fork()
    if child == 0:
        try:
            drawn, construction = models.drawn(model), Construction()
            built = constructed(drawn.make, construction)
            gpuplan.export(built.train(), drawn.batch(2, "meta"), str(spec), name=file_name(model).replace(".", "-"), forward=models.call,
                           loss=lambda _, out, batch: drawn.loss(out, batch), construction=construction, asked=asked)
        except BaseException as e:
            error.write_text(f"{type(e).__name__}: {e}\n" + traceback.format_exc(), encoding="utf-8")
            spec.unlink(missing_ok=True)
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        error.write_text("its process died\n", encoding="utf-8")
    print(f"{model}: {'exported' if spec.exists() else 'refused'} in {time.time() - began:.1f} s", file=sys.stderr, flush=True)
    return spec


def spec_in_type(run: Run, folder: Path) -> Path:
    """That of the model; where its code asks for its type, that of the run's."""
    spec = folder / (file_name(run.model) + ".yaml")
    told = run.run in ("amp", "nhwc") and spec.exists() and "\n  - {bf16: " in spec.read_text(encoding="utf-8")
    return export(run.model, folder, AskedType(amp="bf16")) if told else spec


def planned(spec: Path, run: Run, options: argparse.Namespace) -> Any:
    command = [options.gpuplan, str(spec), "--batch", str(run.batch), "--gpu", options.gpu, "--format", "json", "--loop", "function",
               "--pytorch", options.pytorch, "--scratch", options.scratch, *FLAGS[run.run], *options.flags.split()]
    if run.run == "infer" and decodes_labels(spec.read_text(encoding="utf-8")):
        command.append("--labels")  # which measure.py leaves to models whose decoder reads them
    done = subprocess.run(command, capture_output=True, text=True)
    return json.loads(done.stdout) if done.stdout.startswith("{") else " ".join(done.stderr.split())


def decodes_labels(spec: str) -> bool:
    """An encoder-decoder whose decoder is given the labels, shifted: the model computes a loss of them then."""
    return "\nloss: SequenceToSequenceLoss" in spec and re.search(r"ShiftRight\(|SetPart\(part=\[1, 1, \d+\]\)", spec) is not None


def learned(trace: Path, run: Run, options: argparse.Namespace) -> Any:
    if not trace.exists():
        steps = [sys.executable, str(Path(__file__).parent / "steps.py"), run.model, run.run, "{batch}"]
        subprocess.run([options.gpuplan, "shadow", "--gpu", options.gpu, "--scratch", options.scratch, "--learn", str(trace), "--vary", LEARNED_AT, "-q", "--",
                        *steps], capture_output=True, text=True, timeout=900)
    done = subprocess.run([options.gpuplan, str(trace), "--batch", str(run.batch), "--format", "json"], capture_output=True, text=True)
    return json.loads(done.stdout) if done.stdout.startswith("{") else " ".join(done.stderr.split())


def percent_of_peaks(measured: Dict[Tuple[str, str], Dict[str, int]], phases: List[Dict[str, Any]]) -> Dict[str, float]:
    """How far the highest planned figure is from the highest measured one."""
    off = {}
    for name in ("requested", "allocated", "reserved"):
        peak = max(f["peak_" + name] for place, f in measured.items() if place[1] != "start")
        off[name] = 100.0 * (max(p["peak_" + name + "_bytes"] for p in phases) - peak) / peak
    return off


def compared_learned(measured: Dict[Tuple[str, str], Dict[str, int]], plan: Any) -> Tuple[str, Dict[str, float]]:
    worst = percent_of_peaks(measured, [p for p in plan["phases"] if p["step"] in (1, 3) and p["phase"] != "start"])
    return "learned" if any(worst.values()) else "learned equal", worst


def compared(measured: Dict[Tuple[str, str], Dict[str, int]], plan: Any) -> Tuple[str, List[str], Dict[str, float]]:
    found = {(p["step"], p["phase"]): p for p in plan["phases"]}
    wrong: List[str] = []
    for place, figures in measured.items():
        for name, bytes_ in figures.items():
            if place[1] == "start" and name.startswith("peak"):
                continue
            said = found[place][name + "_bytes"] if place in found else None
            if said != bytes_:
                wrong.append(f"{place[0]} {place[1]} {name}: planned {said}, measured {bytes_}")
    announced = bool(plan["warnings"] or {a["id"] for a in plan["assumptions"]} - ALWAYS_ASSUMED)
    result = {(False, False): "equal", (False, True): "equal, announced", (True, False): "silent", (True, True): "announced"}[bool(wrong), announced]
    return result, wrong, percent_of_peaks(measured, plan["phases"])


class Other(NamedTuple):
    """A run at another batch."""

    batch: int
    measured: Dict[Tuple[str, str], Dict[str, int]]


def others(rows: List[Path]) -> Dict[Tuple[str, str], List[Other]]:
    found: Dict[Tuple[str, str], List[Other]] = collections.defaultdict(list)
    for path in rows:
        for run, measured in measured_runs(path).items():
            found[run.model, run.run].append(Other(run.batch, measured))
    return found


def difference(spec: Path, run: Run, verified_by: List[Other], options: argparse.Namespace) -> str:
    """Where the spec's plans are not equal at other batches; empty: nowhere."""
    for other in verified_by:
        plan = planned(spec, run._replace(batch=other.batch), options)
        wrong = [plan] if isinstance(plan, str) else compared(other.measured, plan)[1]
        if wrong:
            return f"batch {other.batch}, {wrong[0]}"
    return ""


def measured_runs(rows: Path) -> Dict[Run, Dict[Tuple[str, str], Dict[str, int]]]:
    runs: Dict[Run, Dict[Tuple[str, str], Dict[str, int]]] = collections.defaultdict(dict)
    with open(rows, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            if row["step"] != "error":
                runs[Run(row["model"], row["run"], int(row["batch"]))][row["step"], row["phase"]] = {name: int(row[name]) for name in FIGURES}
    return runs


def result_of(run: Run, measured: Dict[Tuple[str, str], Dict[str, int]], verified_by: List[Other], options: argparse.Namespace) -> Tuple[str, List[str]]:
    spec = spec_in_type(run, options.specs)
    if not spec.exists():
        why = spec.with_suffix(".error").read_text(encoding="utf-8").splitlines()[0] if spec.with_suffix(".error").exists() else "?"
        return learned_result(run, measured, "refused", re.sub(r"\S*/site-packages/", "", why), options)
    differs = difference(spec, run, verified_by, options)
    if differs:
        return learned_result(run, measured, "differs", differs, options)
    plan = planned(spec, run, options)
    if isinstance(plan, str):
        return "not planned", ["", "", "", "", plan[:300]]
    result, wrong, worst = compared(measured, plan)
    return result, [str(len(wrong)), *(f"{p:+.2f}" for p in worst.values()), wrong[0] if wrong else ""]


def learned_result(run: Run, measured: Dict[Tuple[str, str], Dict[str, int]], result: str, why: str, options: argparse.Namespace) -> Tuple[str, List[str]]:
    """Of a run that is not planned from a spec, for this reason."""
    trace = options.specs / (file_name(run.model) + f".{run.run}.trace")
    plan = "" if options.no_learning else learned(trace, run, options)
    if isinstance(plan, str):
        return result, ["", "", "", "", why + (f"; {plan[:200]}" if plan else "")]
    result, worst = compared_learned(measured, plan)
    return result, ["", *(f"{p:+.2f}" for p in worst.values()), why]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpuplan", required=True)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--specs", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--scratch", default="full", choices=("full", "no-cudnn"))
    parser.add_argument("--pytorch", default="2.11", help="the release that ROWS.tsv was read with")
    parser.add_argument("--flags", default="")
    parser.add_argument("--part", default="0/1", help="K/N: every N-th model from the K-th, where several share the work")
    parser.add_argument("--no-plans", action="store_true")
    parser.add_argument("--no-learning", action="store_true")
    parser.add_argument("--verified-by", type=Path, nargs="+", default=[], help="rows of the same runs at other batches")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    os.environ["GPUPLAN"] = options.gpuplan  # which reads the specs back
    os.environ["GPUPLAN_EXPORT_GPU"] = options.gpu
    runs = measured_runs(options.rows)
    options.specs.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    names = list(dict.fromkeys(run.model for run in runs))
    for kind in {name.partition(":")[0] for name in names}:
        models.names_of(kind)  # imports what each process needs
    part, parts = map(int, options.part.split("/"))
    for name in names[part::parts]:
        export(name, options.specs)
    if options.no_plans:
        return 0
    verified_by = others(options.verified_by)
    counts: Dict[str, int] = collections.Counter()
    with open(options.results, "w", encoding="utf-8") as out:
        out.write("\t".join(COLUMNS) + "\n")
        for run, measured in runs.items():
            result, row = result_of(run, measured, verified_by[run.model, run.run], options)
            counts[result] += 1
            out.write("\t".join([run.model, run.run, str(run.batch), result, *row]) + "\n")
    print(", ".join(f"{n} {what}" for what, n in counts.most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

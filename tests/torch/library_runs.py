"""Steps that a library's own code takes: each line of tests/recorded/libraries/runs.txt planned, and its script run under `gpuplan shadow`.

    python tests/torch/library_runs.py --gpuplan build/gpuplan [--record] [--new] [--one] [WORD...]

WORD: only runs that have it. --one: the first of each script. --record writes both figures of each run into h200.tsv beside runs.txt;
--new: only runs that it lacks. Prints those that differ, and exits with 1 where one does."""
from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys
from typing import Dict, List, Optional, Tuple

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parent / "recorded" / "libraries"
MODELS = HERE.parent / "recorded" / "fine_tuning" / "models"
NAMES = ("requested_bytes", "allocated_bytes", "reserved_bytes")
Figures = Optional[Tuple[int, ...]]


def output(command: List[str]) -> Tuple[str, str]:
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "GPUPLAN_PYTHON": sys.executable})
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return done.stdout, lines[-1] if lines else ""


def planned(gpuplan: str, gpu: str, flags: List[str]) -> Tuple[Figures, str]:
    """And whether it was announced that they may be off."""
    out, said = output([gpuplan, "plan", *flags, "--gpu", gpu, "--format", "json"])
    try:
        plan = json.loads(out)
    except json.JSONDecodeError:
        return None, said
    return tuple(plan["peak"][name] for name in NAMES), "; ".join(plan.get("warnings") or [])


def world_of(flags: List[str]) -> List[str]:
    """Which rank of how many the script is run as."""
    given = dict(zip(flags, flags[1:]))
    return ["--world", given["--gpus"], "--rank", given.get("--rank", "0")] if "--gpus" in given else []


def measured(gpuplan: str, gpu: str, world: List[str], script: List[str]) -> Tuple[Figures, str]:
    out, said = output([gpuplan, "shadow", "--gpu", gpu, *world, "-q", "--", sys.executable, str(HERE / script[0]), *script[1:]])
    for line in out.splitlines():
        if line.startswith("peaks "):
            return tuple(int(word) for word in line.split()[1:]), ""
    return None, said


def gpu_of(flags: str) -> str:
    """One that has the products, and for GPTQ's and AWQ's kernels one whose sources come with the library."""
    if "MXFP8" in flags or "NVFP4" in flags:
        return "b200"
    return "a100-80gb" if ":gptq" in flags or ":awq" in flags else "h200"


def in_models(words: List[str]) -> List[str]:
    return [str(MODELS / word) if word.endswith(".json") else word for word in words]


def table() -> Dict[str, str]:
    file = FOLDER / "h200.tsv"
    lines = file.read_text().splitlines()[2:] if file.exists() else []
    return {line.partition("\t")[0]: line for line in lines}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpuplan", default="build/gpuplan")
    for flag in ("--record", "--new", "--one"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("words", nargs="*")
    given = parser.parse_args()
    gpuplan = os.path.realpath(given.gpuplan)
    runs = [line.split(" | ") for line in (FOLDER / "runs.txt").read_text().splitlines() if not line.startswith("#")]
    rows = table() if given.record else {}
    chosen, scripts = [], set()
    for flags, script in runs:
        if all(word in flags for word in given.words) and not (given.new and flags in rows) and not (given.one and script.split()[0] in scripts):
            chosen.append((flags, script))
            scripts.add(script.split()[0])

    def compare(run: Tuple[str, str]) -> Tuple[str, Figures, Figures, str]:
        flags, script = run
        gpu = gpu_of(flags)
        plan, why = planned(gpuplan, gpu, in_models(shlex.split(flags)))
        real, why_not = measured(gpuplan, gpu, world_of(shlex.split(flags)), in_models(shlex.split(script)))
        return flags, plan, real, "; ".join(filter(None, (why, why_not)))

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        for flags, plan, real, said in pool.map(compare, chosen):
            if plan is None or plan != real:
                failed += 1
                print(f"FAIL  {flags}: planned {plan}, the script {real}; {said[:300]}", flush=True)
            if given.record and plan and real:
                rows[flags] = "\t".join([flags, *map(str, real), *map(str, plan)])
                write(rows, [flags for flags, _ in runs])
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


def write(rows: Dict[str, str], order: List[str]) -> None:
    from importlib.metadata import version

    file = FOLDER / "h200.tsv"
    if file.exists():  # the runs of one file may need several environments
        heading = file.read_text().splitlines()[:2]
        file.write_text("\n".join([*heading, *(rows[f] for f in order if f in rows)]) + "\n")
        return
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "peft", "trl", "torchao", "hqq", "cut_cross_entropy", "transformer_engine"))
    heading = "\t".join(["run", *NAMES, *("planned_" + name for name in NAMES)])
    file.write_text("\n".join([f"# {versions}, gpuplan shadow --gpu h200", heading, *(rows[f] for f in order if f in rows)]) + "\n")


if __name__ == "__main__":
    sys.exit(main())

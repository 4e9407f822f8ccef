#!/usr/bin/env python3
"""Repeats the peaks of memory that Liger-Kernel publishes of its operators, read off real A100s and H100s, without one:

    python tests/recorders/liger_operators.py --repository GIT_DIR --gpuplan build/gpuplan [--record] [--only OPERATOR]

GIT_DIR is a clone of github.com/linkedin/Liger-Kernel. Its benchmark/data/all_benchmark_data.csv has, of each operator and
size, torch.cuda.max_memory_allocated() of ten calls. Every row is traced to the commit that wrote it, and the benchmark of that
commit, with Liger-Kernel and transformers as they were then, runs whole under `gpuplan shadow`, by this Python with today's
PyTorch and Triton; only the timings, which have no result here, are one call each. --record writes
tests/recorded/liger_operators/rows.tsv: the published peak beside that of the simulated GPU, in MiB, or why there is none.
"""

import argparse
import collections
import csv
import io
import json
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile
import traceback

DATA = "benchmark/data/all_benchmark_data.csv"
RECORDED = pathlib.Path(__file__).resolve().parent.parent / "recorded" / "liger_operators" / "rows.tsv"
GPUS = {"NVIDIA A100-SXM4-80GB": "a100-80gb", "NVIDIA H100 80GB HBM3": "h100", "NVIDIA H100 PCIe": "h100-pcie"}
COLUMNS = ["operator", "provider", "mode", "x", "config", "gpu", "commit", "published", "shadow", "why"]
SCRIPTS = {"fused_linear_orpo_loss": "orpo_loss", "fused_linear_cpo_loss": "cpo_loss", "fused_linear_simpo_loss": "simpo_loss",
           "fused_linear_grpo_loss_token": "grpo_loss", "fused_linear_grpo_loss_sequence": "grpo_loss"}
# Which experts are chosen decides what a loop over them runs.
VALUES = {"fused_moe": ["--values", "16777216"]}
# Until when a commit is of the days of a transformers, and what that one needs beside it; later ones run with today's.
TRANSFORMERS = [("2024-09-30", ["transformers==4.44.2", "tokenizers==0.19.1", "huggingface_hub==0.36.0", "requests"]),
                ("2025-01-31", ["transformers==4.46.3", "tokenizers==0.20.3", "huggingface_hub==0.36.0", "requests"]),
                ("2025-04-30", ["transformers==4.49.0", "tokenizers==0.21.4", "huggingface_hub==0.36.0", "requests"]),
                ("2025-12-31", ["transformers==4.52.4", "tokenizers==0.21.4", "huggingface_hub==0.36.0", "requests"])]


def key(row):
    return tuple(row[c] for c in ("kernel_name", "kernel_provider", "kernel_operation_mode", "x_value",
                                  "extra_benchmark_config_str"))


def published(git):
    """Rows of memory on the GPUs above, each with the commit that wrote it, last value first."""
    def rows(commit):
        text = git("show", f"{commit}:{DATA}").decode()
        return [r for r in csv.DictReader(io.StringIO(text)) if r["metric_name"] == "memory" and r["gpu_name"] in GPUS]

    commits = git("log", "--reverse", "--format=%H", "--", DATA).decode().split()
    written = {}
    for commit in commits:
        for row in rows(commit):
            written.setdefault((key(row), row["gpu_name"], row["y_value_50"], row["timestamp"]), commit)
    for row in rows(commits[-1]):
        yield row, written[key(row), row["gpu_name"], row["y_value_50"], row["timestamp"]]


def extract(git, commit, folder):
    """The sources of Liger-Kernel and its benchmarks at a commit."""
    if not folder.exists():
        paths = [p for p in ("src", "benchmark/scripts", "test/chunked_loss", "test/utils.py") if git("ls-tree", commit, p)]
        archive = git("archive", commit, *paths)
        folder.mkdir(parents=True)
        subprocess.run(["tar", "x", "-C", str(folder)], input=archive, check=True)
        for package in [p for p in folder.rglob("*") if p.is_dir()]:
            (package / "__init__.py").touch()  # without one, an installed Liger-Kernel comes before it


def transformers_of(git, commit, cache):
    """The folder of the transformers of a commit's days, installed where it is not there yet; none is today's."""
    day = git("log", "-1", "--format=%cs", commit).decode().strip()
    for until, packages in TRANSFORMERS:
        if day <= until:
            folder = cache / packages[0].replace("==", "-")
            if not folder.exists():
                subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), *packages],
                               check=True)
            return [str(folder)]
    return []


def measure(script, wanted, out, *folders):
    """In a process of its own, under shadow: the benchmark's own main program, whose rows go to a file. Rows that it does not
    have as it was committed are asked of its function."""
    sys.path[:0] = folders
    import triton.testing

    def called_once(call, *_, quantiles=None, **__):
        call()
        return [0.0] * len(quantiles) if quantiles else 0.0

    triton.testing.do_bench = called_once
    import utils
    known = set()
    with open(out, "w") as file:
        def put(row, peak):
            known.add(tuple(row))
            print(json.dumps([row, peak]), file=file, flush=True)

        def write(benchmark_data_list, *_, **__):
            for b in benchmark_data_list:
                for x, peak in zip(b.x_values, b.y_values_50):
                    if b.metric_name == "memory":
                        put([b.kernel_name, b.kernel_provider, b.kernel_operation_mode, str(x), b.extra_benchmark_config_str], peak)

        utils.update_benchmark_data_csv = write
        sys.argv = [script, "--overwrite"]
        try:
            runpy.run_path(script, run_name="__main__")
        except Exception:
            traceback.print_exc()
        functions = {name: f for name, f in runpy.run_path(script).items() if name.startswith("bench_memory")}
        asked = [row for row in json.loads(pathlib.Path(wanted).read_text()) if tuple(row) not in known and functions]
        for measures in (False, True):  # at first as its timings did, which left workspaces of cuBLAS
            for row in asked:
                function = functions.get("bench_memory_" + row[0], next(iter(functions.values())))
                config = {k: type_named(v) for k, v in json.loads(row[4]).items()}
                try:
                    peak = function(utils.SingleBenchmarkRunInput(int(row[3]), row[1], row[2], config)).y_50
                except RuntimeError:
                    traceback.print_exc()
                    continue
                if measures:
                    put(row, peak)


def type_named(value):
    import torch

    return getattr(torch, value[len("torch."):]) if isinstance(value, str) and value.startswith("torch.") else value


def run(git, commit, operator, gpu, rows, given, cache):
    tree, script = cache / commit[:8], f"benchmark_{SCRIPTS.get(operator, operator)}.py"
    extract(git, commit, tree)
    scripts = tree / "benchmark" / "scripts"
    folders = [str(tree / "src"), str(scripts), str(tree), *transformers_of(git, commit, cache)]
    with tempfile.TemporaryDirectory() as folder:
        out, wanted = pathlib.Path(folder) / "rows", pathlib.Path(folder) / "wanted"
        wanted.write_text(json.dumps([key(row) for row in rows]))
        # Until PyTorch 2.15 a thread kept its workspace of cuBLAS.
        environment = {**os.environ, "TORCH_CUBLAS_WORKSPACE_CACHE": "1"}
        command = [given.gpuplan, "shadow", "--gpu", gpu, *VALUES.get(operator, []), "-q", "--", sys.executable, __file__, "--measure",
                   str(scripts / script), str(wanted), str(out), *folders]
        done = subprocess.run(command, capture_output=True, text=True, timeout=given.timeout, env=environment)
        found = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    lines = [line for line in done.stderr.splitlines() if "Error" in line or line.startswith("error:")]
    return {tuple(k): peak for k, peak in found}, (lines or ["the benchmark has no such row any more"])[0].strip()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--measure", nargs="+")
    parser.add_argument("--repository")
    parser.add_argument("--gpuplan")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--cache", default="build-torch/liger")
    parser.add_argument("--timeout", type=int, default=900)
    given = parser.parse_args()
    if given.measure:
        return measure(*given.measure)

    def git(*words):
        return subprocess.run(["git", "--git-dir", given.repository, *words], check=True, capture_output=True).stdout

    groups = collections.defaultdict(list)
    for row, commit in published(git):
        if not given.only or row["kernel_name"] in given.only:
            groups[commit, row["kernel_name"], GPUS[row["gpu_name"]]].append(row)
    lines = []
    for (commit, operator, gpu), rows in groups.items():
        measured, why = run(git, commit, operator, gpu, rows, given, pathlib.Path(given.cache).resolve())
        equal = 0
        for row in rows:
            peak = measured.get(key(row))
            lines.append([row["kernel_name"], row["kernel_provider"], row["kernel_operation_mode"],
                          f"{row['x_name']}={row['x_value']}", row["extra_benchmark_config_str"], gpu, commit[:8],
                          row["y_value_50"], "" if peak is None else f"{peak}", why if peak is None else ""])
            equal += peak is not None and f"{peak:.3f}" == f"{float(row['y_value_50']):.3f}"
        print(f"{operator} {gpu} {commit[:8]}: {equal} of {len(rows)} equal, {len(measured)} rows measured"
              + (f", {why}" if equal < len(rows) and not measured else ""), flush=True)
    if given.record:
        ran = {line[0] for line in lines}
        with open(RECORDED) as file:
            lines += [line for line in list(csv.reader(file, delimiter="\t"))[1:] if line[0] not in ran]
        with open(RECORDED, "w") as file:
            csv.writer(file, delimiter="\t", lineterminator="\n").writerows([COLUMNS, *sorted(lines)])
    return 0


if __name__ == "__main__":
    sys.exit(main())

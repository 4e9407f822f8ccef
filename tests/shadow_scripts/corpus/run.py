#!/usr/bin/env python3
"""Programs of others under `gpuplan shadow`: each line of programs.tsv ends as it should, with the peak that it had.

    run.py --gpuplan BINARY --python PYTHON [--only TEXT] [--again] [--update]

Each program runs in the environment of PYTHON, into which its packages are installed where they are missing; what
cannot be installed is skipped with the reason. A program that has passed with this binary is not run again (`--again`
runs it), so that a run that was cut off goes on where it was. `--update` writes the peaks and seconds of programs that
have none; with `--again`, of all.

A line: name, packages, flags of gpuplan, command ({here} is this folder), peak in bytes of PyTorch's allocator (empty:
not compared, with the reason in the note), seconds, note.
"""

import argparse
import csv
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE / "programs.tsv"
LONGEST = 900  # seconds


def installed(python, packages):
    """The reason why they are not there; empty where they are."""
    if not packages:
        return ""
    names = packages.split()
    check = "import sys, importlib.metadata as m; [m.version(n) for n in sys.argv[1:]]"
    if subprocess.run([python, "-c", check, *names], capture_output=True).returncode == 0:
        return ""
    made = subprocess.run(
        [python, "-m", "pip", "install", "-q", *names], capture_output=True, text=True, timeout=LONGEST
    )
    return "" if made.returncode == 0 else (made.stderr.strip().splitlines() or ["pip failed"])[-1][:120]


def run(options, row, folder):
    """(peak, seconds, what went wrong)."""
    report = folder / (row["name"] + ".json")
    report.unlink(missing_ok=True)
    command = [str(options.gpuplan), "shadow", "-q", "-o", "json:%s" % report, *row["flags"].split(), "--"]
    command += row["command"].format(here=HERE, python=options.python).split()
    environment = {**os.environ, "PATH": os.path.dirname(options.python) + ":" + os.environ["PATH"]}
    environment.update(HF_HUB_OFFLINE="1", WANDB_MODE="disabled", YOLO_OFFLINE="true", TOKENIZERS_PARALLELISM="false")
    started = time.monotonic()
    with open(folder / (row["name"] + ".log"), "w") as log:
        try:
            code = subprocess.run(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=folder, env=environment, timeout=LONGEST
            ).returncode
        except subprocess.TimeoutExpired:
            return None, LONGEST, "did not end in %d s" % LONGEST
    seconds = time.monotonic() - started
    if code != 0 or not report.exists():
        return None, seconds, "exit %d: %s" % (code, last_line(folder / (row["name"] + ".log")))
    return json.loads(report.read_text())["peak"]["allocated_bytes"], seconds, ""


def last_line(path):
    """The error of a traceback, which stands before the report."""
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "error:" in line]
    return (errors or lines or [""])[-1][:150]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpuplan", default=HERE.parents[2] / "build/gpuplan", type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--folder", default=HERE.parents[2] / "build-corpus", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    options.gpuplan = options.gpuplan.resolve()
    options.folder.mkdir(exist_ok=True)
    runtime = options.gpuplan.parent / "shadow"
    files = [options.gpuplan, runtime / "libgpuplan_shadow.so", *sorted((runtime / "python").glob("*.py"))]
    build = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    done_file = options.folder / "passed.txt"
    done = set(done_file.read_text().splitlines()) if done_file.exists() else set()
    with open(TABLE, newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for row in rows:
        if options.only not in row["name"]:
            continue
        mark = "%s %s" % (build, row["name"])
        read_before = options.update and row["seconds"] != ""
        if (mark in done or read_before) and not options.again:
            counts["passed"] += 1
            continue
        reason = installed(options.python, row["packages"])
        if not reason and shutil.which(str(options.gpuplan)) is None:
            reason = "no %s" % options.gpuplan
        if reason:
            counts["skipped"] += 1
            print("skip  %s: %s" % (row["name"], reason), flush=True)
            continue
        peak, seconds, wrong = run(options, row, options.folder)
        if not wrong and not options.update and row["peak"] and int(row["peak"]) != peak:
            wrong = "peak %d, not %s" % (peak, row["peak"])
        counts["failed" if wrong else "passed"] += 1
        verdict = "FAIL" if wrong else "ok  "
        print("%s  %s  %.0f s%s" % (verdict, row["name"], seconds, wrong and ": " + wrong), flush=True)
        if wrong:
            continue
        with open(done_file, "a") as file:
            file.write(mark + "\n")
        if options.update:
            row["peak"], row["seconds"] = "" if row["note"].startswith("varies") else str(peak), "%.0f" % seconds
            write(rows)
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return counts["failed"] > 0


def write(rows):
    draft = TABLE.with_suffix(".draft")
    with open(draft, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), delimiter="\t", quoting=csv.QUOTE_NONE, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    draft.replace(TABLE)


if __name__ == "__main__":
    sys.exit(main())

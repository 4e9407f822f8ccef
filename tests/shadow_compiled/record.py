"""What compiled steps take, case by case, under `gpuplan shadow`.

    python record.py [--gpuplan PROGRAM] [--runs N] [--write] [MODEL.MODE.DTYPE ...]

Runs each case (all where none is named) N times in folders of their own and compares every run, to the byte, with the
others and with compiled.h100.torch2.15.tsv; --write puts the figures there. The interpreter that runs this runs the
steps. The last line is `N passed, N failed`."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE / "compiled.h100.torch2.15.tsv"
MODELS = ("mlp", "gpt", "resnet18", "vit", "mixer", "convnext", "bert", "llama")
MODES = ("eager", "default", "reduce-overhead", "max-autotune")
DTYPES = ("fp32", "bf16")
COLUMNS = ("allocated", "requested", "reserved", "segments", "kernels", "graphs", "graph_bytes")


def run(gpuplan, case, folder):
    """The figures of one run, as a row of the table."""
    report = os.path.join(folder, "report.json")
    command = [gpuplan, "shadow", "-q", "--gpu", "h100", "-o", report, "--", sys.executable, str(HERE / "step.py")]
    done = subprocess.run(command + case.split("."), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise RuntimeError("exit code %d: %s" % (done.returncode, done.stdout.strip()[-2000:]))
    with open(report) as file:
        found = json.load(file)
    peak = found["peak"]
    figures = [peak[name + "_bytes"] for name in COLUMNS[:3]]
    return figures + [found["segments"], found["kernels"], found["compiled"]["graphs"], found["graph_bytes"]]


def read_table():
    if not TABLE.exists():
        return {}
    rows = [line.split("\t") for line in TABLE.read_text().splitlines() if line and not line.startswith("#")]
    return {row[0]: [int(value) for value in row[1:]] for row in rows}


def write_table(table):
    order = {case: number for number, case in enumerate(every_case())}
    with TABLE.open("w") as file:
        file.write("# Three steps of tests/shadow_compiled/step.py on an H100, PyTorch 2.15.0+cu132, Triton 3.9.0: record.py\n")
        file.write("# case\t%s\n" % "\t".join(COLUMNS))
        for case in sorted(table, key=order.__getitem__):
            file.write("%s\t%s\n" % (case, "\t".join(map(str, table[case]))))


def every_case():
    return [".".join((model, mode, dtype)) for model in MODELS for mode in MODES for dtype in DTYPES]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--gpuplan", default="build/gpuplan")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    unknown = set(options.cases) - set(every_case())
    if unknown:
        parser.error("no such case: " + ", ".join(sorted(unknown)))
    passed = failed = 0
    table = read_table()
    for case in options.cases or every_case():
        wanted = None if options.write else table.get(case)
        try:
            for _ in range(options.runs):
                with tempfile.TemporaryDirectory() as folder:
                    figures = run(options.gpuplan, case, folder)
                if wanted is not None and figures != wanted:
                    raise RuntimeError("%s, not %s" % (figures, wanted))
                wanted = figures
            passed += 1
            print("ok    %s  %d bytes" % (case, wanted[0]), flush=True)
            if options.write:
                table[case] = wanted
                write_table(table)
        except RuntimeError as error:
            failed += 1
            print("FAIL  %s: %s" % (case, error), flush=True)
    print("%d passed, %d failed" % (passed, failed))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())

"""Compares cases recorded again (record.py) with the recordings, figure by figure, and traces event by event.

    python compare.py ../shadow/results/h200.torch2.15 FOLDER [KEY ...]

A line for each difference: case run figure recorded now. The last line counts. Exit 1 where anything differs.
"""
import argparse
import gzip
import itertools
import json
import pathlib
import sys

NOT_FIGURES = ("seconds",)

# Runs whose recording is not to be reached, with their differences counted apart.
RECORDED_OTHERWISE = {
    # transformers 4.56 asks torch.all(mask == 1) in every step, to go without the mask. No kernel answers. In the
    # recorded second and third step the answer's byte was 255, left by another tensor: yes; here it is zero, no.
    ("h200.torch2.8.nocudnn", "bert_base", "b32.amp-fp16.adamw"),
    ("a100.torch2.8.nocudnn", "bert_base", "b32.amp-fp16.adamw"),
}


def flat(x, prefix=""):
    """{"first_step.forward.live.requested": 1024, ...}"""
    if not isinstance(x, dict):
        return {prefix: x}
    found = {}
    for k, v in x.items():
        found.update(flat(v, prefix + "." + k if prefix else k))
    return found


class Count:
    cases = runs = figures = events = different = different_runs = known = known_runs = 0


def differ(case, run, figure, recorded, now):
    print(case, run, figure, recorded, now)
    Count.different += 1


def compare_figures(case, run, old, new):
    old, new = flat(old), flat(new)
    for key in [*old, *(k for k in new if k not in old)]:
        if key in NOT_FIGURES:
            continue
        Count.figures += 1
        if old.get(key) != new.get(key):
            differ(case, run, key, old.get(key), new.get(key))


def frees_in_order(lines):
    """The lines with each run of consecutive frees sorted; the marks of phases, which may fall into one, are left out."""
    events = (line for line in lines if not line.startswith("="))
    for frees, some in itertools.groupby(events, lambda line: line.startswith("free")):
        yield from sorted(some) if frees else some


def compare_trace(case, run, old_path, new_path):
    with gzip.open(old_path, "rt") as old, open(new_path) as new:
        # Autocast drops its copies of weights in the order of a hash table of their addresses on the host.
        read = frees_in_order if ".amp-" in run else iter
        for i, (a, b) in enumerate(itertools.zip_longest(read(old), read(new))):
            Count.events += 1
            if a != b:
                differ(case, run, "trace line %d" % (i + 1), repr(a), repr(b))
                return  # one lost event moves all that follow


def compare_case(recorded_file, new_file):
    recorded, now = (json.loads(path.read_text()) for path in (recorded_file, new_file))
    case = recorded["case"]
    Count.cases += 1
    for key in ("torch", "versions"):
        if recorded[key] != now[key]:
            differ(case, "-", key, recorded[key], now[key])
    if not now["runs"]:
        differ(case, "-", "runs", len(recorded["runs"]), 0)
    of_run = {r["recipe"]: r for r in recorded["runs"]}
    for new in now["runs"]:
        before = Count.different
        run = new["recipe"]
        Count.runs += 1
        compare_figures(case, run, of_run[run], new)
        folder = recorded_file.parent
        trace = folder.parent.parent / "traces" / folder.name / ("%s.%s.tsv.gz" % (recorded_file.stem, run))
        if trace.exists() and "error" not in new:
            compare_trace(case, run, trace, new_file.parent / ("%s.%s.tsv" % (recorded_file.stem, run)))
        more = Count.different - before
        if (recorded_file.parent.name, case, run) in RECORDED_OTHERWISE:
            Count.different, Count.known, Count.known_runs = before, Count.known + more, Count.known_runs + (more > 0)
        else:
            Count.different_runs += more > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recorded", type=pathlib.Path)
    parser.add_argument("again", type=pathlib.Path)
    parser.add_argument("keys", nargs="*")
    a = parser.parse_args()
    a.recorded = a.recorded.resolve()
    for key in a.keys or sorted(path.stem for path in a.again.glob("*.json")):
        new = a.again / (key + ".json")
        if new.exists():
            compare_case(a.recorded / (key + ".json"), new)
        else:
            differ(key, "-", "file", a.recorded / (key + ".json"), "missing")
    apart = "; and %d in %d runs that were recorded otherwise" % (Count.known, Count.known_runs) if Count.known else ""
    print("%s: %d cases, %d runs, %d figures and %d allocator events compared; %d differences in %d runs%s" %
          (a.recorded.name, Count.cases, Count.runs, Count.figures, Count.events, Count.different,
           Count.different_runs, apart))
    sys.exit(1 if Count.different else 0)


if __name__ == "__main__":
    main()

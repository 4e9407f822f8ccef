"""Records again what PyTorch allocates in recorded cases, under the CUDA runtime without a GPU of `gpuplan shadow`.

    gpuplan shadow --gpu h200 -- python record.py --out FOLDER ../shadow/results/h200.torch2.15/resnet50.json ...

Each file names a case (cases.py) and lists its runs. Every run is recorded in a process of its own, forked from this
one, which has imported what they need; FOLDER/KEY.json then has the same form, and compare.py tells the two apart.
After a file's name, ":RUN,RUN" asks for those of its runs only.
A run whose allocator events are recorded too (../shadow/traces/SET/KEY.RUN.tsv.gz) leaves FOLDER/KEY.RUN.tsv.
"""
import argparse
import bisect
import json
import pathlib
import sys
import time
import warnings

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import cases  # noqa: E402
from forked import forked  # noqa: E402
import real_values  # noqa: E402
import steps  # noqa: E402

# What a run of a recording says of how it was made; the rest are figures.
RECIPE = ("recipe", "mode", "batch", "opt", "impl", "dtype", "amp", "loop", "micro", "checkpoint", "clip", "labels",
          "channels_last", "attn", "alloc_conf", *steps.LOOPS, "offload_saved")


def trace_rows(events):
    """Allocator events as (action, place, bytes): a place is segment+offset, segments numbered as they come."""
    bases, number, rows = [], {}, []
    for e in events:
        action, address, size = e["action"], e["addr"], e["size"]
        if action in ("snapshot", "oom"):
            continue
        if action in ("segment_alloc", "segment_map") and address not in number:
            bisect.insort(bases, address)
            number[address] = len(number)
        i = bisect.bisect_right(bases, address) - 1
        base = bases[i] if i >= 0 else address
        rows.append((action, "%d+%d" % (number.get(base, -1), address - base), size))
    return rows


def write_trace(path, meter):
    marks = {}
    for phase, n in meter.marks:
        marks.setdefault(n, []).append(phase)
    with open(path, "w") as f:
        f.write("# action\tsegment+offset\tbytes; lines '= phase' mark boundaries of the first and third step\n")
        for i, row in enumerate(trace_rows(torch.cuda.memory._snapshot()["device_traces"][0])):
            f.writelines("= %s\n" % phase for phase in marks.get(i, ()))
            f.write("%s\t%s\t%d\n" % row)


def record(case, recipe, trace_to):
    started = time.time()
    if recipe.get("alloc_conf"):
        torch.cuda.memory._set_allocator_settings(recipe["alloc_conf"])
    if trace_to:
        torch.cuda.memory._record_memory_history(context=None, max_entries=2_000_000)
    meter = steps.Meter(tracing=bool(trace_to))
    model, out = (steps.infer if recipe["mode"] == "infer" else steps.train)(case, recipe, meter)
    parameters = list(model.parameters())
    out["params"] = {"count": sum(p.numel() for p in parameters), "tensors": len(parameters),
                     "bytes": steps.bytes_of(parameters),
                     "trainable": sum(p.numel() for p in parameters if p.requires_grad)}
    out["buffers"] = {"bytes": steps.bytes_of(model.buffers()), "tensors": len(list(model.buffers()))}
    out["cudnn"] = torch.backends.cudnn.version()
    out["seconds"] = round(time.time() - started, 2)
    if trace_to:
        write_trace(trace_to, meter)
    return out


def traced(recorded_file, run):
    """The recorded trace of a run, which is there for some."""
    folder = recorded_file.parent
    return (folder.parent.parent / "traces" / folder.name / ("%s.%s.tsv.gz" % (recorded_file.stem, run))).exists()


def record_again(path, out, only_runs):
    recorded = json.loads(path.read_text())
    case = cases.case_of(recorded)
    if case is None:
        print("%s: not recorded again: how its model is made is not in its file" % recorded["case"], flush=True)
        return
    unheard_of = set(only_runs) - {old["recipe"] for old in recorded["runs"]}
    if unheard_of:
        sys.exit("%s has no %s" % (path, ", ".join(sorted(unheard_of))))
    runs = []
    for old in recorded["runs"]:
        if only_runs and old["recipe"] not in only_runs:
            continue
        recipe = {k: old[k] for k in RECIPE if k in old}
        trace = out / ("%s.%s.tsv" % (path.stem, old["recipe"])) if traced(path, old["recipe"]) else None
        got = forked(record, case, recipe, trace)
        if "allocator" not in old:
            got.pop("allocator", None)  # some recordings leave it out
        for what in ("saved", "flops"):
            if what in old:
                got[what] = forked(getattr(steps, what), case, recipe)
        runs.append({**recipe, **got})
    head = {"case": recorded["case"], "torch": torch.__version__, "versions": case.versions()}
    with open(out / path.name, "w") as f:
        f.write(json.dumps(head)[:-1] + ',\n"runs":[\n' + ",\n".join(json.dumps(r) for r in runs) + "]}\n")
    errors = sum("error" in r for r in runs)
    seconds = sum(r.get("seconds", 0) for r in runs)
    print("%s: %d runs, %d refused by PyTorch, %.0f s" % (recorded["case"], len(runs), errors, seconds), flush=True)


def import_before_forking():
    for module in ("torch._dynamo", "torch.utils.flop_counter", "torchvision", "transformers", "timm"):
        try:
            __import__(module)
        except ImportError:
            pass
    real_values.count_up_positions()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recorded", nargs="+", help="FILE.json[:RUN,...]")
    parser.add_argument("--out", required=True, type=pathlib.Path)
    a = parser.parse_args()
    warnings.filterwarnings("ignore")
    import_before_forking()
    a.out.mkdir(parents=True, exist_ok=True)
    for text in a.recorded:
        path, _, runs = text.partition(":")
        record_again(pathlib.Path(path).resolve(), a.out.resolve(), runs.split(",") if runs else [])


if __name__ == "__main__":
    main()

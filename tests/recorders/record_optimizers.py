#!/usr/bin/env python3
"""Writes what torch.optim and clip_grad_norm_ allocate, event by event, as a TSV on standard output.

    python3 record_optimizers.py > tests/shadow/optimizers.torch2.15.tsv

With a CUDA build of PyTorch >= 2.1 it reads the caching allocator's own trace (a runtime that stands in for a GPU
will do: no value is looked at). With a CPU build, such as Debian's 1.13, it reads the profiler's memory events and
keeps only allocations of a parameter's size: step counters and other scalars live on the CPU in both cases.

Columns: phase (construct, first, steady, clip), optimizer, implementation, options, parameter set, dtypes (given to
the parameters in turn), kernels, events. The steady step is the eighth: RAdam rectifies from the sixth on.
An event is "+BYTES" (an allocation; "+BYTESxN" are N of them; numbered from 0 within the row), "-NUMBER" or
"-LAST..FIRST" (their end). "-" is no event, "~" events not kept, "! MESSAGE" an error.
"""

import ctypes
import itertools
import re
import sys

import torch

CUDA = torch.cuda.is_available()
MODERN = tuple(int(n) for n in torch.__version__.split(".")[:2]) >= (2, 1)
SETS = {
    # A parameter of one element has the size of a step counter, which the profiler could not tell apart.
    "odd": [(1,) if CUDA else (3,), (7,), (1000,), (512, 512), (4096, 1025)],
    "one": [(300, 70000)],
    "many": [(5,)] * 130 + [(70000,)] * 90,
    "thousand": [(70000,)] * 700 + [(9,)] * 300,
}
DTYPES = {"fp32": torch.float32, "fp64": torch.float64, "fp16": torch.float16, "bf16": torch.bfloat16}
SINGLE, PAIRS = ["fp32", "fp64", "fp16", "bf16"], ["fp32,bf16", "fp16,fp32"]
MIXED = ["fp32,bf16,fp16", "bf16,fp64,fp32", "fp64,fp32,bf16,fp16"]
# optimizer -> the option sets that decide what is allocated; AdamW has its weight decay of 0.01 by default
OPTIMIZERS = {
    "sgd": (torch.optim.SGD, [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}]),
    "adam": (torch.optim.Adam, [{}, {"amsgrad": True}]),
    "adamw": (torch.optim.AdamW, [{}, {"amsgrad": True}]),
    "rmsprop": (torch.optim.RMSprop, [{}, {"momentum": 0.9}, {"centered": True}, {"momentum": 0.9, "centered": True}]),
    "adagrad": (torch.optim.Adagrad, [{}]),
    "adadelta": (torch.optim.Adadelta, [{}]),
    "nadam": (torch.optim.NAdam, [{}]),
    "radam": (torch.optim.RAdam, [{}]),
    "adamax": (torch.optim.Adamax, [{}]),
}
IMPLEMENTATIONS = {"foreach": {"foreach": True}, "for_loop": {"foreach": False}, "fused": {"fused": True}}


def launches():
    """Kernels launched so far, where the runtime counts them."""
    count = getattr(ctypes.CDLL(None), "shadow_launches", None)
    return count() if count else None


def cuda_trace(action):
    """[(address, bytes or None for a free)] of action, from the caching allocator."""
    torch.cuda.memory._record_memory_history(None)
    torch.cuda.memory._record_memory_history(context=None, max_entries=1_000_000)
    action()
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(None)
    sizes = {"alloc": lambda e: e["size"], "free_requested": lambda e: None}
    return [(e["addr"], sizes[e["action"]](e)) for e in trace if e["action"] in sizes]


def cpu_trace(action):
    """The same from the profiler."""
    with torch.profiler.profile(profile_memory=True, activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        action()
    found, todo = [], list(profile.profiler.kineto_results.experimental_event_tree())
    while todo:
        event = todo.pop()
        todo += event.children
        if hasattr(event.extra_fields, "alloc_size"):
            size = event.extra_fields.alloc_size
            found.append((event.start_time_ns, event.extra_fields.ptr, size if size > 0 else None))
    return [(address, size) for _, address, size in sorted(found, key=lambda e: e[0])]


def record(action, kept_sizes=None):
    """Runs action and returns (kernels or "", events); with kept_sizes, of allocations of these sizes only."""
    before = launches()
    trace = (cuda_trace if CUDA else cpu_trace)(action)
    kernels = "" if before is None else launches() - before
    number, events, count = {}, [], 0
    for address, size in trace:
        if size is None:
            if address in number:
                events.append(-number.pop(address) - 1)
        elif kept_sizes is None or size in kept_sizes:
            number[address] = count
            count += 1
            events.append(size)
    return kernels, compressed(events)


def compressed(events):
    """Sizes (>= 0) and ends (-1 - number) as text, runs of equals and of descending numbers drawn together."""
    out, i = [], 0
    while i < len(events):
        j = i
        if events[i] >= 0:
            while j + 1 < len(events) and events[j + 1] == events[i]:
                j += 1
            out.append(f"+{events[i]}" if i == j else f"+{events[i]}x{j - i + 1}")
        else:
            while j + 1 < len(events) and events[j + 1] == events[j] + 1:
                j += 1
            out.append(f"-{-events[i] - 1}" if i == j else f"-{-events[i] - 1}..{-events[j] - 1}")
        i = j + 1
    return " ".join(out) or "-"


def parameters(shapes, dtypes):
    dtypes = [DTYPES[d] for d in dtypes.split(",")]
    made = []
    for i, shape in enumerate(shapes):
        p = torch.nn.Parameter(torch.empty(shape, device="cuda" if CUDA else "cpu", dtype=dtypes[i % len(dtypes)]))
        p.grad = torch.zeros_like(p)
        made.append(p)
    return made


def row(phase, name, implementation, options, set_name, dtypes, kernels, events):
    print(phase, name, implementation, ",".join(options) or "-", set_name, dtypes, kernels, events, sep="\t")


def record_optimizer(name, cls, implementation, options, set_name, dtypes, keep_events=True):
    params = parameters(SETS[set_name], dtypes)
    made = []

    def construct():
        made.append(cls(params, **{"lr": 0.001, **options}, **IMPLEMENTATIONS[implementation]))

    sizes = [p.numel() * p.element_size() for p in params]
    # Adamax also joins two tensors and makes 64-bit indices
    kept = None if CUDA else {*sizes, *(2 * s for s in sizes), *(8 * p.numel() for p in params)}
    what = (name, implementation, options, set_name, dtypes)
    try:
        steps = {"construct": record(construct, kept), "first": record(lambda: made[0].step(), kept)}
        for _ in range(6):
            made[0].step()
        steps["steady"] = record(lambda: made[0].step(), kept)
    except (TypeError, RuntimeError, ValueError) as error:
        if dtypes == "fp32":
            row("first", *what, "", "! " + re.sub(r"<.*", "", str(error).splitlines()[0]))
        return
    if steps["construct"][1] == "-":
        del steps["construct"]
    for phase, (kernels, events) in steps.items():
        row(phase, *what, kernels, events if keep_events else "~")


def record_clip(set_name, dtypes):
    params = parameters(SETS[set_name], dtypes)

    def clip():  # a training loop drops the returned norm at once
        torch.nn.utils.clip_grad_norm_(params, 1.0)

    clip()
    row("clip", "-", "-", {}, set_name, dtypes, *record(clip))


def main():
    device = torch.cuda.get_device_name() if CUDA else "CPU"
    print(f"# torch {torch.__version__} on {device}; parameter sets: odd {SETS['odd']}, one {SETS['one']},",
          "many 130 x (5,) then 90 x (70000,), thousand 700 x (70000,) then 300 x (9,)")
    print("phase", "optimizer", "implementation", "options", "parameters", "dtypes", "kernels", "events", sep="\t")
    for name, (cls, option_sets) in OPTIMIZERS.items():
        for implementation, options, decay in itertools.product(IMPLEMENTATIONS, option_sets, (0, 0.02)):
            chosen = {**options, "weight_decay": decay} if decay else options
            # before 2.1 foreach did not sort its lists by dtype, and the CPU had few half precision operators
            for dtypes in SINGLE + PAIRS if MODERN else ["fp32", "fp64"]:
                record_optimizer(name, cls, implementation, chosen, "odd", dtypes)
            if CUDA and implementation != "for_loop":
                for set_name in ("one", "many", "thousand"):
                    record_optimizer(name, cls, implementation, chosen, set_name, "fp32", keep_events=False)
    if CUDA:
        for dtypes in MIXED:
            record_optimizer("adam", torch.optim.Adam, "foreach", {}, "odd", dtypes)
        for set_name, dtypes in itertools.product(SETS, SINGLE + PAIRS + MIXED):
            record_clip(set_name, dtypes)


if __name__ == "__main__":
    sys.exit(main())

"""Losses that layers of the catalog are, and the entries of what a spec has for one."""
from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from gpuplan.entries import Body, Entry, add_return
from gpuplan.errors import ExportError
from gpuplan.lowering import Lowering
from gpuplan.printer import call_scalar
from gpuplan.recorder import Recorder
from gpuplan.values import Call, Value, flat_values, flattened_calls, read_by

LOSSES = {"CrossEntropyLoss": "cross_entropy", "MSELoss": "mse_loss", "L1Loss": "l1_loss", "NLLLoss": "nll_loss",
          "BCEWithLogitsLoss": "binary_cross_entropy_with_logits", "SmoothL1Loss": "smooth_l1_loss",
          "HuberLoss": "huber_loss"}
# Calls that a loss makes of the output and the targets before it reads them.
SHAPING = frozenset("view reshape flatten squeeze to float contiguous long __getitem__ permute transpose".split())
CUTTING = frozenset(["clamp", "clamp_"])  # of targets that a model cuts to the positions that there are


class LossText(NamedTuple):
    """The loss as one layer of the catalog, or as calls of which each becomes an entry."""
    line: str = ""
    main: Optional[Value] = None  # the output that it reads
    shaping: List[Call] = []  # what is done to the output before
    calls: List[Call] = []
    in_forward: bool = False  # its entries are the forward's


def loss_call_operands(call: Call) -> List[Value]:
    return flat_values(call.args) + flat_values(call.kwargs)


def is_of_loss(step: Any) -> bool:
    return step.module is None if isinstance(step, Call) else step.kind in LOSSES


def history_of(values: List[Value], made_by: Dict[Value, Call]) -> List[Call]:
    """The calls that made a value of the labels, the last one first. A conversion to where it is made none."""
    calls: List[Call] = []
    while values and values[0] in made_by and made_by[values[0]] not in calls:
        calls.append(made_by[values[0]])
        values = flat_values((calls[-1].args, calls[-1].kwargs))
    return calls


def add_loss_entries(top: Body, lowering: Lowering, run: Recorder, calls: List[Call]) -> None:
    """Losses of several outputs and what is made of them, after the model's own entries."""
    top.loss_from = len(top.entries)
    made_by = {v: c for c in flattened_calls(run.loss_steps) if c.name in SHAPING | CUTTING for v in c.results if v not in read_by(c)}
    known: Dict[Any, str] = {}  # by targets, the first loss that has them
    for call in calls:
        operands = loss_call_operands(call)
        of_model = call.name != "cross_entropy" and any(v in top.defined for v in operands[1:2])  # whose layer takes its targets
        if call.name not in LOSSES.values() or of_model:
            lowering.add_function(top, call)
            continue
        history = history_of(operands[1:2], made_by)
        made = [v for v in operands[1:2] if v in top.defined]  # in the forward, where others come with the batch
        entry = Entry({v: k for k, v in LOSSES.items()}[call.name], loss_arguments(call) + cut_of_targets(history), operands[:1] + made, call.results)
        entry.event = call.event
        entry.name = top.fresh_name("loss")
        root: Any = flat_values((history[-1].args, history[-1].kwargs))[0] if history else operands[1] if len(operands) > 1 else None
        key = (root, tuple(operands[1].shape)) if root is not None and not made else None
        if key in known:
            entry.tie = known[key]
        elif key is not None:
            known[key] = entry.name
        lowering.connect(top, entry)
    last = top.entries[-1]
    assert run.loss is not None
    if len(top.entries) == top.loss_from or last.outputs[:1] != [run.loss]:
        add_return(top, "Identity", [run.loss], [run.loss])
    keep_locals_of_loss(top, run)


def keep_locals_of_loss(top: Body, run: Recorder) -> None:
    """Numbers that the loss's function named are there until it returns."""
    entries = top.entries[top.loss_from:]
    last_use = {v: e.event for e in entries for v in e.inputs + e.outputs}
    died: Dict[int, int] = {}
    for value in run.every_value:
        died[value.storage] = max(died.get(value.storage, 0), value.died)
    for entry in entries:
        for value in entry.outputs:
            later = [e.event for e in entries if not e.view and last_use[value] < e.event <= died.get(value.storage, 0)]
            entry.keep = entry.keep or (bool(later) and value is not run.loss)


def cut_of_targets(history: List[Call]) -> List[Tuple[str, Any]]:
    """positions.clamp(0, most), of a head for questions."""
    cuts = [c for c in history if c.name == "clamp"]
    return [("clamp", cuts[0].args[2])] if len(cuts) == 1 and len(cuts[0].args) == 3 and cuts[0].args[1] == 0 else []


# What a loss is told; weights of classes and the like are tensors, which no layer takes.
LOSS_OPTIONS = {"reduction": "mean", "label_smoothing": 0.0, "ignore_index": -100, "beta": 1.0, "delta": 1.0}


def loss_arguments(call: Call) -> List[Tuple[str, Any]]:
    if len(loss_call_operands(call)) > 2:
        raise ExportError(f"{call.source}: {call.name} with weights: gpuplan has no layer for it")
    return [(k, v) for k, v in call.kwargs.items() if k in LOSS_OPTIONS and v is not None and v != LOSS_OPTIONS[k]]


def call_of_loss(call: Call) -> str:
    names = {v: k for k, v in LOSSES.items()}
    if call.name in names:
        arguments = [f"{k}={repr(v) if isinstance(v, str) else call_scalar(v)}" for k, v in loss_arguments(call)]
        return f"{names[call.name]}({', '.join(arguments)})"
    if call.name in ("mean", "sum") and len(flat_values((call.args, call.kwargs))) == 1 and len(call.args) == 1:
        return f"{call.name}()"
    return ""

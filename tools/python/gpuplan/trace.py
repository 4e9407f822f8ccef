"""A model as it runs in one mode or in both, lowered to a body."""
from __future__ import annotations

from typing import Any, Callable, List, Mapping, Optional, Sequence, Set, Tuple

import torch
from torch import nn

import gpuplan.functions  # noqa: F401 (registers what writes each call)
from gpuplan.asked_type import AskedType, converted
from gpuplan.both_modes import BothModes, tie_anew
from gpuplan.entries import Body, all_bodies
from gpuplan.errors import ExportError
from gpuplan.lifetimes import hold_what_python_holds, last_seen
from gpuplan.loss_text import loss_text
from gpuplan.lowering import Lowering
from gpuplan.recorded_operators import settle
from gpuplan.recorder import Recorder
from gpuplan.run import no_loss, recorded_run
from gpuplan.values import Frame, Value
from gpuplan.without_data import on_meta

MODES = ("train", "eval")


def unwrap(run: Recorder) -> None:
    """The model's frame becomes the top one."""
    steps = run.top.steps
    roots = [s for s in steps if isinstance(s, Frame) and s.module is run.model]
    if len(roots) == 1:
        at = steps.index(roots[0])
        run.top.steps = steps[:at] + roots[0].steps + steps[at + 1:]
        run.top.module = run.model


class Traced:
    """The model as it runs in one mode."""

    def __init__(self, model: nn.Module, batch: Any, forward: Callable, loss: Optional[Callable], mode: str, asked: AskedType):
        self.bare = converted(on_meta(model), asked.precision)
        for layer, original in zip(self.bare.modules(), model.modules()):
            if isinstance(layer, nn.TransformerEncoderLayer):
                layer.partly_frozen = len({p.requires_grad for p in original.parameters()}) > 1
        if mode == "eval" or not model.training:
            self.bare.train(mode == "train")
        try:
            with torch.set_grad_enabled(mode == "train"):
                self.run = recorded_run(self.bare, batch, forward, loss, asked)
            unwrap(self.run)
            self.loss = loss_text(self.run)
        except ExportError as e:
            raise ExportError(f"in {mode} mode: {e}") from e
        for p, original in zip(self.bare.parameters(), model.parameters()):
            p.requires_grad_(original.requires_grad)

    def lower(self, local_constants: bool = False) -> Body:
        apart: Set[str] = set()
        while True:
            self.lowering = Lowering(self.bare, self.run, local_constants, apart)
            self.top = self.lowering.lower(self.run.top)
            if self.lowering.read_apart <= apart:
                break
            apart |= self.lowering.read_apart
        if not self.top.entries and not self.lowering.unknown:
            raise ExportError("the model runs no operation of torch")
        return self.top


def refuse_unknown(traced: Sequence[Traced]) -> None:
    """What no layer takes and no simulated GPU has run."""
    unknown = dict.fromkeys(u for t in traced for u in t.lowering.unknown)
    if not unknown:
        settled = settle([p for t in traced for p in t.lowering.pending])
        unknown = dict.fromkeys(settled.refused)
        traced[0].run.notes.update(dict.fromkeys(settled.notes))
        for t in traced:
            t.lowering.pending.clear()
    if unknown:
        raise ExportError("gpuplan has no layer for these calls:\n" + "\n".join("  " + u for u in unknown))


def inputs_of_both(train: Recorder, infer: Recorder) -> List[Tuple[Value, Value]]:
    """The same input in train and in eval mode, which may be called without labels."""
    if len(train.batch) == len(infer.batch):
        return list(zip(train.batch, infer.batch))
    named = {name: value for value, name in infer.input_names.items()}
    return [(value, named[name]) for value, name in train.input_names.items() if name in named]


def traced_without_labels(model: nn.Module, batch: Any, forward: Callable, train: Traced, asked: AskedType) -> Optional[Traced]:
    """Eval mode as it is called without what the model's own loss alone reads. None where there is no such loss, where the batch
    has no names, and of a model that needs its labels."""
    labels = {name for value, name in train.run.input_names.items() if value not in train.run.top.inputs}
    if not train.run.loss_event or not labels or not isinstance(batch, Mapping):
        return None
    try:
        return Traced(model, {k: v for k, v in batch.items() if k not in labels}, forward, no_loss, "eval", asked)
    except ExportError:
        return None


def in_both_modes(train: Traced, infer: Traced) -> BothModes:
    """Writes what eval mode runs into the body of train mode."""
    train.lower()
    infer.lower(local_constants=not any(e.op == "Constant" for body in all_bodies(train.top) for e in body.entries))
    refuse_unknown([train, infer])
    for traced in (train, infer):
        hold_what_python_holds(traced.top, traced.run)
    both = BothModes(last_seen(train.run), last_seen(infer.run))
    for t, e in inputs_of_both(train.run, infer.run):
        both.is_in_infer(t, e)
    both.merge(train.top, infer.top)
    if any(e.when == "infer" and e.weights for body in all_bodies(train.top) for e in body.entries):
        tie_anew(train.top)
    for name, path in infer.lowering.used.items():
        train.lowering.used.setdefault(name, path)
    return both

"""Losses that a model's forward computes itself: what of it is the loss's is taken out of the forward, where one layer or several calls
stand for it; else it stays there."""
from __future__ import annotations

from typing import Any, Dict, List, Tuple

from gpuplan.errors import ExportError
from gpuplan.losses import CUTTING, LOSSES, SHAPING, LossText, call_of_loss, cut_of_targets, history_of, is_of_loss, loss_call_operands
from gpuplan.recorder import Recorder
from gpuplan.values import Call, Frame, Value, flat_values, flattened_calls, read_by

# What may be between several losses and their labels.
OF_SEVERAL = SHAPING | CUTTING | frozenset(LOSSES.values()) | frozenset("add __add__ div __truediv__ mul __mul__".split())
# transformers' functions of its losses (loss/loss_utils.py), and the layer of each.
OWN_LOSSES = {"ForCausalLMLoss": "CausalLMLoss", "ForMaskedLMLoss": "HuggingFaceTokenLoss",
              "ForTokenClassification": "HuggingFaceTokenLoss", "ForSequenceClassificationLoss": "HuggingFaceClassificationLoss"}


def split_own_loss(run: Recorder) -> bool:
    """Of a model whose forward computes its loss in several calls, as heads for questions do: moves what is computed of the
    labels, which no module reads, out of the forward. Whether there was such a loss."""
    steps = run.top.steps
    modules_read = {v for s in steps if not is_of_loss(s) for v in read_by(s)}
    of_labels = {v for v in run.batch if not v.dtype.is_floating_point and v not in modules_read}
    moved: List[Any] = []
    for step in steps:
        if is_of_loss(step) and of_labels.intersection(read_by(step)):
            of_labels.update(step.results)
            moved.append(step)
    calls = flattened_calls(moved)
    losses = [c for c in calls if c.name in LOSSES.values()]
    made_by = {v: c for c in calls for v in c.results if v not in read_by(c)}
    histories = [history_of(loss_call_operands(loss)[1:2], made_by) for loss in losses]
    planned = [c for history in histories if cut_of_targets(history) for c in history]
    if run.loss not in of_labels or len(losses) < 2 or any(c.name not in OF_SEVERAL for c in calls):
        return False
    run.loss_event = calls[0].event
    if any(c.name in CUTTING and c not in planned for c in calls):
        run.notes["what the model makes of its labels before the loss, a number or two for each sample."] = None
    steps[:] = [s for s in steps if s not in moved]
    run.loss_steps = moved
    run.top.results = [v for v in run.top.results if v is not run.loss]
    return True


def split_loss_of_itself(run: Recorder) -> bool:
    """Of a model that compares what it computed with itself, as CLIP does: targets are made in its forward. What leads to the loss
    alone is moved out of it. Whether there was such a loss."""
    frames = frames_around(run)
    moved: List[Any] = []
    wanted, others = {run.loss}, {v for v in frames[-1].results if v is not run.loss}
    for step in reversed(frames[-1].steps):
        if not is_of_loss(step) or not step.results or not wanted.issuperset(step.results) or others.intersection(step.results):
            others.update(read_by(step))
            wanted -= others
        else:
            moved.insert(0, step)
            wanted.update(v for v in read_by(step) if v not in others)
    calls = flattened_calls(moved)
    made = {v for call in calls for v in call.results}
    outside = {v for call in calls for v in read_by(call)} - made
    reached = len(frames) == 1 or outside.issubset(run.top.results)  # by the loss, behind the model
    if not reached or run.loss not in made or not any(c.name == "cross_entropy" for c in calls) or any(of_batch(run, c) for c in calls):
        return False
    run.loss_event, run.loss_of_itself = calls[0].event, True
    frames[-1].steps[:] = [s for s in frames[-1].steps if s not in moved]
    run.loss_steps = moved
    for frame in frames:
        frame.results = [v for v in frame.results if v is not run.loss]
    return True


def of_batch(run: Recorder, call: Call) -> bool:
    return any(v in run.batch for v in loss_call_operands(call))


def own_loss_text(run: Recorder) -> LossText:
    """One layer; of a loss for which there is none, what the forward computes."""
    before = [(frame, list(frame.steps), frame.inputs, frame.results) for frame in frames_around(run)]
    try:
        return LossText(*own_loss(run))
    except ExportError:
        for frame, steps, inputs, results in before:
            frame.steps[:], frame.inputs, frame.results = steps, inputs, results
    run.loss_event, run.loss_in_forward = 0, True
    run.top.results = sorted(run.top.results, key=lambda v: v is run.loss)  # the output is something else, where there is another
    return LossText(in_forward=True)


def own_loss(run: Recorder) -> Tuple[str, Value]:
    """The loss that the model's forward computes of labels. Its calls are taken out of the forward; labels that nothing
    else reads are the loss's own, others the first of the inputs, which is where those losses look for them."""
    frames = frames_around(run)
    steps = frames[-1].steps
    at = next((i for i, s in enumerate(steps) if run.loss in s.results), None)
    calls = [] if at is None else flattened_calls([steps[at]])
    if len(calls) != 1:
        raise ExportError("the model computes its loss in more than one call:\n" + "\n".join(f"  {c.source}: {c.name}" for c in calls))
    call = calls[0]
    run.loss_event = call.event
    del steps[at]
    made_by = {v: s for s in steps if isinstance(s, Call) and s.name in SHAPING for v in s.results
               if v not in read_by(s) and v not in frames[-1].results}
    logits, labels = loss_operands(call, made_by)
    steps[:] = [s for s in steps if not (isinstance(s, Call) and s.name == "to" and s.results[0] in read_by(s) and
                                         root_of(s.results[0], made_by) is labels)]  # to where it is
    drop_unused(run, frames[-1])
    rest = {v for s in steps for v in read_by(s)}
    line = line_of_own_loss(call, logits, labels, labels in rest)
    for frame in frames:
        others = [v for v in frame.inputs if v is not labels]
        top = frame is run.top
        frame.inputs = [labels] + others if top and (labels in rest or line.startswith("CausalLM")) else frame.inputs if labels in rest else others
        frame.results = [v for v in frame.results if v is not run.loss]
    return line, logits


def frames_around(run: Recorder) -> List[Frame]:
    """The model, and the modules within in whose forward the loss is computed, as a wrapper's (peft) is."""
    frames = [run.top]
    while True:
        step = next((s for s in frames[-1].steps if run.loss in s.results), None)
        if not isinstance(step, Frame) or is_of_loss(step) or not any(isinstance(s, Frame) for s in step.steps):
            return frames
        frames.append(step)


def root_of(value: Any, made_by: Dict[Value, Call]) -> Any:
    """What it was before it was brought into shape."""
    while isinstance(value, Value) and value in made_by and value.kind == "activation":
        value = flat_values((made_by[value].args, made_by[value].kwargs))[0]
    return value


def loss_operands(call: Call, made_by: Dict[Value, Call]) -> Tuple[Value, Value]:
    """The tensors that the loss is of, as they were before they were brought into its shape."""
    names = (("logits", "pooled_logits", "input"), ("labels", "target"))
    found: List[Value] = []
    for position, wanted in enumerate(names):
        value = next((call.kwargs[n] for n in wanted if n in call.kwargs), None)
        value = call.args[position] if value is None and position < len(call.args) else value
        value = root_of(value, made_by)
        if not isinstance(value, Value):
            raise ExportError(f"{call.source}: the model's own loss, {call.name}, has no tensor argument {wanted[0]}")
        found.append(value)
    return found[0], found[1]


def line_of_own_loss(call: Call, logits: Value, labels: Value, read_elsewhere: bool) -> str:
    name = call.name.rpartition(":")[2]
    known = OWN_LOSSES.get(name)
    if call.kwargs.get("num_items_in_batch") is not None or call.kwargs.get("shift_labels") is not None:
        known = None
    floating = labels.dtype.is_floating_point
    if name == "cross_entropy" and not call_of_loss(call).strip("CrossEntropyLoss()"):
        token = "SequenceToSequenceLoss" if read_elsewhere else "HuggingFaceTokenLoss"
        known = {3: token, 2: "HuggingFaceClassificationLoss"}.get(len(logits.shape))
    if known is None or floating:
        raise ExportError(f"{call.source}: gpuplan has no layer for the model's own loss {name} with {labels.dtype} labels. "
                          "Leave the labels out of the batch and pass loss=.")
    return known + "()"


def drop_unused(run: Recorder, frame: Frame) -> None:
    """Takes out what shaped the loss's operands alone."""
    while True:
        needed = {v for s in frame.steps for v in read_by(s)} | {v for v in frame.results if v is not run.loss}
        kept = [s for s in frame.steps
                if not (isinstance(s, Call) and s.name in SHAPING and s.results and not needed.intersection(s.results))]
        if len(kept) == len(frame.steps):
            return
        frame.steps[:] = kept

"""The loss, as one layer of the catalog or as the calls that compute it."""
from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from gpuplan.entries import Body, Entry, add_return
from gpuplan.errors import ExportError
from gpuplan.lowering import Lowering
from gpuplan.printer import call_scalar
from gpuplan.recorder import Recorder
from gpuplan.values import Call, Frame, Value, flat_values, flattened_calls, read_by

LOSSES = {"CrossEntropyLoss": "cross_entropy", "MSELoss": "mse_loss", "L1Loss": "l1_loss", "NLLLoss": "nll_loss",
          "BCEWithLogitsLoss": "binary_cross_entropy_with_logits", "SmoothL1Loss": "smooth_l1_loss",
          "HuberLoss": "huber_loss"}
# Calls that a loss makes of the output and the targets before it reads them.
SHAPING = frozenset("view reshape flatten squeeze to float contiguous long __getitem__ permute transpose".split())
CUTTING = frozenset(["clamp", "clamp_"])  # of targets that a model cuts to the positions that there are
# What may be between several losses and their labels.
OF_SEVERAL = SHAPING | CUTTING | frozenset(LOSSES.values()) | frozenset("add __add__ div __truediv__ mul __mul__".split())
# transformers' functions of its losses (loss/loss_utils.py), and the layer of each.
OWN_LOSSES = {"ForCausalLMLoss": "CausalLMLoss", "ForMaskedLMLoss": "HuggingFaceTokenLoss",
              "ForTokenClassification": "HuggingFaceTokenLoss", "ForSequenceClassificationLoss": "HuggingFaceClassificationLoss"}


class LossText(NamedTuple):
    """The loss as one layer of the catalog, or as calls of which each becomes an entry."""
    line: str = ""
    main: Optional[Value] = None  # the output that it reads
    shaping: List[Call] = []  # what is done to the output before
    calls: List[Call] = []
    in_forward: bool = False  # its entries are the forward's


def loss_text(run: Recorder) -> LossText:
    if run.loss is None:
        return LossText()
    calls = flattened_calls(run.loss_steps)
    if not any(run.loss in c.results for c in calls):
        if not split_own_loss(run) and not split_loss_of_itself(run):
            return own_loss_text(run)
        calls = flattened_calls(run.loss_steps)
    of_model = set(run.top.results) | {v for c in flattened_calls(run.top.steps) for v in c.results}
    targets = {v for v in run.batch if v not in of_model}
    read: List[Call] = []
    shaped = True  # targets are brought into shape, and nothing else
    for call in calls:
        if any(v in of_model for v in flat_values((call.args, call.kwargs))):
            read.append(call)
            of_model.update(call.results)
        elif call.name not in SHAPING | CUTTING:
            shaped = False
    if not shaped or any(c.name not in LOSSES.values() and targets_of(c, of_model) for c in read):
        return LossText(calls=of_given_targets(run, calls))
    drop_targets(run, calls, targets)
    line = call_of_loss(calls[-1])
    if any(v in of_model for v in loss_call_operands(calls[-1])[1:]):
        line = ""  # both are the model's
    if line and all(c.name in SHAPING for c in read[:-1]) and not any(copies(c) for c in read[:-1]):
        return LossText(line, loss_call_operands(calls[-1])[0], read[:-1])
    return LossText(calls=read)


def targets_of(call: Call, of_model: set) -> List[Value]:
    return [v for v in loss_call_operands(call) if v not in of_model]


def of_given_targets(run: Recorder, calls: List[Call]) -> List[Call]:
    """Of a loss that is no layer, or that computes something of its targets: they are inputs of the model, and the calls its last ones."""
    made = {v for c in [*flattened_calls(run.top.steps), *calls] for v in c.results}
    for call in calls:
        if call.name in LOSSES.values() and not made.issuperset(loss_call_operands(call)):
            raise ExportError(f"{call.source}: {call.name} beside other calls that read the targets inside the loss: compute those beforehand and "
                              "pass their results in the batch")
    return calls


def copies(call: Call) -> bool:
    """Of the output, which goes when the loss is computed, where the output itself stays: output.float().mean()."""
    return call.name in ("to", "float", "contiguous") and call.results[0] not in read_by(call)


def loss_call_operands(call: Call) -> List[Value]:
    return flat_values(call.args) + flat_values(call.kwargs)


def is_of_loss(step: Any) -> bool:
    return step.module is None if isinstance(step, Call) else step.kind in LOSSES


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


def history_of(values: List[Value], made_by: Dict[Value, Call]) -> List[Call]:
    """The calls that made a value of the labels, the last one first. A conversion to where it is made none."""
    calls: List[Call] = []
    while values and values[0] in made_by and made_by[values[0]] not in calls:
        calls.append(made_by[values[0]])
        values = flat_values((calls[-1].args, calls[-1].kwargs))
    return calls


def drop_targets(run: Recorder, calls: List[Call], targets: set) -> None:
    """What of the batch the loss alone reads comes with the loss."""
    read = {v for call in calls for v in loss_call_operands(call)} & targets
    rest = {v for s in run.top.steps for v in read_by(s)}
    run.top.inputs = [v for v in run.top.inputs if v not in read or v in rest]


def add_loss_entries(top: Body, lowering: Lowering, run: Recorder, calls: List[Call]) -> None:
    """Losses of several outputs and what is made of them, after the model's own entries."""
    top.loss_from = len(top.entries)
    made_by = {v: c for c in flattened_calls(run.loss_steps) if c.name in SHAPING | CUTTING for v in c.results if v not in read_by(c)}
    known: Dict[Any, str] = {}  # by targets, the first loss that has them
    for call in calls:
        operands = loss_call_operands(call)
        of_model = call.name not in ("cross_entropy", "nll_loss") and any(v in top.defined for v in operands[1:2])
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

"""How a spec writes the loss of a run: as one layer, or as the calls that compute it."""
from __future__ import annotations

from typing import List

from gpuplan.errors import ExportError
from gpuplan.losses import CUTTING, LOSSES, SHAPING, LossText, call_of_loss, loss_call_operands
from gpuplan.own_losses import own_loss_text, split_loss_of_itself, split_own_loss
from gpuplan.recorder import Recorder
from gpuplan.values import Call, Value, flat_values, flattened_calls, read_by


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


def drop_targets(run: Recorder, calls: List[Call], targets: set) -> None:
    """What of the batch the loss alone reads comes with the loss."""
    read = {v for call in calls for v in loss_call_operands(call)} & targets
    rest = {v for s in run.top.steps for v in read_by(s)}
    run.top.inputs = [v for v in run.top.inputs if v not in read or v in rest]

"""Runs a model without data under the recorder, with two sizes of the batch."""
from __future__ import annotations

import contextlib
import re
from typing import Any, Callable, Dict, Iterator, List, Optional

import torch
from torch import nn

from gpuplan.asked_type import TYPES, AskedType
from gpuplan.batch_sizes import TRACED_BATCHES, merge_runs
from gpuplan.errors import ExportError
from gpuplan.recorder import Recorder
from gpuplan.source_lines import failing_line, failing_module, first_line
from gpuplan.torch_followed import followed
from gpuplan.transformers_followed import transformers_recorded
from gpuplan.values import FOREVER, Call, Frame, Value, flat_tensors, flattened_calls, read_by, unique
from gpuplan.without_data import batch_on_meta, rows_apart, rows_in_line


def run_recorded(model: nn.Module, batch: Any, forward: Callable, loss: Optional[Callable], asked: AskedType, one_by_one: bool) -> Recorder:
    recorder = Recorder(model, asked, {t.shape[0] for t in flat_tensors(batch) if t.dim()} if one_by_one else frozenset())
    apart = rows_apart(batch)
    recorder.top.inputs = unique([recorder.value_of(t) for t in flat_tensors(apart)])
    recorder.batch = list(recorder.top.inputs)
    for value in recorder.batch:
        value.kind = "input"
    recorder.input_names = input_names(apart, recorder)
    original = nn.Module.__call__

    def recorded(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return recorder.call_module(original, module, args, kwargs)

    nn.Module.__call__ = recorded  # type: ignore[assignment]
    try:
        with recorder, followed(recorder), transformers_recorded(recorder):
            batch = rows_in_line(apart, batch)
            out = forward(model, batch)
            recorder.event += 1
            recorder.top.end = recorder.event
            for call, cache in recorder.caches:
                call.kwargs["returned"] = cache() is not None
            recorder.top.results = unique([recorder.value_of(t) for t in flat_tensors(out)])
            steps = len(recorder.top.steps)
            found = loss_of(out) if loss is None else None if loss is no_loss else loss(model, out, batch)
            in_evaluation = found is None and not model.training  # where a model may compute none
            if loss not in (None, no_loss) and not isinstance(found, torch.Tensor) and not in_evaluation:
                raise ExportError(f"{'the step' if loss is returned_loss else 'loss='} returned {type(found).__name__}, expected a tensor")
            recorder.loss = None if found is None else recorder.value_of(found)
            if loss is returned_loss:
                steps = first_step_of_loss(recorder.top)
            recorder.loss_steps = recorder.top.steps[steps:]
            del recorder.top.steps[steps:]
            if loss is returned_loss:
                recorder.top.results = results_for_loss(recorder)
    finally:
        nn.Module.__call__ = original  # type: ignore[assignment]
    return recorder


@contextlib.contextmanager
def buffers_put_back(model: nn.Module) -> Iterator[None]:
    """A model that assigns `self.table = self.table.to(x.dtype)` has its buffer again, which on a GPU is the same tensor. One of another
    shape or type, which later calls find, stays."""
    held = [(m, name, t) for m in model.modules() for name, t in m._buffers.items() if t is not None]
    try:
        yield
    finally:
        for module, name, tensor in held:
            now = module._buffers.get(name)
            if now is not None and now is not tensor and (now.shape, now.dtype) == (tensor.shape, tensor.dtype):
                module._buffers[name] = tensor


def run_checked(model: nn.Module, batch: Any, forward: Callable, loss: Optional[Callable], asked: AskedType, one_by_one: bool) -> Recorder:
    try:
        with buffers_put_back(model):
            return run_recorded(model, batch, forward, loss, asked, one_by_one)
    except ExportError:
        raise
    except Exception as e:  # whatever the model's code raises
        at, what = failing_line(e), first_line(e)
        if "not on the expected device meta" in what or "Expected all tensors to be on the same device" in what:
            raise ExportError(f"{at}: a tensor that is neither a parameter nor a buffer of the model stays on the host: register it "
                              f"as a buffer, or create it on the model's device. {what}") from e
        if isinstance(e, (NotImplementedError, RuntimeError)) and "meta" in str(e).lower():
            raise ExportError(f"{at}: the model's control flow depends on tensor values, which meta tensors do not have: {what} "
                              "(gpuplan shadow --learn can record any script)") from e
        raise ExportError(f"{at}: {failing_module(model, e)} does not run on this batch: {type(e).__name__}: {what}") from e


def no_loss(*_: Any) -> None:
    """Of the run in eval mode, where a loss is given."""


def returned_loss(_: nn.Module, out: Any, __: Any) -> Any:
    """Of a forward that returns its loss or {"loss": loss, ...}: the step of a trainer."""
    return out["loss"] if isinstance(out, dict) else out


def first_step_of_loss(top: Frame) -> int:
    """Behind the last module with weights: what a step makes of its output."""
    weighted = [i for i, s in enumerate(top.steps) if isinstance(s, Frame) and s.module is not None and list(s.module.parameters())]
    return weighted[-1] + 1 if weighted else 0


def results_for_loss(recorder: Recorder) -> List[Value]:
    """The outputs of the model that the loss reads."""
    made = {v for call in flattened_calls(recorder.top.steps) for v in call.results}
    return unique([v for step in recorder.loss_steps for v in read_by(step) if v in made])


def loss_of(out: Any) -> Optional[torch.Tensor]:
    """The loss that a model computed itself: transformers' outputs name it."""
    found = out.get("loss") if isinstance(out, dict) else getattr(out, "loss", None)
    return found if isinstance(found, torch.Tensor) and found.dim() == 0 else None


def input_names(batch: Any, run: Recorder) -> Dict[Value, str]:
    """What the batch calls its tensors; nothing where it has no names."""
    names: Dict[Value, str] = {}
    if hasattr(batch, "keys"):
        for key in batch.keys():
            held = [run.values.get(id(t)) for t in flat_tensors(batch[key])]
            for value in held:
                if value is not None:
                    names.setdefault(value, re.sub(r"\W", "_", str(key)) if len(held) == 1 else f"input{len(names)}")
    return names


def what_stays(run: Recorder) -> Dict[Value, str]:
    """Tensors that a call of the forward made and that something, an attribute for one, still names after the step, and
    the line of the call."""
    made = {v: call.source for call in flattened_calls(run.top.steps) for v in call.results}
    kept = {*run.top.results, *run.batch, run.loss}
    return {v: made[v] for v in made if v.died == FOREVER and v.kind == "activation" and v not in kept and not v.host}


def mark_what_stays(first: Recorder, second: Recorder) -> None:
    """The attributes of the first run are the second one's by now. Planned are tensors that a call allocates, of no
    checkpoint; of the others the header tells."""
    stay = what_stays(second)
    planned = {v for call in uncheckpointed(first.top) if call.name != "cache_update" for v in call.results}
    owner: Dict[int, Value] = {}
    for value in first.every_value:
        owner.setdefault(value.storage, value)
    pairs = [(a, b) for a, b in zip(first.every_value, second.every_value) if b in stay]
    for a, _ in pairs:
        a.stays = a in planned and owner[a.storage] is a
    for a, b in pairs:
        if not owner[a.storage].stays:
            first.notes[f"{stay[b]}: its result stays alive after the step, in an attribute."] = None


def uncheckpointed(frame: Frame) -> List[Call]:
    """The calls of a frame that no checkpoint runs."""
    return [c for step in frame.steps for c in ([step] if isinstance(step, Call) else [] if step.checkpoint else uncheckpointed(step))]


def recorded_run(model: nn.Module, batch: Any, forward: Callable, loss: Optional[Callable], asked: AskedType) -> Recorder:
    """A run with what depends on the batch. A model that keeps something of its first run, such as a table of positions,
    is run again; one that takes the batch apart, once more, with its samples as one."""
    floating = TYPES[asked.precision] if asked.precision != "fp32" else None
    refused: Optional[ExportError] = None
    for apart in (False, False, True):
        try:
            runs = [run_checked(model, batch_on_meta(batch, size, floating), forward, loss, asked, apart) for size in TRACED_BATCHES]
        except ExportError as e:
            raise refused or e
        try:
            merge_runs(*runs)
            break
        except ExportError as e:
            refused = refused or e
    else:
        assert refused is not None
        raise refused
    mark_what_stays(*runs)
    return runs[0]

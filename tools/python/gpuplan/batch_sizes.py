"""Two runs with batches of other sizes: what differs between them is what depends on the batch."""
from __future__ import annotations

from typing import Any, List

import torch

from gpuplan.errors import ExportError
from gpuplan.recorder import Recorder
from gpuplan.values import Batch, Call, Frame, Value

TRACED_BATCHES = (2, 3)  # sizes that the model runs with; nothing of them is written


def combine(a: Any, b: Any, where: str, problems: List[str]) -> Any:
    """A value of the first run with Batch where the second one's differs."""
    if isinstance(a, Value) or a is None or isinstance(a, (str, torch.dtype, torch.device)):
        return a
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)) and len(a) == len(b):
        return type(a)(combine(x, y, where, problems) for x, y in zip(a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return {k: combine(v, b.get(k), where, problems) for k, v in a.items()}
    if isinstance(a, (int, float)) and isinstance(b, (int, float)) and a != b:
        times, other = a / TRACED_BATCHES[0], b / TRACED_BATCHES[1]
        if times == other and times == int(times):
            return Batch(int(times))
        problems.append(f"{where}: {a} at a batch of {TRACED_BATCHES[0]}, {b} at {TRACED_BATCHES[1]}: neither a "
                        "constant nor a multiple of the batch")
    return a


def merge_runs(first: Recorder, second: Recorder) -> None:
    """Writes into the first run what depends on the batch."""
    problems: List[str] = []
    merge_frames(first.top, second.top, problems)
    if len(first.every_value) == len(second.every_value):
        for a, b in zip(first.every_value, second.every_value):
            a.shape = combine(a.shape, b.shape, "a tensor", problems)
    elif not problems:
        problems.append("the model creates different tensors with a second batch size")
    if problems:
        raise ExportError("\n".join(dict.fromkeys(problems)))


def first_difference(a: Frame, b: Frame) -> str:
    """The line of the first call that one of the frames alone runs."""
    pairs = list(zip(a.steps, b.steps)) + [(s, None) for s in (a.steps + b.steps)[min(len(a.steps), len(b.steps)):]]
    step = next((x for x, y in pairs if getattr(x, "name", "") != getattr(y, "name", None)), None)
    return step.source if isinstance(step, Call) else a.path or "the model"


def merge_frames(a: Frame, b: Frame, problems: List[str]) -> None:
    if [getattr(s, "name", "") for s in a.steps] != [getattr(s, "name", "") for s in b.steps]:
        problems.append(f"{first_difference(a, b)}: the model runs different operations with a second batch size: its forward "
                        "depends on state, on randomness or on the batch size")
        return
    for x, y in zip(a.steps, b.steps):
        if isinstance(x, Frame):
            merge_frames(x, y, problems)
        else:
            x.args = combine(x.args, y.args, x.source, problems)
            x.kwargs = combine(x.kwargs, y.kwargs, x.source, problems)

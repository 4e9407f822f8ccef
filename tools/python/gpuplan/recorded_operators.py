"""Calls that no layer takes: they become Aten layers, as a simulated GPU ran them by themselves."""
from __future__ import annotations

import dataclasses
import json
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from gpuplan.entries import Entry
from gpuplan.errors import GpuplanError, Unsupported
from gpuplan.recorded_request import Operand, Request, path_of
from gpuplan.recorded_words import BATCHES, answer_read, arguments
from gpuplan.simulated import last_line, run_simulated, simulated_gpu
from gpuplan.stored import Stored
from gpuplan.values import Batch, Call, Value, dtype_name, flat_values, unique

LARGE = 1 << 20  # bytes of scratch that a plan's reader is told of


class Pending(NamedTuple):
    """An entry that waits for its recording."""

    entry: Entry
    request: Request
    call: Call
    why: str  # no layer takes it


def called_name(call: Call) -> str:
    """`kthvalue`, or the class of an autograd.Function."""
    return call.name.rpartition(" ")[2].strip("_")


def changes_its_operand(call: Call) -> bool:
    named = call.name.endswith("_") and not call.name.endswith("__") or call.name in ("__setitem__", "__iadd__", "__imul__", "__ifloordiv__")
    return named or bool(call.kwargs.get("inplace")) or set(call.results) == set(flat_values(call.args)[:1]) and True in call.args


def is_written_over(result: Value, call: Call, operands: Sequence[Value]) -> bool:
    """Of an autograd.Function that does not tell autograd so: all of an operand, which its kernel has changed."""
    return call.name.startswith("autograd.Function") and any(
        (v.storage, v.shape, v.dtype, v.order) == (result.storage, result.shape, result.dtype, result.order) for v in operands)


def request_of(call: Call, wants_gradient: Sequence[Value], changed: Optional[Value]) -> Request:
    """changed: what it changes in place. Raises Unsupported."""
    operands = unique(flat_values((call.args, call.kwargs)))
    stored = call.function if isinstance(call.function, Stored) else None
    path = path_of(call.function) if call.function is not None and stored is None else ""
    if not path and stored is None or torch.version.cuda is None or not operands:
        raise Unsupported
    results = {v.storage for v in call.results if v is not changed and not is_written_over(v, call, operands)}
    if changed is None and not call.results or changed not in (None, operands[0]) or results & {v.storage for v in operands}:
        raise Unsupported
    place = {v: i for i, v in enumerate(operands)}

    def plain(value: Any) -> Any:
        if isinstance(value, Value):
            return {"tensor": place[value]}
        if isinstance(value, Batch):
            return {"batch": value.times}
        if isinstance(value, torch.dtype):
            return {"dtype": dtype_name(value)}
        if isinstance(value, slice):
            return {"slice": [plain(value.start), plain(value.stop), plain(value.step)]}
        if value is Ellipsis:
            return {"ellipsis": 0}
        if isinstance(value, dict):
            return {"dict": {k: plain(v) for k, v in value.items()}}
        if isinstance(value, (tuple, list)):
            return [plain(v) for v in value]
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        raise Unsupported

    held = [Operand(tuple((n.times,) if isinstance(n, Batch) else n for n in v.shape), dtype_name(v.dtype), v in wants_gradient, v.weight is not None, v.order,
                    v.kind == "held") for v in operands]
    return Request(path, json.dumps([plain(call.args), plain(call.kwargs)]), tuple(held), stored.text if stored else "")


def recorded(requests: Sequence[Request]) -> List[Any]:
    """Of each, the layer's arguments or why there are none."""
    # What is not asked for without cuDNN's workspaces is one.
    with ThreadPoolExecutor(2) as pool:
        full, without = pool.map(lambda scratch: answers_with(requests, scratch), ("full", "no-cudnn"))
    return [read_arguments(*both) for both in zip(full, without)]


def read_arguments(full: Dict[str, Any], without: Dict[str, Any]) -> Any:
    why = full.get("why") or without.get("why")
    try:
        return why or arguments(answer_read(full["answer"]), answer_read(without["answer"]))
    except Unsupported as e:
        return str(e)


def answers_with(requests: Sequence[Request], scratch: str) -> List[Dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        asked = os.path.join(folder, "requests")
        with open(asked, "w", encoding="utf-8") as file:
            json.dump([sys.path, [dataclasses.asdict(r) for r in requests]], file)
        ended = run_simulated("gpuplan.recorded_call", asked, folder, scratch=scratch)
        return [read(os.path.join(folder, str(n)), ended.output) for n in range(len(requests))]


def read(path: str, output: str) -> Dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            answer: Dict[str, Any] = json.load(file)
            return answer
    except (OSError, ValueError):
        return {"why": f"PyTorch ended while it ran: {last_line(output)}"}


def note_of(call: Call, found: Sequence[Tuple[str, str]]) -> str:
    """Of scratch that a plan takes from a line, where it is large; empty where there is none."""
    tables = [word for _, text in found for word in text.split() if ":" in word]
    largest = max((int(part.split(":")[1]) for word in tables for part in word.split("+")[1].split(",")), default=0)
    return "" if largest < LARGE else (f"the scratch of {called_name(call)} at batches other than {', '.join(map(str, BATCHES))}, which plans take from "
                                       "the line between two of them.")


class Settled(NamedTuple):
    refused: List[str]  # calls of which there is no recording, and why
    notes: List[str]  # for the spec


def settle(pending: Sequence[Pending]) -> Settled:
    """Writes what was recorded into the entries."""
    requests = list(dict.fromkeys(p.request for p in pending))
    if not requests:
        return Settled([], [])
    if sys.stderr.isatty():
        print(f"recording {len(requests)} calls without a layer on a simulated {simulated_gpu()} ...", file=sys.stderr)
    try:
        answers = dict(zip(requests, recorded(requests)))
    except GpuplanError as e:
        answers = {request: e.message for request in requests}
    refused, notes = [], []
    for entry, request, call, why in pending:
        found = answers[request]
        if isinstance(found, str):
            refused.append(f"{call.source}: {call.name} ({why}, and it cannot be recorded: {found})")
        else:
            entry.arguments = [("", called_name(call)), *found]
            entry.grad = entry.grad and any(name.endswith("backward") for name, _ in found)  # torchao's int8 products hand no gradient on
            notes.append(note_of(call, found))
    return Settled(refused, list(filter(None, notes)))

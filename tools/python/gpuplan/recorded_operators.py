"""Calls that no layer takes: they become Aten layers, as a simulated GPU ran them by themselves."""
from __future__ import annotations

import dataclasses
import json
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import torch

from gpuplan.entries import Entry
from gpuplan.errors import GpuplanError, Unsupported
from gpuplan.program import HERE
from gpuplan.recorded_request import Operand, Request, path_of
from gpuplan.recorded_words import answer_read, arguments
from gpuplan.shadowed import run_command
from gpuplan.simulated import simulated_gpu
from gpuplan.values import Batch, Call, Value, dtype_name, flat_values, unique


class Pending(NamedTuple):
    """An entry that waits for its recording."""

    entry: Entry
    request: Request
    call: Call
    why: str  # no layer takes it


def called_name(call: Call) -> str:
    """`kthvalue`, or the class of an autograd.Function."""
    return call.name.rpartition(" ")[2].strip("_")


def request_of(call: Call, wants_gradient: Sequence[Value], changed: Optional[Value]) -> Request:
    """changed: what it changes in place. Raises Unsupported."""
    operands = unique(flat_values((call.args, call.kwargs)))
    path = path_of(call.function) if call.function is not None else ""
    if not path or torch.version.cuda is None or not operands:
        raise Unsupported
    results = {v.storage for v in call.results if v is not changed}
    if changed is None and not results or changed not in (None, operands[0]) or results & {v.storage for v in operands}:
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

    held = [Operand(tuple((n.times,) if isinstance(n, Batch) else n for n in v.shape), dtype_name(v.dtype), v in wants_gradient, v.weight is not None, v.order) for v in operands]
    return Request(path, json.dumps([plain(call.args), plain(call.kwargs)]), tuple(held))


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
        path = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
        ended = run_command(["env", f"PYTHONPATH={path}", sys.executable, "-m", "gpuplan.recorded_call", asked, folder], gpu=simulated_gpu(), scratch=scratch, quiet=True)
        return [read(os.path.join(folder, str(n)), ended.output) for n in range(len(requests))]


def read(path: str, output: str) -> Dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            answer: Dict[str, Any] = json.load(file)
            return answer
    except (OSError, ValueError):
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        return {"why": "PyTorch ended while it ran" + (f": {lines[-1]}" if lines else "")}


def settle(pending: Sequence[Pending]) -> List[str]:
    """Writes what was recorded into the entries. Returns the calls of which there is no recording, and why."""
    requests = list(dict.fromkeys(p.request for p in pending))
    if not requests:
        return []
    if sys.stderr.isatty():
        print(f"recording {len(requests)} calls without a layer on a simulated {simulated_gpu()} ...", file=sys.stderr)
    try:
        answers = dict(zip(requests, recorded(requests)))
    except GpuplanError as e:
        answers = {request: e.message for request in requests}
    refused = []
    for entry, request, call, why in pending:
        found = answers[request]
        if isinstance(found, str):
            refused.append(f"{call.source}: {call.name} ({why}, and it cannot be recorded: {found})")
        else:
            entry.arguments = [("", called_name(call)), *found]
    return refused

"""What Python holds longer than the blocks of the spec imply."""
from __future__ import annotations

from typing import Dict, List, Optional, Set, Tuple

from gpuplan.entries import FILLED, Body, Entry, add_return, all_bodies
from gpuplan.recorder import Recorder
from gpuplan.values import Value


def last_seen(run: Recorder) -> Dict[int, int]:
    """Of every storage, the last event of the forward that saw it alive."""
    died: Dict[int, int] = {}
    for value in run.every_value:
        died[value.storage] = max(died.get(value.storage, 0), min(value.died, run.top.end))
    return died


def hold_what_python_holds(top: Body, run: Recorder) -> None:
    """Writes keep: and Rebind() where Python let go of a tensor later than its last use in the spec.

    An entry's result lives until the last kernel that reads it, and what a block was given until the block returns. A
    tensor that was alive while a later kernel allocated was a local variable: until its function returned (keep:), or
    until its name was given to something else (Rebind)."""
    last_use: Dict[int, int] = {}
    allocating: List[int] = []
    for body in all_bodies(top):
        for entry in body.entries:
            if not entry.view:
                read = [] if entry.op in FILLED else entry.inputs[:1] if entry.op == "TypeAs" else entry.inputs
                for value in read + entry.outputs:
                    if entry.body is None or value in entry.inputs:
                        last_use[value.storage] = max(last_use.get(value.storage, 0), entry.event)
            if entry.body is None and not entry.view and not (entry.op in ("ReLU", "Add", "Sub") and ("inplace", True) in entry.arguments):
                allocating.append(entry.event)
    if run.loss_event:
        allocating.append(run.loss_event)
    died = last_seen(run)
    permanent = {v.storage for v in run.every_value if v.kind != "activation"} | {v.storage for v in run.top.results}
    permanent |= {v.storage for body in all_bodies(top) for e in body.entries if e.op in ("KVCache", "Attribute") for v in e.outputs}
    for storage, used in last_use.items():
        if storage in permanent or storage not in died:
            continue
        later = [e for e in allocating if used < e <= died[storage]]
        if later and max(later) == run.loss_event:
            carry_out(top, storage)
            for entry in top.entries:
                entry.keep = entry.keep or any(v.storage == storage for v in entry.outputs)
        elif later:
            hold(top, storage, max(later))
    hold_arguments(top, run, permanent)
    hold_images(top, run, allocating, permanent)


def carry_out(body: Body, storage: int) -> Optional[Value]:
    """A loss that a frame within computes comes after all frames in the spec: what it has then, the frames around it hand on. Returns it."""
    for entry in body.entries:
        for value in entry.outputs:
            if value.storage == storage:
                return value
    for entry in body.entries:
        within = carry_out(entry.body, storage) if entry.body is not None else None
        if entry.body is not None and within is not None:
            given = [*entry.outputs, within]
            add_return(entry.body, "Return", given, given)
            entry.outputs.append(within)
            body.defined.setdefault(within, []).append((entry, len(given) - 1))
            return within
    return None


def hold_arguments(top: Body, run: Recorder, permanent: Set[int]) -> None:
    """A call that became several entries, as an einsum does, has its arguments until the last of them returns, under autocast their casts."""
    given = set(run.every_value)  # without what is between the entries of a call
    last_of_call: Dict[int, Entry] = {}
    last_read: Dict[int, int] = {}
    for body in all_bodies(top):
        for entry in body.entries:
            if entry.body is None and not entry.view:
                last_of_call[entry.event] = entry
            for value in entry.inputs:
                last_read[value.storage] = max(last_read.get(value.storage, 0), entry.event)
    for body in all_bodies(top):
        for entry in body.entries:
            last = last_of_call.get(entry.event)
            if last is None or last is entry or last not in body.entries:
                continue
            if entry.op == "AutocastType":  # the cast is the argument
                body.holds.setdefault(end_of_call(body, entry.event), []).append(entry.outputs[0])
            for value in entry.inputs:
                if value in given and value.storage not in permanent and last_read[value.storage] == entry.event and value not in last.inputs:
                    hold(top, value.storage, entry.event)


def hold_images(top: Body, run: Recorder, allocating: List[int], permanent: Set[int]) -> None:
    """x.flatten(1) is a view here, and of channels-last images a copy, beside which x lives on where it is a local variable."""
    last_read: Dict[Value, int] = {}
    for body in all_bodies(top):
        for entry in body.entries:
            for value in entry.inputs:
                last_read[value] = max(last_read.get(value, 0), entry.event)
    for body in all_bodies(top):
        for entry in body.entries:
            if entry.op not in ("Flatten", "Reshape") or entry.inputs[0].storage in permanent:
                continue
            x = entry.inputs[0]
            later = [e for e in allocating if last_read[x] < e <= min(x.died, run.top.end) and e != run.loss_event]
            if len(x.shape) == 4 and x.storage == entry.outputs[0].storage and later:
                hold(top, x.storage, max(later))


def end_of_call(body: Body, event: int) -> int:
    """The last of the entries that the call became, be it a view."""
    return max(i for i, e in enumerate(body.entries) if e.event == event)


def hold(top: Body, storage: int, event: int) -> None:
    """Keeps a storage alive until after the call at `event`."""
    place: Optional[Tuple[Body, int, Entry]] = None
    body: Optional[Body] = top
    while body is not None:
        at = next((i for i, e in enumerate(body.entries) if e.event >= event and (e.body is not None or e.event == event)), None)
        if at is None:
            break
        if body.entries[at].body is None:  # the last of the entries that the call became, between which weights may stand
            at = end_of_call(body, body.entries[at].event)
        holder = next((e for e in body.entries[:at + 1] if any(v.storage == storage for v in e.outputs)), None)
        if holder is not None:
            place = (body, at, holder)
        body = body.entries[at].body
    if place is None:
        return
    body, at, holder = place
    value = next(v for v in holder.outputs if v.storage == storage)
    if holder is body.entries[at]:
        return
    to_the_end = all(e.view and e.body is None for e in body.entries[at + 1:])
    if to_the_end and (len(holder.outputs) == 1 or len(body.entries[at].outputs) > 1):  # keep: holds all of its results
        holder.keep = True
    else:
        body.holds.setdefault(at, []).append(value)

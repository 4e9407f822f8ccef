"""What PyTorch's allocator was asked for, as the actions of a recording."""
from __future__ import annotations

from typing import AbstractSet, Dict, List, Sequence, Set, Tuple

import torch

from gpuplan.complex_numbers import PART, in_pairs
from gpuplan.errors import Unsupported
from gpuplan.recorded_request import HALF, Setting
from gpuplan.recorded_words import Action
from gpuplan.values import dtype_name

Event = Tuple[str, int, int]  # what was done, at which address, to how many bytes


class Allocator:
    """What was asked of it since it was last asked."""

    def __init__(self) -> None:
        torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=100000)
        self.seen = 0

    def events(self) -> List[Event]:
        trace = torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
        new, self.seen = trace[self.seen:], len(trace)
        return [(e["action"], e["addr"], e["size"]) for e in new if e["action"] in ("alloc", "free_requested")]


def address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def actions_of(events: Sequence[Event], results: Dict[int, Tuple[str, torch.Tensor]], kept: str, setting: Setting,
               held: AbstractSet[int] = frozenset()) -> List[Action]:
    """Of allocations and frees. results: by address; kept: the word for what stays and is none of them, empty where nothing may; held:
    what of this stays beyond the backward."""
    stays = alive_after(events)
    last = {at: i for i, (action, at, _) in enumerate(events) if action == "alloc"}
    actions: List[Action] = []
    numbered: Dict[int, int] = {}
    allocations = 0
    for i, (action, at, asked) in enumerate(events):
        if action == "free_requested":
            if at in numbered:
                actions.append(Action(f"-{numbered.pop(at)}"))
        elif at in stays and last[at] == i:
            if at in results:
                word, tensor = results[at]
                if word.startswith("d") and asked != size(tensor):
                    raise Unsupported(f"a gradient of {size(tensor)} B lies in {asked} B")
                named = type_word(tensor.dtype, setting)
                actions.append(Action(word, named, in_pairs(tensor.shape, tensor.dtype), asked if asked != size(tensor) else None))
            elif kept:
                actions.append(Action("h" + kept if at in held else kept, size=asked))
            else:
                raise Unsupported(f"its backward leaves {asked} B behind")
        else:
            allocations += 1
            numbered[at] = allocations
            actions.append(Action("+", size=asked))
    return actions


def type_word(dtype: torch.dtype, setting: Setting) -> str:
    if dtype in PART:
        return dtype_name(PART[dtype])
    return "float" if dtype == setting.first else "amp" if dtype == HALF and setting.autocast else dtype_name(dtype)


def alive_after(events: Sequence[Event]) -> Set[int]:
    alive: Set[int] = set()
    for action, at, _ in events:
        (alive.add if action == "alloc" else alive.discard)(at)
    return alive


def without_frees_of(known: Set[int], events: Sequence[Event]) -> List[Event]:
    """What was allocated before goes once; its place may be taken again."""
    left, rest = set(known), []
    for event in events:
        if event[0] == "free_requested" and event[1] in left:
            left.discard(event[1])
        else:
            rest.append(event)
    return rest

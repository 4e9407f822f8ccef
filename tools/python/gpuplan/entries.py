"""Entries of a `layers:` list, and the bodies that hold them: what the frames of a run become."""
from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from gpuplan.values import Frame, Value


class Entry:
    """One entry of a `layers:` list."""

    def __init__(self, op: str, arguments: Sequence[Tuple[str, Any]], inputs: List[Value], outputs: List[Value]):
        self.op, self.arguments, self.inputs, self.outputs = op, list(arguments), inputs, outputs
        self.name = ""
        self.event = 0
        self.path = ""  # of the module or the owner of the weights
        self.owner = ""  # what `path` was before the entry stood for its frame
        self.own_weights = False  # its weights are the frame's own: F.conv2d(x, self.weight)
        self.body: Optional[Body] = None
        self.tie = ""
        self.frozen = self.keep = self.has_weights = self.checkpoint = self.reentrant = False
        self.view = False  # moves no data
        self.weights: List[str] = []  # whose names it shares with others that have them
        self.autocast = True  # False: within torch.autocast(enabled=False)
        self.grad = True  # False: within torch.no_grad()
        self.when = ""  # "train" or "infer" where the other mode does not run it
        self.returns = False  # stands for a frame's return


class Body:
    """A frame as entries."""

    def __init__(self, frame: Frame):
        self.frame = frame
        self.inputs = list(frame.inputs)
        self.entries: List[Entry] = []
        self.defined: Dict[Value, List[Tuple[Entry, int]]] = {}  # in-place calls define a tensor again
        self.loss_from: Optional[int] = None  # where the entries of the loss begin, in the model's own body
        self.names: Dict[str, int] = {}
        self.sequential = False
        self.holds: Dict[int, List[Value]] = {}  # after which entry what is let go
        self.made: List[str] = []  # entries as their weights get memory, where it is not as they run
        self.registered: List[str] = []  # and as Module.parameters() has them
        self.input_names: List[str] = []

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        for k, value in enumerate(entry.outputs):
            self.defined.setdefault(value, []).append((entry, k))

    def definition(self, value: Value, before: Optional[Entry]) -> Optional[Tuple[Entry, int]]:
        """The entry that a value was last the result of before another entry, or the end; None where it was given."""
        position = {id(e): i for i, e in enumerate(self.entries)}
        here = len(position) if before is None else position[id(before)]
        earlier = [d for d in self.defined.get(value, ()) if position[id(d[0])] < here]
        return earlier[-1] if earlier else None

    def entry_after(self, at: int) -> Optional[Entry]:
        return self.entries[at + 1] if at + 1 < len(self.entries) else None

    def fresh_name(self, wanted: str) -> str:
        """A name that no entry of this body has."""
        name, count = wanted, 1
        while name in self.names or name in ("input", "inputs"):
            count += 1
            name = f"{wanted}_{count}"
        self.names[name] = 1
        return name


def relative(path: str, frame_path: str) -> Optional[str]:
    """A module's path as seen from a frame; None for one outside of it."""
    if not frame_path:
        return path or None
    return path[len(frame_path) + 1:] if path.startswith(frame_path + ".") else None


def add_return(body: Body, op: str, inputs: List[Value], outputs: List[Value]) -> Entry:
    entry = Entry(op, (), inputs, outputs)
    entry.view = entry.returns = True
    body.add(entry)
    return entry


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def all_bodies(body: Body) -> Iterable[Body]:
    yield body
    for entry in body.entries:
        if entry.body is not None:
            yield from all_bodies(entry.body)


# Weights that an entry only names: they are there in both modes.
DECLARING = frozenset(["Parameter", "Buffer"])
FILLED = frozenset(["Zeros", "Full"])  # an input is there for its type alone


class Variable(NamedTuple):
    """An expression of the spec's vars."""
    expression: str

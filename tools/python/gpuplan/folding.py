"""Finds equal blocks, and the numbers in which they differ."""
from __future__ import annotations

import re
from typing import Any, Dict, List, NamedTuple, Tuple

from gpuplan.entries import Body, Entry, Variable, snake
from gpuplan.errors import ExportError
from gpuplan.values import Batch, Value

# Arguments that are written without their name.
POSITIONAL = frozenset("in_channels out_channels kernel_size num_features in_features out_features num_embeddings "
                       "embedding_dim normalized_shape output_size p mode dim embed_dim num_heads num_groups num_channels nf "
                       "nx window_size shift_size input_size hidden_size".split())


class Template(NamedTuple):
    """A call with a gap for every number and flag in it."""
    text: str
    values: List[Any]
    names: List[str]


def template_of(entry: Entry) -> Template:
    values: List[Any] = []
    names: List[str] = []

    def write(value: Any, name: str) -> str:
        if isinstance(value, Variable):
            return "${" + value.expression + "}"
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(write(v, name) for v in value) + "]"
        if isinstance(value, (bool, int, float)):
            values.append(value)
            names.append(name)
            return "\0"
        if isinstance(value, str) and value != "_":
            return repr(value)
        if isinstance(value, Batch):
            raise ExportError(f"{entry.op} at {entry.path}: an argument that depends on the batch")
        return str(value)

    parts, positional = [], True
    for name, value in entry.arguments:
        skips = entry.op == "EmbeddingBag" and name == "mode"  # what is between is left out
        positional = positional and (not name or name in POSITIONAL) and not skips
        text = write(value, name or snake(entry.op))
        parts.append(text if not name or positional else f"{name}={text}")
    return Template(f"{entry.op}({', '.join(parts)})", values, names)


class Group:
    """Bodies that differ in numbers alone."""

    def __init__(self, name: str):
        self.name = name
        self.bodies: List[Body] = []
        self.columns: List[List[Any]] = []  # of every slot, its value in each body
        self.names: List[str] = []
        self.params: List[Tuple[str, int]] = []  # name, and the slot that stands for it
        self.param_of: Dict[int, str] = {}  # slot to parameter


def apart(base: str, taken: Dict[str, int]) -> str:
    """The name, or with the first number behind it that no other name has."""
    taken[base] = taken.get(base, 0) + 1
    name = base if taken[base] == 1 else f"{base}_{taken[base]}"
    if name == base or name not in taken:
        taken.setdefault(name, 1)
        return name
    return apart(base, taken)


class Folder:
    """Finds equal bodies, and what differs between them."""

    def __init__(self) -> None:
        self.groups: Dict[Any, Group] = {}
        self.of: Dict[int, Group] = {}
        self.vectors: Dict[int, List[Any]] = {}
        self.slot_names: Dict[int, List[str]] = {}

    def fold(self, top: Body) -> None:
        self.visit(top)
        taken: Dict[str, int] = {}
        for group in self.groups.values():
            group.name = apart(re.sub(r"\W", "_", group.name) or "Block", taken)
            self.find_params(group)

    def visit(self, body: Body) -> Any:
        """The body's signature; its group is made on the way."""
        vector: List[Any] = []
        names: List[str] = []
        signature: List[Any] = [body.frame.kind, len(body.inputs), body.sequential, tuple(body.made), tuple(body.registered)]
        index = {id(e): i for i, e in enumerate(body.entries)}
        for i, entry in enumerate(body.entries):
            child = None
            if entry.body is not None:
                child = self.visit(entry.body)
                vector += self.vectors[id(entry.body)]
                names += self.slot_names[id(entry.body)]
                template = ""
            else:
                t = template_of(entry)
                template = t.text
                vector += t.values
                names += t.names
            references = tuple(self.reference(body, index, v, entry) for v in entry.inputs)
            held = tuple(self.reference(body, index, v, entry) for v in body.holds.get(i, ()))
            signature.append((template, entry.name, references, entry.keep, entry.tie, entry.frozen, held, child,
                              len(entry.outputs), entry.when, entry.checkpoint, entry.reentrant, entry.autocast,
                              entry.grad))
        key = tuple(signature)
        kinds = tuple(type(v) for v in vector)
        group = self.groups.setdefault((key, kinds), Group(body.frame.kind))
        group.bodies.append(body)
        group.names = names
        self.of[id(body)] = group
        self.vectors[id(body)], self.slot_names[id(body)] = vector, names
        return (key, kinds)

    @staticmethod
    def reference(body: Body, index: Dict[int, int], value: Value, user: Entry) -> Any:
        known = body.definition(value, user)
        if known is not None:
            return (index[id(known[0])], known[1])
        return ("given", body.inputs.index(value))

    def find_params(self, group: Group) -> None:
        vectors = [self.vectors[id(b)] for b in group.bodies]
        seen: Dict[Any, str] = {}
        taken: Dict[str, int] = {}
        for slot in range(len(vectors[0])):
            column = tuple(v[slot] for v in vectors)
            if len(set(column)) == 1:
                continue
            key = (type(column[0]), column)
            if key not in seen:
                seen[key] = apart(group.names[slot], taken)
                group.params.append((seen[key], slot))
            group.param_of[slot] = seen[key]

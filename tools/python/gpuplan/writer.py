"""What the functions of gpuplan.functions are given to write a call's entries. They are registered here."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple

from gpuplan.entries import Body, Entry, relative, snake
from gpuplan.errors import Unsupported
from gpuplan.values import Call, Value, flat_values

if TYPE_CHECKING:
    from gpuplan.lowering import Lowering

# What PyTorch also takes arguments by (torch/csrc/utils/python_arg_parser.cpp, numpy_compatibility_arg_names).
NUMPY_NAMES = {"dim": "axis", "keepdim": "keepdims", "input": "x", "other": "x2"}


class Writer:
    """Writes the entries of one call."""

    def __init__(self, lowering: Lowering, body: Body, call: Call):
        self.lowering, self.body, self.call = lowering, body, call
        self.args, self.kwargs = call.args, call.kwargs

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        if position < len(self.args):
            return self.args[position]
        return self.kwargs.get(name, self.kwargs.get(NUMPY_NAMES.get(name, name), default))

    def tensors(self) -> List[Value]:
        return flat_values((self.args, self.kwargs))

    @property
    def x(self) -> Value:
        return self.argument(0, "input", self.kwargs.get("self"))

    def results(self) -> List[Value]:
        return self.call.results

    def emit(self, op: str, arguments: Sequence[Tuple[str, Any]], inputs: List[Value],
             outputs: Optional[List[Value]] = None, view: bool = False) -> Entry:
        entry = Entry(op, arguments, inputs, self.results() if outputs is None else outputs)
        entry.event = self.call.event
        entry.view = view
        self.lowering.connect(self.body, entry)
        return entry

    def inner(self, shape: Sequence[Any], like: Optional[Value] = None) -> Value:
        """A tensor between two layers that one call becomes."""
        value = object.__new__(Value)
        value.__dict__.update(vars(self.x if like is None else like))
        value.shape, value.died, value.weight, value.kind = tuple(shape), self.call.event, None, "activation"
        return value

    def with_weights(self, op: str, arguments: Sequence[Tuple[str, Any]], x: List[Value], weights: List[Any]) -> None:
        """A layer whose weights are parameters of a module: F.linear(x, self.qkv.weight)."""
        given = [w for w in weights if isinstance(w, Value)]
        if any(w.weight is None for w in given):
            raise Unsupported("of a weight that is computed")
        if any(w in self.body.defined for w in given):
            raise Unsupported("of a weight that other calls read, too")
        entry = Entry(op, arguments, x, self.results())
        entry.event = self.call.event
        owner = (given[0].weight or "").rpartition(".")[0] if given else ""
        paths = [w.weight or "" for w in given]
        self.lowering.own(entry, [self.lowering.names_of_tied.get(p, p) for p in paths], owner)
        here = self.body.frame.path
        entry.own_weights = owner == here
        rel = relative(owner, here) or snake(op)
        entry.name = self.body.fresh_name(rel)
        if entry.own_weights:
            entry.path = (here + "." if here else "") + entry.name
            for p in paths:
                self.lowering.used[self.lowering.names_of_tied.get(p, p)] = entry.path
        self.lowering.connect(self.body, entry)


FUNCTIONS: Dict[str, Callable[[Writer], None]] = {}


def handles(*names: str) -> Callable:
    def register(function: Callable[[Writer], None]) -> Callable[[Writer], None]:
        for name in names:
            FUNCTIONS[name] = function
        return function
    return register

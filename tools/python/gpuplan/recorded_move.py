"""What model.to("cuda") does with modules that store their weights in forms of their own: bitsandbytes quantizes them there.

python -m gpuplan.recorded_move REQUEST FOLDER moves each of them, on a simulated GPU, and writes Moves."""
from __future__ import annotations

import json
import os
import sys
import tempfile
import weakref
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import torch
from torch import nn

from gpuplan.construction import Construction, Place
from gpuplan.errors import GpuplanError
from gpuplan.recorded_allocations import Allocator, address
from gpuplan.simulated import last_line, run_simulated
from gpuplan.stored import Stored, is_stored, named_tensors_of, taken_apart
from gpuplan.values import dtype_name


class Event(NamedTuple):
    """name: of the tensor that has the memory from then on, empty of what goes again or stays elsewhere; of a free, size is the
    number of the allocation."""

    action: str  # + or -
    size: int
    name: str = ""


class Moves(NamedTuple):
    first: List[Event]  # of the first such module, where the library makes what it keeps
    further: List[Event]


class Moved(NamedTuple):
    """A module, and the sizes, strides and types of its tensors in the host's memory."""

    text: str
    tensors: Tuple[Tuple[Tuple[int, ...], Tuple[int, ...], str], ...]


def moved_of(module: nn.Module) -> Moved:
    stored, tensors = taken_apart(module)
    return Moved(stored.text, tuple((tuple(t.shape), t.stride(), dtype_name(t.dtype)) for t in tensors))


def as_moved(model: nn.Module) -> Construction:
    """What the GPU's memory sees of model.to("cuda"), module by module (torch.nn.Module._apply). Raises GpuplanError where it has
    such modules, and they cannot be recorded."""
    known = recorded({path: moved_of(module) for path, module in model.named_modules() if is_stored(module)})
    made = Construction()
    numbers: Dict[int, int] = {}  # of tensors, by id
    begun = False

    def has(number: int, module: nn.Module, name: str) -> None:
        made.alive[number] += 1
        made.held.setdefault(number, []).append(Place(weakref.ref(module), name))
        made.registered.append((number, made.held[number][-1]))

    def visit(module: nn.Module, path: str) -> None:
        nonlocal begun
        for name, child in module.named_children():
            visit(child, f"{path}.{name}" if path else name)
        if path in known:
            events = known[path].further if begun else known[path].first
            begun = True
            of_move = []
            for action, size, name in events:
                of_move.append(made.allocate(size) if action == "+" else of_move[size])
                if action == "-":
                    made.events.append(("-", of_move[-1]))
                elif name:
                    has(of_move[-1], module, name)
            return
        for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
            if tensor is None:
                continue
            if id(tensor) not in numbers:
                numbers[id(tensor)] = made.allocate(tensor.numel() * tensor.element_size())
            has(numbers[id(tensor)], module, name)

    visit(model, "")
    return made


def recorded(modules: Dict[str, Moved]) -> Dict[str, Moves]:
    different = list(dict.fromkeys(modules.values()))
    if not different:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        asked = os.path.join(folder, "request")
        with open(asked, "w", encoding="utf-8") as file:
            json.dump([sys.path, different], file)
        ended = run_simulated("gpuplan.recorded_move", asked, folder, scratch="full")
        answers = [read(os.path.join(folder, str(n)), ended.output) for n in range(len(different))]
    return {path: answers[different.index(moved)] for path, moved in modules.items()}


def read(path: str, output: str) -> Moves:
    try:
        with open(path, encoding="utf-8") as file:
            return Moves(*([Event(*event) for event in events] for events in json.load(file)))
    except (OSError, ValueError) as e:
        raise GpuplanError(f"PyTorch ended while a module was moved to a simulated GPU: {last_line(output)}") from e


# --- on the simulated GPU

def events_of(moved: Moved, allocator: Allocator) -> List[Event]:
    made = Stored(moved.text).around([torch.empty_strided(shape, strides, dtype=getattr(torch, dtype)) for shape, strides, dtype in moved.tensors])
    allocator.events()
    module = made.to("cuda")
    events = allocator.events()
    names: Dict[int, str] = {}
    for name, tensor in named_tensors_of(module):
        names.setdefault(address(tensor), name)
    last = {at: i for i, (action, at, _) in enumerate(events) if action == "alloc"}
    numbers: Dict[int, int] = {}
    found: List[Event] = []
    for i, (action, at, size) in enumerate(events):
        if action == "alloc":
            numbers[at] = len(found)
            found.append(Event("+", size, names.get(at, "") if last[at] == i else ""))
        elif at in numbers:
            found.append(Event("-", numbers[at]))
    return found


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as asked:
        path, listed = json.load(asked)
    sys.path += [place for place in path if place not in sys.path]
    for number, (text, tensors) in enumerate(listed):
        child = os.fork()
        if child == 0:
            moved, allocator = Moved(text, tensors), Allocator()
            both: Sequence[Any] = [events_of(moved, allocator) for _ in range(2)]
            with open(os.path.join(sys.argv[2], str(number)), "w", encoding="utf-8") as out:
                json.dump(both, out)
                out.flush()
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()

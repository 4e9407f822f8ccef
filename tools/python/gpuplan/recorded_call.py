"""What PyTorch's allocator is asked for by single calls of torch, on a simulated GPU: python -m gpuplan.recorded_call REQUESTS
ANSWERS runs each, with its backward, at several batches in fp32 and in bf16, and writes an Answer, or why there is none."""
from __future__ import annotations

import gc
import importlib
import inspect
import json
import os
import sys
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch

from gpuplan.errors import Unsupported
from gpuplan.recorded_words import BATCHES, FEWEST, Action, Answer, Directions, Word, amount, words_of
from gpuplan.source_lines import first_line
from gpuplan.values import dtype_name, flat_tensors

HALF = torch.bfloat16
MODULES = ("torch", "torch.nn.functional", "torch.Tensor", "torch.special", "torch.linalg", "torch.fft", "torch._C._nn")


def path_of(function: Callable) -> str:
    """Where another process finds a function of torch; empty where it does not."""
    name = getattr(function, "__name__", "")
    owner = getattr(function, "__self__", None)
    if inspect.isclass(owner) and issubclass(owner, torch.autograd.Function):
        path = f"{owner.__module__}.{owner.__qualname__}"
        return f"{path}.{name}" if found(path) is owner else ""
    return next((f"{place}.{name}" for place in MODULES if getattr(found(place), name, None) is function), "")


def found(path: str) -> Any:
    """None where there is none."""
    module, names = path, []
    while module:
        try:
            at: Any = importlib.import_module(module)
        except ImportError:
            module, _, name = module.rpartition(".")
            names.insert(0, name)
            continue
        for name in names:
            at = getattr(at, name, None)
        return at
    return None


class Setting(NamedTuple):
    """In which types it runs: what the model computed, or the first operand where nothing else is a weight, and the others."""

    first: torch.dtype
    others: torch.dtype
    autocast: bool


FULL, IN_HALF = Setting(torch.float32, torch.float32, False), Setting(HALF, HALF, False)
AMP, AMP_HALF, MIXED = Setting(torch.float32, torch.float32, True), Setting(HALF, HALF, True), Setting(HALF, torch.float32, True)


@dataclass(frozen=True)
class Operand:
    """A tensor that the call reads."""

    shape: Tuple[Any, ...]  # each a size, or (times,) of the batch
    dtype: str
    wants_gradient: bool
    is_weight: bool
    order: Tuple[int, ...]  # its dimensions as they lie in memory, the outermost first; empty: as they are counted

    @property
    def is_float(self) -> bool:
        return self.dtype == "float32"

    def made(self, batch: int, dtype: torch.dtype) -> torch.Tensor:
        shape = [n[0] * batch if isinstance(n, (list, tuple)) else n for n in self.shape]
        order = list(self.order) or list(range(len(shape)))
        lying = [shape[d] for d in order]
        own = getattr(torch, self.dtype)
        if not own.is_floating_point:
            return torch.zeros(lying, dtype=own, device="cuda").permute([order.index(d) for d in range(len(order))])
        return torch.rand(lying, device="cuda").to(dtype if own == torch.float32 else own).permute([order.index(d) for d in range(len(order))])


@dataclass(frozen=True)
class Request:
    function: str
    arguments: str  # JSON of [positional, by name], with {"tensor": i} for the operands and {"batch": times} for sizes
    operands: Tuple[Operand, ...]

    def called(self, tensors: Sequence[torch.Tensor], batch: int, setting: Setting) -> List[torch.Tensor]:
        """Its results."""
        def given(value: Any) -> Any:
            if isinstance(value, list):
                return [given(v) for v in value]
            if not isinstance(value, dict):
                return value
            (kind, held), = value.items()
            return {"tensor": lambda: tensors[held], "batch": lambda: held * batch, "dtype": lambda: getattr(torch, held), "slice": lambda: slice(*given(held)), "ellipsis": lambda: ...,
                    "dict": lambda: {k: given(v) for k, v in held.items()}}[kind]()

        positional, by_name = (given(part) for part in json.loads(self.arguments))
        with torch.autocast("cuda", dtype=HALF, enabled=setting.autocast):
            result = found(self.function)(*positional, **by_name)
        return list(tensors[:1]) if result is None else flat_tensors(result)


class Taken(NamedTuple):
    """Of one batch."""

    forward: List[Action]
    backward: Optional[List[Action]]


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


def actions_of(events: Sequence[Event], results: Dict[int, Tuple[str, torch.Tensor]], kept: str, setting: Setting) -> List[Action]:
    """Of allocations and frees. results: by address; kept: the word for what stays and is none of them, empty where nothing may."""
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
                actions.append(Action(word, named, tuple(tensor.shape), asked if asked != size(tensor) else None))
            elif kept:
                actions.append(Action(kept, size=asked))
            else:
                raise Unsupported(f"its backward leaves {asked} B behind")
        else:
            allocations += 1
            numbered[at] = allocations
            actions.append(Action("+", size=asked))
    return actions


def type_word(dtype: torch.dtype, setting: Setting) -> str:
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


class Inputs(NamedTuple):
    tensors: List[torch.Tensor]  # results of a call, as in a model: autograd holds its leaves by itself
    leaves: List[torch.Tensor]  # of each, what its gradient is asked of


def inputs_of(request: Request, batch: int, setting: Setting) -> Inputs:
    floats = [operand for operand in request.operands if operand.is_float]
    others = [operand for operand in floats if operand.is_weight] or floats[1:]
    leaves = [operand.made(batch, setting.others if any(operand is o for o in others) else setting.first) for operand in request.operands]
    return Inputs([t.requires_grad_().clone() if operand.wants_gradient else t for t, operand in zip(leaves, request.operands)], leaves)


def with_gradient(tensors: Sequence[torch.Tensor]) -> List[torch.Tensor]:
    return [t for t in tensors if t.requires_grad]


def backward(outputs: Sequence[torch.Tensor], inputs: Inputs, gradients: Sequence[torch.Tensor]) -> Any:
    return torch.autograd.grad(with_gradient(outputs), with_gradient(inputs.leaves), gradients, allow_unused=True)


def taken(request: Request, batch: int, setting: Setting, allocator: Allocator) -> Taken:
    inputs = inputs_of(request, batch, setting)
    allocator.events()
    outputs = request.called(inputs.tensors, batch, setting)
    events = allocator.events()
    in_place = {k: i for k, t in enumerate(outputs) for i, x in enumerate(inputs.tensors) if t is x}
    named = {address(t): (f"y{k}=", t) for k, t in enumerate(outputs) if k not in in_place}
    shared = set(named) & {address(t) for t in inputs.tensors}
    if len(named) + len(in_place) < len(outputs) or shared or any(not t.is_contiguous() for _, t in named.values()):
        raise Unsupported("its results are views, or share memory")
    forward = actions_of(events, named, "s", setting) + [Action(f"y{k}=x{i}") for k, i in in_place.items()]
    if sum(action.word.startswith("y") for action in forward) < len(outputs):
        raise Unsupported("its results are no memory of their own")
    if not with_gradient(outputs):
        return Taken(forward, None)
    kept = alive_after(events) - set(named)
    after = taken_backward(inputs, outputs, kept, setting, allocator)
    return Taken(forward + saved(request, batch, setting, allocator), after)


def taken_backward(inputs: Inputs, outputs: Sequence[torch.Tensor], kept: Set[int], setting: Setting, allocator: Allocator) -> List[Action]:
    """kept: what the forward left for it, by address."""
    gradients = [torch.rand_like(t) for t in with_gradient(outputs)]
    allocator.events()
    found_gradients = backward(outputs, inputs, gradients)
    events = without_frees_of(kept, allocator.events())
    wanting = [i for i, t in enumerate(inputs.leaves) if t.requires_grad]
    of_gradients = {address(g): k for k, g in enumerate(gradients)}
    results, words = {}, []
    for i, gradient in zip(wanting, found_gradients):
        if gradient is None:
            continue
        if address(gradient) in of_gradients:
            words.append(Action(f"d{i}=g{of_gradients[address(gradient)]}"))
        else:
            results[address(gradient)] = (f"d{i}", gradient)
    after = [Action(a.word) if a.word.startswith("d") else a for a in actions_of(events, results, "", setting)]
    if sum(a.word.startswith("d") for a in after) < len(results):
        raise Unsupported("its gradients are no memory of their own")
    return after + words


def saved(request: Request, batch: int, setting: Setting, allocator: Allocator) -> List[Action]:
    """What stays where autograd's nodes alone are held."""
    inputs = inputs_of(request, batch, setting)
    outputs = request.called(inputs.tensors, batch, setting)
    places = {address(t): f"y{i}" for i, t in enumerate(outputs)}
    places.update({address(t): f"x{i}" for i, t in enumerate(inputs.tensors)})
    nodes = [t.grad_fn for t in outputs if t.grad_fn is not None]
    allocator.events()
    del inputs, outputs
    gc.collect()
    gone = {at for action, at, _ in allocator.events() if action == "free_requested"}
    assert nodes
    return [Action(word) for at, word in places.items() if at not in gone]


def products(request: Request, batch: int) -> Tuple[int, int]:
    """Multiply-adds of forward and backward."""
    from torch.utils.flop_counter import FlopCounterMode

    inputs = inputs_of(request, batch, FULL)
    with FlopCounterMode(display=False) as counted:
        outputs = request.called(inputs.tensors, batch, FULL)
    forward = counted.get_total_flops()
    gradients = [torch.rand_like(t) for t in with_gradient(outputs)]
    if not gradients:
        return forward // 2, 0
    with FlopCounterMode(display=False) as counted:
        backward(outputs, inputs, gradients)
    return forward // 2, counted.get_total_flops() // 2


def result_type(request: Request, setting: Setting) -> Optional[torch.dtype]:
    """Of the first floating result; None where it does not run."""
    try:
        outputs = request.called(inputs_of(request, BATCHES[0], setting).tensors, BATCHES[0], setting)
    except RuntimeError:
        return None
    return next((t.dtype for t in outputs if t.is_floating_point()), None)


def autocast_list(request: Request) -> str:
    """Which of autocast's lists the operator is in, by the types of its results."""
    several = sum(operand.is_float for operand in request.operands) > 1
    if not any(operand.is_float for operand in request.operands):
        return "none"
    if result_type(request, AMP) == HALF:
        return "half"
    if result_type(request, AMP_HALF) == torch.float32 and result_type(request, IN_HALF) != torch.float32:
        return "fp32"
    if several and result_type(request, MIXED) == HALF:
        return "first"
    alike = result_type(request, MIXED._replace(autocast=False)) is not None
    return "widest" if several and result_type(request, MIXED) == torch.float32 and not alike else "none"


def is_several(request: Request) -> bool:
    """Whether it is made of several operators, each with a node of autograd's."""
    inputs = inputs_of(request, BATCHES[0], FULL)
    given = {t.grad_fn for t in inputs.tensors}
    nodes = {t.grad_fn for t in request.called(inputs.tensors, BATCHES[0], FULL)}
    return any(following not in given for node in nodes if node is not None for following, _ in node.next_functions if following is not None)


def warm_up(request: Request, setting: Setting) -> None:
    """What is allocated once a process."""
    inputs = inputs_of(request, BATCHES[0], setting)
    outputs = request.called(inputs.tensors, BATCHES[0], setting)
    if with_gradient(outputs):
        backward(outputs, inputs, [torch.rand_like(t) for t in with_gradient(outputs)])


def all_taken(request: Request, setting: Setting, allocator: Allocator) -> List[Taken]:
    of_batches: List[Taken] = []
    for batch in BATCHES:
        try:
            of_batches.append(taken(request, batch, setting, allocator))
        except torch.cuda.OutOfMemoryError:
            if len(of_batches) < FEWEST:
                raise
            gc.collect()
            break
    return of_batches


class Recording:
    """Of a call, in the settings in which it is asked for."""

    def __init__(self, request: Request):
        warm_up(request, FULL)
        gc.disable()
        self.request, self.allocator = request, Allocator()
        macs = [products(request, batch) for batch in BATCHES[:FEWEST]]
        self.macs = [[Word("macs=", size=amount(of_batches))] if any(of_batches) else [] for of_batches in zip(*macs)]

    def in_setting(self, setting: Setting) -> Optional[Directions]:
        """None where there is no such operator."""
        try:
            warm_up(self.request, setting)
        except RuntimeError:
            return None
        of_batches = all_taken(self.request, setting, self.allocator)
        forward = self.macs[0] + words_of([t.forward for t in of_batches])
        after = [t.backward for t in of_batches if t.backward is not None]
        return {"forward": forward, **({"backward": self.macs[1] + words_of(after)} if after else {})}


def answer_of(request: Request) -> Answer:
    recording = Recording(request)
    full, half, autocast = recording.in_setting(FULL), recording.in_setting(IN_HALF), autocast_list(request)
    if full is None:
        raise Unsupported("it does not run in fp32")
    known: Dict[str, Optional[Directions]] = {"": full, "half_": half}
    several = sum(operand.is_float for operand in request.operands) > 1
    if is_several(request):
        known.update({"amp_": recording.in_setting(AMP), "amp_half_": recording.in_setting(AMP_HALF)})
        autocast = "recorded"
    if several and autocast in ("recorded", "first"):
        known["mixed_"] = recording.in_setting(MIXED)
    return Answer(known, autocast)


def answer(request: Request) -> Dict[str, Any]:
    try:
        return {"answer": answer_of(request)}
    except Unsupported as e:
        return {"why": str(e)}
    except Exception as e:  # whatever PyTorch raises
        return {"why": f"{type(e).__name__}: {first_line(e)}"}


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as asked:
        path, listed = json.load(asked)
    sys.path += [place for place in path if place not in sys.path]
    requests = [Request(r["function"], r["arguments"], tuple(Operand(**o) for o in r["operands"])) for r in listed]
    for number, request in enumerate(requests):
        child = os.fork()  # torch is imported once, and CUDA begins in the children
        if child == 0:
            with open(os.path.join(sys.argv[2], str(number)), "w", encoding="utf-8") as out:
                json.dump(answer(request), out)
                out.flush()
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()

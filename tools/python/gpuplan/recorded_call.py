"""What PyTorch's allocator is asked for by single calls of torch, on a simulated GPU: python -m gpuplan.recorded_call REQUESTS
ANSWERS runs each, with its backward, at several batches in fp32 and in bf16, and writes an Answer, or why there is none."""
from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch

from gpuplan.errors import Unsupported
from gpuplan.recorded_words import BATCHES, FEWEST, Action, Answer, Word, amount, words_of
from gpuplan.source_lines import first_line
from gpuplan.values import dtype_name, flat_tensors

HALF = torch.bfloat16
MODULES = ("torch", "torch.nn.functional", "torch.Tensor", "torch.special", "torch.linalg", "torch.fft", "torch._C._nn")


def path_of(function: Callable) -> str:
    """Where another process finds a function of torch; empty where it does not."""
    name = getattr(function, "__name__", "")
    return next((f"{place}.{name}" for place in MODULES if getattr(found(place), name, None) is function), "")


def found(path: str) -> Any:
    module, _, rest = ("torch", "", "") if path == "torch" else path.partition(".")
    at: Any = importlib.import_module(module)
    for name in filter(None, rest.split(".")):
        at = getattr(at, name)
    return at


@dataclass(frozen=True)
class Operand:
    """A tensor that the call reads."""

    shape: Tuple[Any, ...]  # each a size, or (times,) of the batch
    dtype: str
    wants_gradient: bool
    order: Tuple[int, ...]  # its dimensions as they lie in memory, the outermost first; empty: as they are counted

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

    def called(self, tensors: Sequence[torch.Tensor], batch: int) -> Any:
        def given(value: Any) -> Any:
            if isinstance(value, list):
                return [given(v) for v in value]
            if not isinstance(value, dict):
                return value
            (kind, held), = value.items()
            return {"tensor": lambda: tensors[held], "batch": lambda: held * batch, "dtype": lambda: getattr(torch, held),
                    "dict": lambda: {k: given(v) for k, v in held.items()}}[kind]()

        positional, by_name = (given(part) for part in json.loads(self.arguments))
        return found(self.function)(*positional, **by_name)


class Taken(NamedTuple):
    """Of one batch."""

    forward: List[Action]
    saved: List[str]
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


def actions_of(events: Sequence[Event], results: Dict[int, Tuple[str, torch.Tensor]], kept: str, dtype: torch.dtype) -> List[Action]:
    """Of allocations and frees. results: by address; dtype: the run's, `float`; kept: the word for what stays and is none of them, empty where nothing may."""
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
                named = "float" if tensor.dtype == dtype else dtype_name(tensor.dtype)
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


def inputs_of(request: Request, batch: int, dtype: torch.dtype) -> List[torch.Tensor]:
    """Results of a call, as in a model: autograd holds its leaves by itself."""
    tensors = [operand.made(batch, dtype) for operand in request.operands]
    return [t.requires_grad_().clone() if operand.wants_gradient else t for t, operand in zip(tensors, request.operands)]


def with_gradient(tensors: Sequence[torch.Tensor]) -> List[torch.Tensor]:
    return [t for t in tensors if t.requires_grad]


def backward(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor]) -> Any:
    return torch.autograd.grad(with_gradient(outputs), with_gradient(inputs), gradients, allow_unused=True)


def taken(request: Request, batch: int, dtype: torch.dtype, allocator: Allocator) -> Taken:
    inputs = inputs_of(request, batch, dtype)
    of_inputs = {address(t): f"x{i}" for i, t in enumerate(inputs)}
    allocator.events()
    outputs = flat_tensors(request.called(inputs, batch))
    events = allocator.events()
    named = {address(t): (f"y{k}=", t) for k, t in enumerate(outputs)}
    if len(named) < len(outputs) or set(named) & set(of_inputs) or any(not t.is_contiguous() for t in outputs):
        raise Unsupported("its results are views, or share memory")
    forward = actions_of(events, named, "s", dtype)
    if sum(action.word.startswith("y") for action in forward) < len(outputs):
        raise Unsupported("its results are no memory of their own")
    gradients = [torch.rand_like(t) for t in with_gradient(outputs)]
    if not gradients:
        return Taken(forward, [], None)
    extras = alive_after(events) - set(named)
    allocator.events()
    found_gradients = backward(outputs, inputs, gradients)
    events = without_frees_of(extras, allocator.events())
    wanting = [i for i, t in enumerate(inputs) if t.requires_grad]
    of_gradients = {address(g): k for k, g in enumerate(gradients)}
    results, words = {}, []
    for i, gradient in zip(wanting, found_gradients):
        if gradient is None:
            continue
        if address(gradient) in of_gradients:
            words.append(Action(f"d{i}=g{of_gradients[address(gradient)]}"))
        else:
            results[address(gradient)] = (f"d{i}", gradient)
    after = [Action(a.word) if a.word.startswith("d") else a for a in actions_of(events, results, "", dtype)]
    if sum(a.word.startswith("d") for a in after) < len(results):
        raise Unsupported("its gradients are no memory of their own")
    return Taken(forward, saved(request, batch, dtype, allocator), after + words)


def saved(request: Request, batch: int, dtype: torch.dtype, allocator: Allocator) -> List[str]:
    """What stays where autograd's nodes alone are held."""
    inputs = inputs_of(request, batch, dtype)
    outputs = flat_tensors(request.called(inputs, batch))
    places = {address(t): f"x{i}" for i, t in enumerate(inputs)}
    places.update({address(t): f"y{i}" for i, t in enumerate(outputs)})
    nodes = [t.grad_fn for t in outputs if t.grad_fn is not None]
    allocator.events()
    del inputs, outputs
    gc.collect()
    gone = {at for action, at, _ in allocator.events() if action == "free_requested"}
    assert nodes
    return [word for at, word in places.items() if at not in gone]


def products(request: Request, batch: int) -> Tuple[int, int]:
    """Multiply-adds of forward and backward."""
    from torch.utils.flop_counter import FlopCounterMode

    inputs = inputs_of(request, batch, torch.float32)
    with FlopCounterMode(display=False) as counted:
        outputs = flat_tensors(request.called(inputs, batch))
    forward = counted.get_total_flops()
    gradients = [torch.rand_like(t) for t in with_gradient(outputs)]
    if not gradients:
        return forward // 2, 0
    with FlopCounterMode(display=False) as counted:
        backward(outputs, inputs, gradients)
    return forward // 2, counted.get_total_flops() // 2


def autocast_list(request: Request) -> str:
    floating = [i for i, operand in enumerate(request.operands) if operand.dtype == "float32"]

    def result(types: Dict[int, torch.dtype], autocast: bool = True) -> Optional[torch.dtype]:
        inputs = [operand.made(BATCHES[0], types.get(i, torch.float32)) for i, operand in enumerate(request.operands)]
        try:
            with torch.autocast("cuda", dtype=HALF, enabled=autocast):
                outputs = flat_tensors(request.called(inputs, BATCHES[0]))
        except RuntimeError:
            return None
        return next((t.dtype for t in outputs if t.is_floating_point()), None)

    half = {i: HALF for i in floating}
    if not floating:
        return "none"
    if result({}) == HALF:
        return "half"
    if result(half) == torch.float32 and result(half, autocast=False) != torch.float32:
        return "fp32"
    mixed = {floating[0]: HALF}
    if len(floating) > 1 and result(mixed) == HALF:
        return "first"
    return "widest" if len(floating) > 1 and result(mixed) == torch.float32 and result(mixed, autocast=False) is None else "none"


def warm_up(request: Request, dtype: torch.dtype) -> None:
    """What is allocated once a process."""
    inputs = inputs_of(request, BATCHES[0], dtype)
    outputs = flat_tensors(request.called(inputs, BATCHES[0]))
    if with_gradient(outputs):
        backward(outputs, inputs, [torch.rand_like(t) for t in with_gradient(outputs)])


def all_taken(request: Request, dtype: torch.dtype, allocator: Allocator) -> List[Taken]:
    of_batches: List[Taken] = []
    for batch in BATCHES:
        try:
            of_batches.append(taken(request, batch, dtype, allocator))
        except torch.OutOfMemoryError:
            if len(of_batches) < FEWEST:
                raise
            gc.collect()
            break
    return of_batches


def taken_in_half(request: Request, allocator: Allocator) -> Optional[List[Taken]]:
    """None where PyTorch has no such operator."""
    try:
        warm_up(request, HALF)
    except RuntimeError:
        return None
    return all_taken(request, HALF, allocator)


def answer_of(request: Request) -> Answer:
    warm_up(request, torch.float32)
    gc.disable()
    allocator = Allocator()
    full = all_taken(request, torch.float32, allocator)
    half = taken_in_half(request, allocator)
    if len({tuple(t.saved) for t in full + (half or [])}) > 1:
        raise Unsupported("what its backward keeps depends on the batch or the type")
    macs = [products(request, batch) for batch in BATCHES[:FEWEST]]
    directions = ["forward"] + (["backward"] if full[0].backward is not None else [])

    def of_type(of_batches: Sequence[Taken]) -> Dict[str, List[Word]]:
        return {name: products_word([m[k] for m in macs]) + words_of([getattr(t, name) for t in of_batches]) for k, name in enumerate(directions)}

    return Answer(of_type(full), of_type(half) if half is not None else None, full[0].saved, autocast_list(request))


def products_word(macs: Sequence[int]) -> List[Word]:
    return [Word("macs=", size=amount(macs))] if any(macs) else []


def answer(request: Request) -> Dict[str, Any]:
    try:
        return {"answer": answer_of(request)}
    except Unsupported as e:
        return {"why": str(e)}
    except Exception as e:  # whatever PyTorch raises
        return {"why": f"{type(e).__name__}: {first_line(e)}"}


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as asked:
        requests = [Request(r["function"], r["arguments"], tuple(Operand(**o) for o in r["operands"])) for r in json.load(asked)]
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

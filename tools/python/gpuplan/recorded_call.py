"""What PyTorch's allocator is asked for by single calls of torch, on a simulated GPU: python -m gpuplan.recorded_call REQUESTS
ANSWERS runs each, with its backward, at several batches in fp32 and in bf16, and writes an Answer, or why there is none."""
from __future__ import annotations

import gc
import json
import os
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch

from gpuplan import stored
from gpuplan.errors import Unsupported
from gpuplan.recorded_allocations import Allocator, Event, actions_of, address, alive_after, size, without_frees_of
from gpuplan.recorded_request import AMP, AMP_HALF, FULL, HALF, IN_HALF, MIXED, Inputs, Operand, Request, Setting, inputs_of
from gpuplan.recorded_words import BATCHES, FEWEST, Action, Answer, Directions, Word, amount, words_of
from gpuplan.source_lines import first_line


class Taken(NamedTuple):
    """Of one batch."""

    forward: List[Action]
    backward: Optional[List[Action]]


def with_gradient(tensors: Sequence[torch.Tensor]) -> List[torch.Tensor]:
    return [t for t in tensors if t.requires_grad]


def backward(outputs: Sequence[torch.Tensor], inputs: Inputs, gradients: Sequence[torch.Tensor]) -> Any:
    return torch.autograd.grad(with_gradient(outputs), with_gradient(inputs.leaves), gradients, allow_unused=True)


def taken(request: Request, batch: int, setting: Setting, allocator: Allocator) -> Taken:
    inputs = inputs_of(request, batch, setting)
    shapes = [t.shape for t in inputs.tensors]
    allocator.events()
    outputs = request.called(inputs.tensors, batch, setting)
    events = allocator.events()
    if shapes != [t.shape for t in inputs.tensors]:
        raise Unsupported("it gives an operand another shape, in place")
    in_place = {k: i for k, t in enumerate(outputs) for i, x in enumerate(inputs.tensors) if t is x or is_all_of(t, x)}
    named = {address(t): (f"y{k}=", t) for k, t in enumerate(outputs) if k not in in_place}
    shared = set(named) & {address(t) for t in inputs.tensors}
    if len(named) + len(in_place) < len(outputs) or shared or any(not t.is_contiguous() for _, t in named.values()):
        raise Unsupported("its results are views, or share memory")
    trains = bool(with_gradient(outputs))
    if trains and any(t.is_floating_point() and not t.requires_grad for t in outputs):
        raise Unsupported("one of its results has a gradient, and another one has none")
    kept = alive_after(events) - set(named)
    of_saved = {at: k for k, at in enumerate(at for i, (_, at, _) in enumerate(events) if at in kept and is_last(events, i))}
    after, held = taken_backward(inputs, outputs, of_saved, setting, allocator) if trains else (None, set())
    forward = actions_of(events, named, "s", setting, held) + [Action(f"y{k}=x{i}") for k, i in in_place.items()]
    if sum(action.word.startswith("y") for action in forward) < len(outputs):
        raise Unsupported("its results are no memory of their own")
    return Taken(forward + (saved(request, batch, setting, allocator) if trains else []), after)


def is_all_of(view: torch.Tensor, of: torch.Tensor) -> bool:
    """A view that lies as its base does: a kernel has changed the base, and autograd was not told."""
    return address(view) == address(of) and view.shape == of.shape and view.stride() == of.stride() and view.dtype == of.dtype


def is_last(events: Sequence[Event], i: int) -> bool:
    """Whether it allocates, and nothing else lies there after it."""
    action, at, _ = events[i]
    return action == "alloc" and all(other != at for _, other, _ in events[i + 1:])


def taken_backward(inputs: Inputs, outputs: Sequence[torch.Tensor], of_saved: Dict[int, int], setting: Setting,
                   allocator: Allocator) -> Tuple[List[Action], Set[int]]:
    """of_saved: what the forward left for it, by address its place. Returned with what of this the nodes still have when they have
    run."""
    gradients = [torch.rand_like(t) for t in with_gradient(outputs)]
    allocator.events()
    found_gradients = backward(outputs, inputs, gradients)
    all_events = allocator.events()
    left = set(of_saved) - {at for action, at, _ in all_events if action == "free_requested"}  # whose memory nothing else has taken
    held = left - {address(g) for g in found_gradients if g is not None}
    events = without_frees_of(set(of_saved), all_events)
    wanting = [i for i, t in enumerate(inputs.leaves) if t.requires_grad]
    there = {**{address(t): f"x{i}" for i, t in enumerate(inputs.tensors)}, **{at: f"s{k}" for at, k in of_saved.items() if at in left},
             **{address(g): f"g{k}" for k, g in enumerate(gradients)}}
    results, words = {}, []
    for i, gradient in zip(wanting, found_gradients):
        if gradient is None:
            continue
        if address(gradient) in there and size(gradient) < gradient.untyped_storage().nbytes():
            raise Unsupported("a gradient is a part of what the forward left")
        if address(gradient) in there:
            words.append(Action(f"d{i}={there[address(gradient)]}"))
        else:
            results[address(gradient)] = (f"d{i}", gradient)
    after = [Action(a.word) if a.word.startswith("d") else a for a in actions_of(events, results, "", setting)]
    if sum(a.word.startswith("d") for a in after) < len(results):
        raise Unsupported("its gradients are no memory of their own")
    return after + words, held


def saved(request: Request, batch: int, setting: Setting, allocator: Allocator) -> List[Action]:
    """What stays where autograd's nodes alone are held; of inputs with an h what stays when they have run, too."""
    inputs = inputs_of(request, batch, setting)
    outputs = request.called(inputs.tensors, batch, setting)
    places = {address(t): f"y{i}" for i, t in enumerate(outputs)}
    places.update({address(t): f"x{i}" for i, t in enumerate(inputs.tensors)})
    nodes = [t.grad_fn for t in outputs if t.grad_fn is not None]
    allocator.events()
    del inputs, outputs
    gc.collect()
    gone = freed(allocator)
    assert nodes
    staying = {at: word for at, word in places.items() if at not in gone}
    del nodes
    if not any(word.startswith("x") for word in staying.values()):
        return [Action(word) for word in staying.values()]
    held = held_inputs(request, batch, setting, allocator)
    return [Action("h" + word if word in held else word) for word in staying.values()]


def freed(allocator: Allocator) -> Set[int]:
    return {at for action, at, _ in allocator.events() if action == "free_requested"}


def held_inputs(request: Request, batch: int, setting: Setting, allocator: Allocator) -> Set[str]:
    """Those that nodes keep in attributes of their own, which no backward lets go."""
    inputs = inputs_of(request, batch, setting)
    outputs = request.called(inputs.tensors, batch, setting)
    of_results = {address(t): f"x{i}" for i, (t, leaf) in enumerate(zip(inputs.tensors, inputs.leaves)) if t is not leaf}
    gradients = [torch.rand_like(t) for t in with_gradient(outputs)]
    left = Inputs([], inputs.leaves)
    del inputs
    gc.collect()  # of the call's own frames
    allocator.events()
    found_gradients = backward(outputs, left, gradients)
    gone = freed(allocator) | {address(g) for g in found_gradients if g is not None}
    del found_gradients
    return {word for at, word in of_results.items() if at not in gone}


def products(request: Request, batch: int) -> Tuple[int, int]:
    """Multiply-adds of forward and backward."""
    from torch.utils.flop_counter import FlopCounterMode

    inputs = inputs_of(request, batch, FULL)
    if request.stored:
        return stored.products(request.module(inputs.tensors), inputs.tensors[0])
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
    requests = [Request(r["function"], r["arguments"], tuple(Operand(**o) for o in r["operands"]), r["stored"]) for r in listed]
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

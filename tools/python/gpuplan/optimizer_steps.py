"""What an optimizer's steps allocate, taken on a simulated GPU of tensors like a model's parameters: what the program runs for an
optimizer that it has no rules of.

    python -c '...' OUT.json REQUEST.json

REQUEST.json: {"optimizer": the text of --opt, "parameters": [[name, shape, type, has a gradient], ...]}. OUT.json gets what its
constructor, its first step and each later one allocate and free: [kind, slot, bytes], and what a step computes and moves."""
from __future__ import annotations

import gc
import json
import os
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from gpuplan.errors import GpuplanError, need_torch

STEPS = 4
MOST_EVENTS = 10_000_000


def main(arguments: List[str]) -> int:
    out, request = arguments
    try:
        need_torch("an optimizer without rules of its own", "gpuplan explain optimizers lists those that need none")
        with open(request, encoding="utf-8") as file:
            asked = json.load(file)
        recorded = programs_of(asked["optimizer"], asked["parameters"])
    except GpuplanError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    from gpuplan.door import write_sources

    part = f"{out}.{os.getpid()}"
    with open(part, "w", encoding="utf-8") as file:
        json.dump(recorded, file)
    os.replace(part, out)
    write_sources(out + ".sources", [out])
    return 0


class Event(NamedTuple):
    allocates: bool
    block: int  # one of its own for each allocation; of a gradient that was there: -1 - its number
    size: int
    stream: int


class Blocks:
    """What was allocated and freed since it was last asked."""

    def __init__(self) -> None:
        import torch

        self.memory = torch.cuda.memory
        self.memory._record_memory_history(enabled="all", context=None, max_entries=MOST_EVENTS)
        self.device = torch.cuda.current_device()
        self.seen = 0
        self.block_at: Dict[int, int] = {}
        self.made = 0

    def events(self, gradients: Dict[int, int]) -> List[Event]:
        trace = self.memory._snapshot()["device_traces"][self.device]
        new, self.seen = trace[self.seen:], len(trace)
        events = []
        for e in new:
            if e["action"] == "alloc":
                self.block_at[e["addr"]] = self.made
                events.append(Event(True, self.made, e["size"], e["stream"]))
                self.made += 1
            elif e["action"] == "free_requested":
                if e["addr"] in self.block_at:
                    events.append(Event(False, self.block_at.pop(e["addr"]), e["size"], e["stream"]))
                elif e["addr"] in gradients:
                    events.append(Event(False, -1 - gradients[e["addr"]], e["size"], e["stream"]))
                else:
                    raise GpuplanError("the optimizer frees a parameter's memory, which is not planned", help=ELSEWHERE, exit_code=3)
        return events


ELSEWHERE = "gpuplan shadow -- python train.py runs a script with it, without a GPU"


def programs_of(text: str, parameters: Sequence[Tuple[str, List[int], str, bool]]) -> Dict[str, Any]:
    import torch

    from gpuplan.asked_type import TYPES
    from gpuplan.named_optimizers import optimizers_named

    if not torch.cuda.is_available():
        raise GpuplanError(f"--opt {text} is recorded with PyTorch's build for CUDA, which {sys.executable} does not have")
    named = [(name, torch.nn.Parameter(torch.empty(shape, dtype=TYPES[dtype], device="cuda"))) for name, shape, dtype, _ in parameters]
    stepped = [p for (_, p), (_, _, _, has) in zip(named, parameters) if has]
    use_cublas()
    gc.collect()
    gc.disable()
    blocks = Blocks()
    optimizers = optimizers_named(text, named)
    if any(p._post_accumulate_grad_hooks for p in stepped):
        raise GpuplanError(f"--opt {text} steps in backward, which is not planned", help=ELSEWHERE, exit_code=3)
    for optimizer in optimizers:
        if callable(getattr(optimizer, "train", None)):  # schedule-free ones
            optimizer.train()  # type: ignore[attr-defined]
    steps = [blocks.events({})]
    for _ in range(STEPS - 1):
        steps.append(step_of(text, optimizers, stepped, blocks))
    work = work_of(optimizers, stepped)
    return {"version": torch.__version__.split("+")[0], **written(text, steps), **work}


def use_cublas() -> None:
    """Its workspace is there once a model has multiplied."""
    import torch

    for dtype in (torch.float32, torch.bfloat16):
        x = torch.ones(64, 64, dtype=dtype, device="cuda")
        torch.addmm(x[0], x, x)
        torch.bmm(x[None], x[None])


def gradients_of(stepped: Sequence[Any]) -> Dict[int, int]:
    """By address: new ones, as backward makes them."""
    import torch

    for p in stepped:
        p.grad = None
    for p in stepped:
        p.grad = torch.full_like(p, 0.001)
    return {p.grad.data_ptr(): i for i, p in enumerate(stepped)}


def step_of(text: str, optimizers: Sequence[Any], stepped: Sequence[Any], blocks: Blocks) -> List[Event]:
    gradients = gradients_of(stepped)
    blocks.events(gradients)
    taken(text, optimizers)
    events = blocks.events(gradients)
    if any(p.grad is None or p.grad.data_ptr() not in gradients for p in stepped):
        raise GpuplanError(f"--opt {text} puts other tensors in the place of gradients, which is not planned", help=ELSEWHERE, exit_code=3)
    return events


def taken(text: str, optimizers: Sequence[Any]) -> None:
    try:
        for optimizer in optimizers:
            optimizer.step()
    except Exception as error:  # whatever the optimizer's code raises
        raise GpuplanError(f"--opt {text}: its step() raises {type(error).__name__}: {error}", help=ELSEWHERE, exit_code=3) from error


def written(text: str, steps: Sequence[Sequence[Event]]) -> Dict[str, Any]:
    """steps: the constructor's events, the first step's, the second's and the third's, the last two of which are alike."""
    construction, first, second, third = steps
    if shapes(second) != shapes(third):
        raise GpuplanError(f"--opt {text}: its second step and its third allocate differently, which is not planned", help=ELSEWHERE, exit_code=3)
    if any(e.stream != 0 for events in steps for e in events):
        raise GpuplanError(f"--opt {text} allocates on streams of its own, which is not planned", help=ELSEWHERE, exit_code=3)
    slots = roles(steps)
    stays = alive_after(steps)
    return {"construction": program(construction, slots, stays), "first": program(first, slots, stays), "steady": program(second, slots, stays)}


def shapes(step: Sequence[Event]) -> List[Tuple[bool, int, Optional[int]]]:
    """What is done to which block, told by where the step allocates it: None is one of an earlier step."""
    own = {e.block: i for i, e in enumerate(step) if e.allocates}
    return [(e.allocates, e.size, e.block if e.block < 0 else own.get(e.block)) for e in step]


def roles(steps: Sequence[Sequence[Event]]) -> Dict[int, int]:
    """The slot of each block. A state that a step makes anew has the slot of the one whose place it takes: what the next step frees at
    the same point."""
    _, _, second, third = steps
    slots = {e.block: e.block for events in steps for e in events if e.allocates}
    for before, after in zip(second, third):
        if not before.allocates and before.block >= 0 and before.block != after.block:
            slots[before.block] = slots[after.block]
    return slots


def alive_after(steps: Sequence[Sequence[Event]]) -> "set[int]":
    """Blocks that outlive the step that makes them."""
    stays = set()
    for events in steps:
        freed = {e.block for e in events if not e.allocates}
        stays |= {e.block for e in events if e.allocates and e.block not in freed}
    return stays


def program(events: Sequence[Event], slots: Dict[int, int], stays: "set[int]") -> List[Tuple[str, int, int]]:
    words: List[Tuple[str, int, int]] = []
    for e in events:
        if e.block < 0:
            words.append(("free_gradient", -1 - e.block, 0))
        elif e.allocates:
            words.append(("state" if e.block in stays else "tensor", slots[e.block], e.size))
        else:
            words.append(("free_state" if e.block in stays else "free", slots[e.block], 0))
    return words


def work_of(optimizers: Sequence[Any], stepped: Sequence[Any]) -> Dict[str, Any]:
    """Of one more step, operator by operator: kernels, FLOPs of products and of the rest, and bytes read and written; empty where
    that cannot be seen."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_flatten
    from torch.utils.flop_counter import flop_registry

    from gpuplan.asked_type import TYPES

    work: Dict[str, Any] = {"kernels": 0, "product_flops": 0, "plain_flops": 0, "bytes": 0}

    class Counted(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            of = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor) and t.is_cuda]
            results = [t for t in tree_flatten(out)[0] if isinstance(t, torch.Tensor) and t.is_cuda]
            if getattr(func, "is_view", False) or not (of or results):
                return out
            lists = max((len(a) for a in args if isinstance(a, (list, tuple)) and a and isinstance(a[0], torch.Tensor)), default=0)
            work["kernels"] += 1 if lists == 0 else -(-lists // 48)
            work["bytes"] += sum(t.numel() * t.element_size() for t in [*of, *(results or of[:1])])
            if func.overloadpacket in flop_registry:
                work["product_type"] = next((name for name, dtype in TYPES.items() if dtype == of[0].dtype), "fp32")
                work["product_flops"] += int(flop_registry[func.overloadpacket](*args, **(kwargs or {}), out_val=out))
            else:
                work["plain_flops"] += sum(t.numel() for t in (results or of[:1]))
            return out

    gradients_of(stepped)
    try:
        with Counted():
            for optimizer in optimizers:
                optimizer.step()
    except Exception:  # of a step that is compiled, which no mode sees
        return {}
    return work

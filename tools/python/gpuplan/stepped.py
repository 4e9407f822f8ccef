"""What --verify runs on a simulated GPU: python -m gpuplan.stepped REQUEST.json takes steps of a model, each run in a process
of its own, and writes what PyTorch's allocator says after each phase. REQUEST.json is a Request."""
from __future__ import annotations

import gc
import json
import os
import sys
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch import nn

from gpuplan.command_line import parsed_batch
from gpuplan.construction import constructed
from gpuplan.run import loss_of
from gpuplan.source_lines import first_line
from gpuplan.target import maker
from gpuplan.values import flat_tensors
from gpuplan.without_data import call_on_batch, on_meta

# What a plan calls a figure, and torch.cuda.memory_stats().
FIGURES = {"requested": "requested_bytes.all.current", "allocated": "allocated_bytes.all.current", "reserved": "reserved_bytes.all.current",
           "peak_requested": "requested_bytes.all.peak", "peak_allocated": "allocated_bytes.all.peak", "peak_reserved": "reserved_bytes.all.peak"}


LABELS = {"labels", "start_positions", "end_positions", "return_loss"}  # of which transformers' models make their loss


@dataclass
class Request:
    """The command line's words for the model, and what is measured."""

    model: str
    arguments: List[str]
    config: str
    inputs: List[str]
    on_gpu: bool
    runs: "List[Tuple[str, int]]"  # mode (train, eval) and batch
    output: str = ""  # a folder: N.json of run N is a list, of each of three steps the figures of each phase; or N.error


class Phases:
    def __init__(self) -> None:
        self.steps: List[Dict[str, Dict[str, int]]] = []

    def end(self, phase: str) -> None:
        if phase == "start":
            self.steps.append({})
        stats = torch.cuda.memory_stats()
        self.steps[-1][phase] = {name: stats[key] for name, key in FIGURES.items()}
        torch.cuda.reset_peak_memory_stats()


def made_batch(inputs: List[str], samples: int) -> Any:
    """Token 0 everywhere, and one token of padding where there is a mask, as the plan of an export assumes."""
    known: Dict[int, torch.Tensor] = {}

    def on_gpu(tensor: torch.Tensor, name: str) -> torch.Tensor:
        if id(tensor) not in known:
            shape = (samples, *tensor.shape[1:])
            known[id(tensor)] = torch.randn(shape, dtype=tensor.dtype, device="cuda") if tensor.is_floating_point() else \
                torch.zeros(shape, dtype=tensor.dtype, device="cuda")
            if "mask" in name:
                known[id(tensor)][:, :-1] = 1
        return known[id(tensor)]

    batch = parsed_batch(inputs)
    if isinstance(batch, dict):
        return {name: on_gpu(tensor, name) for name, tensor in batch.items()}
    return tuple(on_gpu(t, "") for t in batch) if isinstance(batch, tuple) else on_gpu(batch, "")


def made_targets(make: Callable[[], nn.Module], inputs: List[str], samples: int) -> Optional[torch.Tensor]:
    """Those of CrossEntropyLoss() of the output, which a plan takes where a spec has no loss. None: the model has its own."""
    batch = parsed_batch(inputs)
    if isinstance(batch, dict) and LABELS & batch.keys():
        return None  # the model may ask for values, which nothing on meta has
    with torch.no_grad():
        out = call_on_batch(on_meta(constructed(make)).train(), batch)
    if loss_of(out) is not None:
        return None
    shape = flat_tensors(out)[0].shape
    return torch.zeros((samples, *shape[2:]), dtype=torch.int64, device="cuda")


def train_step(model: nn.Module, batch: Any, targets: Optional[torch.Tensor], optimizer: torch.optim.Optimizer, phases: Phases) -> None:
    """A function: its output and loss are gone when it returns."""
    optimizer.zero_grad()
    phases.end("start")
    out = call_on_batch(model, batch)
    phases.end("forward")
    loss = loss_of(out) if targets is None else torch.nn.functional.cross_entropy(flat_tensors(out)[0], targets)
    phases.end("loss")
    loss.backward()  # type: ignore[union-attr]
    phases.end("backward")
    del out, loss
    optimizer.step()
    phases.end("optimizer")


@torch.no_grad()
def infer_step(model: nn.Module, batch: Any, phases: Phases) -> None:
    phases.end("start")
    out = call_on_batch(model, batch)
    phases.end("forward")
    del out


def steps_of(request: Request, mode: str, samples: int) -> List[Dict[str, Dict[str, int]]]:
    torch.manual_seed(0)
    make = maker(request.model, request.arguments, request.config)
    if request.on_gpu:
        with torch.device("cuda"):
            model = make()
    else:
        model = make()
    model = model.to("cuda").train(mode == "train")
    batch = made_batch(request.inputs, samples)
    targets = made_targets(make, request.inputs, samples) if mode == "train" else None
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    gc.collect()
    gc.disable()
    phases = Phases()
    for _ in range(3):
        if mode == "train":
            train_step(model, batch, targets, optimizer, phases)
        else:
            infer_step(model, batch, phases)
    torch.cuda.synchronize()
    return phases.steps


def run(request: Request, number: int) -> None:
    at = os.path.join(request.output, str(number))
    try:
        steps = steps_of(request, *request.runs[number])
        with open(at + ".json", "w", encoding="utf-8") as out:
            json.dump(steps, out)
    except Exception as e:  # whatever the model's code raises
        with open(at + ".error", "w", encoding="utf-8") as out:
            out.write(f"{type(e).__name__}: {first_line(e)}")


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as asked:
        request = Request(**json.load(asked))
    for number in range(len(request.runs)):
        child = os.fork()  # torch is imported once, and CUDA begins in the children
        if child == 0:
            run(request, number)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()

"""What --verify runs on a simulated GPU: python -m gpuplan.stepped REQUEST.json takes steps of a model, each run in a process
of its own, and writes what PyTorch's allocator says after each phase. REQUEST.json is a Request."""
from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Dict, List, NamedTuple, Optional

import torch
from torch import nn

from gpuplan.asked_type import TYPES, converted
from gpuplan.command_line import SAMPLES, parsed_batch
from gpuplan.construction import constructed
from gpuplan.errors import ExportError
from gpuplan.image_tokens import image_tokens
from gpuplan.run import loss_of
from gpuplan.source_lines import first_line
from gpuplan.stored import is_stored
from gpuplan.target import maker
from gpuplan.values import flat_tensors
from gpuplan.without_data import call_on_batch, on_meta, rows_of_a_sample

# What a plan calls a figure, and torch.cuda.memory_stats().
FIGURES = {"requested": "requested_bytes.all.current", "allocated": "allocated_bytes.all.current", "reserved": "reserved_bytes.all.current",
           "peak_requested": "requested_bytes.all.peak", "peak_allocated": "allocated_bytes.all.peak", "peak_reserved": "reserved_bytes.all.peak"}


STEPS = 3
LABELS = {"labels", "start_positions", "end_positions", "return_loss"}  # of which transformers' models make their loss


@dataclass
class Step:
    """How a step is taken."""

    mode: str = "train"  # or eval
    optimizer: str = "sgd"
    amp: str = ""  # bf16, fp16
    precision: str = "fp32"
    channels_last: bool = False


class StepAt(NamedTuple):
    step: Step
    batch: int


@dataclass
class Request:
    """The command line's words for the model, and what is measured."""

    model: str
    arguments: List[str]
    config: str
    inputs: List[str]
    on_gpu: bool
    runs: List[StepAt]
    output: str = ""  # a folder: N.json of run N is a Measured; or N.error


class Measured(NamedTuple):
    """Of a run."""

    steps: List[Dict[str, Dict[str, int]]]  # of each of three the figures of each phase
    with_labels: bool  # in eval mode: it reads them, and computes its loss


class Phases:
    def __init__(self) -> None:
        self.steps: List[Dict[str, Dict[str, int]]] = []

    def end(self, phase: str) -> None:
        if phase == "start":
            self.steps.append({})
        stats = torch.cuda.memory_stats()
        self.steps[-1][phase] = {name: stats[key] for name, key in FIGURES.items()}
        torch.cuda.reset_peak_memory_stats()


def made_batch(inputs: List[str], samples: int, dtype: torch.dtype = torch.float32, with_labels: bool = True) -> Any:
    """Token 0 everywhere, one token of padding where there is a mask, as the plan of an export assumes, and boxes that have a size."""
    known: Dict[int, torch.Tensor] = {}

    def on_gpu(tensor: torch.Tensor, name: str) -> torch.Tensor:
        if id(tensor) not in known:
            shape = (samples * rows_of_a_sample(tensor, SAMPLES), *tensor.shape[1:])
            known[id(tensor)] = torch.randn(shape, device="cuda").to(dtype) if tensor.is_floating_point() else \
                torch.zeros(shape, dtype=tensor.dtype, device="cuda")
            if "mask" in name:
                known[id(tensor)][:, :-1] = 1
            if "boxes" in name and shape[-1] == 4:
                known[id(tensor)][..., :2], known[id(tensor)][..., 2:] = 8, 40  # corners, which detectors check
        return known[id(tensor)]

    batch = parsed_batch(inputs)
    if isinstance(batch, dict):
        return {name: on_gpu(tensor, name) for name, tensor in batch.items() if with_labels or name not in LABELS}
    return tuple(on_gpu(t, "") for t in batch) if isinstance(batch, tuple) else on_gpu(batch, "")


def reads_labels(make: Callable[[], nn.Module], inputs: List[str]) -> bool:
    """Whether the model is called with labels in eval mode: a decoder is given them, shifted, and some models run only with them. An
    export has the others' eval mode without what their own loss alone reads."""
    batch = parsed_batch(inputs)
    if not isinstance(batch, dict) or not LABELS & batch.keys():
        return False
    try:
        model = on_meta(constructed(make)).eval()
    except ExportError:  # a library's weights, which are nowhere but on the GPU
        return False
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        return True
    return not runs(model, {name: t for name, t in batch.items() if name not in LABELS}) and runs(model, batch)


@torch.no_grad()
def runs(model: nn.Module, batch: Any) -> bool:
    try:
        call_on_batch(model, batch)
    except Exception:  # whatever the model's code raises without data, or without labels
        return False
    return True


def made_targets(make: Callable[[], nn.Module], inputs: List[str], samples: int) -> Callable[[Any], Optional[torch.Tensor]]:
    """Those of CrossEntropyLoss() of the output, which a plan takes where a spec has no loss; made before the first step where
    the model runs without data, else in each. None: the model has its own loss."""
    batch = parsed_batch(inputs)
    if isinstance(batch, dict) and LABELS & batch.keys():
        return lambda out: None  # the model may ask for values, which nothing on meta has
    try:
        with torch.no_grad():
            out = call_on_batch(on_meta(constructed(make)).train(), batch)
    except Exception:  # whatever the model's code raises without data
        return lambda out: targets_of(out, samples)
    made = targets_of(out, samples)
    return lambda out: made


def targets_of(out: Any, samples: int) -> Optional[torch.Tensor]:
    if loss_of(out) is not None:
        return None
    return torch.zeros((samples, *flat_tensors(out)[0].shape[2:]), dtype=torch.int64, device="cuda")


OPTIMIZERS: Dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD, "momentum": partial(torch.optim.SGD, momentum=0.9), "sgd_momentum": partial(torch.optim.SGD, momentum=0.9),
    "nesterov": partial(torch.optim.SGD, momentum=0.9, nesterov=True), "adam": torch.optim.Adam, "amsgrad": partial(torch.optim.Adam, amsgrad=True),
    "adamw": torch.optim.AdamW, "adamw_torch": torch.optim.AdamW, "adamw_torch_fused": partial(torch.optim.AdamW, fused=True),
    "rmsprop": torch.optim.RMSprop, "adagrad": torch.optim.Adagrad, "adadelta": torch.optim.Adadelta,
    "nadam": torch.optim.NAdam, "radam": torch.optim.RAdam, "adamax": torch.optim.Adamax}


def train_step(model: nn.Module, batch: Any, targets: Callable[[Any], Optional[torch.Tensor]], optimizer: torch.optim.Optimizer,
               amp: Any, scaler: Any, end: Callable[[str], None]) -> None:
    """A function: its output and loss are gone when it returns."""
    optimizer.zero_grad()
    end("start")
    with amp():
        out = call_on_batch(model, batch)
        end("forward")
        own = targets(out)
        loss = loss_of(out) if own is None else torch.nn.functional.cross_entropy(flat_tensors(out)[0], own)
    end("loss")
    (loss if scaler is None else scaler.scale(loss)).backward()
    end("backward")
    del out, own, loss
    optimizer.step() if scaler is None else scaler.step(optimizer)
    if scaler is not None:
        scaler.update()
    end("optimizer")


@torch.no_grad()
def infer_step(model: nn.Module, batch: Any, amp: Any, end: Callable[[str], None]) -> None:
    end("start")
    with amp():
        out = call_on_batch(model, batch)
    end("forward")
    del out


def moved(model: nn.Module, precision: str) -> nn.Module:
    """model.to("cuda", dtype), as far as a library's forms take one."""
    if precision == "fp32" or any(is_stored(module) for module in model.modules()):
        return converted(model, precision).to("cuda")
    return model.to("cuda", dtype=TYPES[precision])


def stepping(request: Request, step: Step, samples: int, end: Callable[[str], None]) -> Callable[[], None]:
    """The model on the GPU, and what takes a step of it; end(phase) is called after each phase."""
    torch.manual_seed(0)
    make = maker(request.model, request.arguments, request.config)
    dtype = TYPES[step.precision]
    if request.on_gpu:
        with torch.device("cuda"):
            model = make()
    else:
        model = make()
    model = moved(model, step.precision).train(step.mode == "train")
    if step.channels_last:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    batch = made_batch(request.inputs, samples, dtype, step.mode == "train" or reads_labels(make, request.inputs))
    images = image_tokens(make, batch)
    if images is not None:
        images.put_into(batch["input_ids"])
    if step.channels_last:
        batch = in_channels_last(batch)
    targets = made_targets(make, request.inputs, samples) if step.mode == "train" else None
    amp: Any = partial(torch.autocast, "cuda", dtype=TYPES[step.amp]) if step.amp else contextlib.nullcontext
    gc.collect()
    gc.disable()
    if step.mode != "train":
        return lambda: infer_step(model, batch, amp, end)
    optimizer = OPTIMIZERS[step.optimizer]([p for p in model.parameters() if p.requires_grad], lr=0.001)
    scaler = torch.amp.GradScaler("cuda") if step.amp == "fp16" else None
    return lambda: train_step(model, batch, targets, optimizer, amp, scaler, end)


def in_channels_last(batch: Any) -> Any:
    if isinstance(batch, torch.Tensor):
        return batch.to(memory_format=torch.channels_last) if batch.dim() == 4 else batch
    if isinstance(batch, dict):
        return {name: in_channels_last(value) for name, value in batch.items()}
    return tuple(in_channels_last(value) for value in batch)


def measured(request: Request, step: Step, samples: int) -> Measured:
    phases = Phases()
    take = stepping(request, step, samples, phases.end)
    for _ in range(STEPS):
        take()
    torch.cuda.synchronize()
    labels = step.mode != "train" and reads_labels(maker(request.model, request.arguments, request.config), request.inputs)
    return Measured(phases.steps, labels)


def run(request: Request, number: int) -> None:
    at = os.path.join(request.output, str(number))
    try:
        taken = measured(request, *request.runs[number])
        with open(at + ".json", "w", encoding="utf-8") as out:
            json.dump(taken, out)
    except Exception as e:  # whatever the model's code raises
        with open(at + ".error", "w", encoding="utf-8") as out:
            out.write(f"{type(e).__name__}: {first_line(e)}")


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as asked:
        request = Request(**json.load(asked))
    request.runs = [StepAt(Step(**step), batch) for step, batch in request.runs]
    for number in range(len(request.runs)):
        child = os.fork()  # torch is imported once, and CUDA begins in the children
        if child == 0:
            run(request, number)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()

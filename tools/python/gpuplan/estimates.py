"""gpuplan.estimate() and its kin: plans of a zoo model, a file or a torch.nn.Module."""
from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Union

from gpuplan.errors import GpuplanError, need_torch
from gpuplan.plans import MemoryEstimate, Plan
from gpuplan.program import flags, run, run_json

Model = Union[str, "os.PathLike[str]", Any]  # zoo:NAME, a path, or a torch.nn.Module


def estimate(model: Model, batch: Any = None, *, loss: Optional[Callable[[Any, Any], Any]] = None,
             forward: Optional[Callable[[Any, Any], Any]] = None, optimizer: Any = None, gpu: Optional[str] = None, **options: Any) -> Plan:
    """The plan of a training step (mode="infer": of a forward pass).

    model: "zoo:resnet50", the path of a spec, of Hugging Face's config.json or of an ONNX file; or a torch.nn.Module on any
    device, which is traced without being run on data; or a LightningModule, or a Trainer of Lightning or Hugging Face, as
    what it trains. batch: the number of samples; for a Module an example batch, a tensor or
    a tuple or dict of them whose first dimension is the batch. loss(output, batch): the loss of a Module's output; of a tuple
    the model is given as many tensors as its forward() requires, unless forward(model, batch) calls it. optimizer: a name, or
    an object of torch.optim. options: the flags of `gpuplan plan`, with underscores: amp="bf16", checkpoint="block",
    set={"seq": 512}.

    Raises GpuplanError for wrong input, ExportError for a Module with calls that no layer stands for."""
    with _subject(model, batch, loss, forward, optimizer, options) as (words, given):
        return Plan(run_json(["plan", *words, *flags({**given, "gpu": gpu})]))


def max_batch(model: Model, batch: Any = None, *, gpu: str, loss: Optional[Callable[[Any, Any], Any]] = None,
              forward: Optional[Callable[[Any, Any], Any]] = None, optimizer: Any = None, **options: Any) -> int:
    """The largest batch that fits the GPU; 0 where one sample does not. batch: an example batch, of a Module."""
    with _subject(model, batch, loss, forward, optimizer, options) as (words, given):
        given.pop("batch", None)
        answer = run_json(["fit", *words, *flags({**given, "on": gpu})])["gpus"][0]
    if answer["refused"]:
        raise GpuplanError(str(answer["refused"]), exit_code=3)
    return int(answer["largest"]["batch"]) if answer["largest"] else 0


def sweep(model: Model, batch: Union[int, Iterable[int]] = 1, **options: Any) -> List[Dict[str, Any]]:
    """A plan for each combination of the options that are lists: sweep("zoo:gpt2", batch=[8, 16], precision=["fp32", "bf16"]).
    Rows as `gpuplan sweep --format json` writes them. "amp-bf16" as a precision is amp="bf16"."""
    options["batch"] = batch
    lists = {name: list(value) for name, value in options.items() if isinstance(value, (list, tuple, range))}
    plain = {name: value for name, value in options.items() if name not in lists}
    amps = [value[4:] for value in lists.get("precision", ()) if str(value).startswith("amp-")]
    rows: List[Dict[str, Any]] = []
    for chosen in ({}, *({"amp": amp} for amp in amps)):
        over = dict(lists)
        if "precision" in over:
            kept = [value for value in over["precision"] if not str(value).startswith("amp-")]
            over["precision"] = ["fp32"] if chosen else kept
            if not over["precision"]:
                continue
        words = [word for name, values in over.items() for word in ("--over", f"{name.replace('_', '-')}={','.join(map(str, values))}")]
        text = run(["sweep", os.fspath(model), *words, *flags({**plain, **chosen}), "--format", "json"])
        rows += [{**row, **chosen} for row in map(json.loads, text.splitlines())]
    return rows


def diff(base: Union[str, "os.PathLike[str]"], now: Union[str, "os.PathLike[str]"], **options: Any) -> Dict[str, Any]:
    """What a change costs: two files, zoo models or commits, as `gpuplan diff --format json` writes it."""
    return run_json(["diff", os.fspath(base), os.fspath(now), *flags(options)])


def estimate_memory(model: Any, sample_input: Any, optimizer: Any = None, **options: Any) -> MemoryEstimate:
    """As https://github.com/pytorch/rfcs/issues/108 has it: estimate_memory(model, x, optimizer=opt).fits(device=0)."""
    def plan_on(gpu: Optional[str]) -> Plan:
        return estimate(model, sample_input, optimizer=optimizer, gpu=gpu, **options)

    return MemoryEstimate(plan_on(None), plan_on)


@contextmanager
def _subject(model: Model, batch: Any, loss: Any, forward: Any, optimizer: Any, options: Dict[str, Any]) -> "Iterator[Any]":
    """The model's word for the program, and the options as flags have them."""
    if isinstance(model, (str, os.PathLike)):
        if loss is not None or forward is not None:
            raise GpuplanError("loss= and forward= are a torch.nn.Module's: a file says which loss it has", exit_code=2)
        yield [os.fspath(model)], {"batch": batch, **_optimizer(optimizer), **options}
        return
    need_torch()
    from gpuplan.asked_type import AskedType
    from gpuplan.modules import batch_size, exported, is_module, module_flags, warn_of_parameters_left_out
    from gpuplan.trainers import training_of

    training = training_of(model, batch, optimizer, str(options.get("mode", "train")))
    settings: Dict[str, Any] = {}
    if training is not None:
        model, batch, optimizer, settings = training.model, training.batch, training.optimizer, training.flags
        loss, forward = loss or training.loss, forward or training.forward
    if not is_module(model):
        raise GpuplanError(f"the model is of type {type(model).__name__}, expected a torch.nn.Module, the path of a file, or zoo:NAME", exit_code=2)
    if batch is None or isinstance(batch, int):
        raise GpuplanError("a torch.nn.Module needs an example batch, such as torch.zeros(64, 3, 224, 224)", exit_code=2)
    if hasattr(optimizer, "param_groups"):
        warn_of_parameters_left_out(model, optimizer)
    given = {**module_flags(model), **_optimizer(optimizer), **settings, **options}
    modes = ("eval",) if given.get("mode") == "infer" else ("train",)
    asked = AskedType(given.get("precision") or "fp32", given.get("amp") or "")
    with exported(model, batch, loss, forward, modes, asked) as path:
        # A trainer accumulates gradients over so many batches; a plan's batch is that of the whole step.
        yield [path], {"batch": batch_size(batch) * (settings.get("micro_batches") or 1), **given}


def _optimizer(optimizer: Any) -> Dict[str, Any]:
    if isinstance(optimizer, str) or optimizer is None:
        return {"optimizer": optimizer}
    from gpuplan.modules import optimizer_flags

    return optimizer_flags(optimizer)

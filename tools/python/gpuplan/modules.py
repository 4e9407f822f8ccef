"""A torch.nn.Module, an example batch and an optimizer, as the program is told of them: a spec and flags."""
from __future__ import annotations

import inspect
import os
import re
import tempfile
import warnings
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

from contextlib import contextmanager

import torch
from torch import nn

from gpuplan.asked_type import AskedType
from gpuplan.errors import ExportError, GpuplanError
from gpuplan.header import of_other_types
from gpuplan.program import run
from gpuplan.run import returned_loss
from gpuplan.spec import export
from gpuplan.values import flat_tensors

Loss = Callable[[Any, Any], torch.Tensor]


@contextmanager
def exported(model: nn.Module, batch: Any, loss: Optional[Loss], forward: Optional[Callable[[nn.Module, Any], Any]],
             modes: Tuple[str, ...], asked: AskedType) -> Iterator[str]:
    """The path of the model's spec, while the block runs. asked: the type of the plan, for code that asks for its own."""
    batch = tuple(batch) if isinstance(batch, list) else batch
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, type(model).__name__ + ".yaml")
        options: Dict[str, Any] = {"modes": modes}
        if loss is returned_loss:
            options.update(loss=loss, forward=forward)
        elif loss is not None:
            options["loss"] = lambda model, output, given: _scalar(loss(output, given), model.training)
            options["forward"] = forward or _on_inputs
        elif forward is not None:
            options["forward"] = forward
        try:
            text = export(model, batch, output=path, **options)
            if of_other_types(text, [asked.precision, asked.amp]) != text:
                export(model, batch, output=path, asked=asked, **options)
        except ExportError as error:
            raise _own(error) from None
        yield path


def _own(error: BaseException) -> GpuplanError:
    """What ended the export: an error of _scalar(), which the export took for the model's, or its own."""
    cause: Optional[BaseException] = error
    while cause is not None:
        if isinstance(cause, GpuplanError) and not isinstance(cause, ExportError):
            return cause
        cause = cause.__cause__
    assert isinstance(error, GpuplanError)
    return error


def is_module(model: Any) -> bool:
    return isinstance(model, nn.Module)


def batch_size(batch: Any) -> int:
    return int(flat_tensors(batch)[0].shape[0])


def _scalar(loss: Any, training: bool) -> Optional[torch.Tensor]:
    if isinstance(loss, torch.Tensor) and loss.dim() == 0 or loss is None and not training:  # in evaluation a model may compute none
        return loss
    kind = f"a tensor with {loss.dim()} dimensions" if isinstance(loss, torch.Tensor) else f"a {type(loss).__name__}"
    raise GpuplanError(f"loss() returned {kind}, expected a tensor without dimensions", help="loss=lambda output, batch: ...", exit_code=3)


def _on_inputs(model: nn.Module, batch: Any) -> Any:
    """Of a tuple the model gets as many tensors as its forward() requires: the others are the loss's."""
    if not isinstance(batch, tuple):
        return model(**batch) if hasattr(batch, "keys") else model(batch)
    taken = [p for p in inspect.signature(model.forward).parameters.values()
             if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty]
    return model(*batch[:max(1, len(taken))])


def bitsandbytes_name(optimizer: Any) -> str:
    """paged_adamw8bit: AdamW(optim_bits=8, is_paged=True) is one, as PagedAdamW8bit is."""
    rule = type(optimizer).__name__.lower().replace("paged", "").replace("8bit", "").replace("32bit", "")
    return f"{'paged_' if optimizer.is_paged else ''}{rule}{'8bit' if optimizer.args.optim_bits == 8 else '_bnb'}"


def class_of_torch(optimizer: Any) -> type:
    """torch.optim's class whose step it takes. Another library's may have the same name and other states: torchao's AdamW8bit,
    timm's Lion, transformers' Adafactor."""
    own = next((base for base in type(optimizer).__mro__ if (base.__module__ + ".").startswith("torch.optim.")), None)
    if own is not None and inspect.unwrap(type(optimizer).step) is inspect.unwrap(own.step):
        return own
    full_name = f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"
    raise GpuplanError(f"{full_name} is neither an optimizer of torch.optim nor of bitsandbytes",
                       help=f'optimizer="{full_name}(...)" records its steps, where torch is a build for CUDA', exit_code=3)


def optimizer_flags(optimizer: torch.optim.Optimizer) -> Dict[str, Any]:
    """What the program calls an optimizer and how it is built: its class, momentum, amsgrad, weight decay, foreach or fused.
    Warns of what a plan has no flag for."""
    if type(optimizer).__module__.startswith("bitsandbytes."):
        return {"optimizer": bitsandbytes_name(optimizer)}
    name, groups = class_of_torch(optimizer).__name__.lower(), optimizer.param_groups
    options: Dict[str, Any] = dict(groups[0]) if groups else {}
    if name == "sgd" and options.get("momentum"):
        name = "nesterov" if options.get("nesterov") else "sgd_momentum"
    if name in ("adam", "adamw") and options.get("amsgrad"):
        name = "amsgrad"
    for setting in ("maximize", "capturable", "differentiable"):
        if any(group.get(setting) for group in groups):
            warnings.warn(f"{type(optimizer).__name__}({setting}=True) is planned without it: its temporary tensors differ", stacklevel=5)
    flags: Dict[str, Any] = {"optimizer": name}
    if name not in ("adamw",) and any(group.get("weight_decay") for group in groups):
        flags["weight_decay"] = True
    if options.get("fused"):
        flags["opt_impl"] = "fused"
    elif options.get("foreach") is False:
        flags["opt_impl"] = "for-loop"
    return flags


def warn_of_parameters_left_out(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """A plan's optimizer has every parameter that requires a gradient."""
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    trained = [p for p in model.parameters() if p.requires_grad]
    left_out = sum(id(p) not in held for p in trained)
    if left_out:
        warnings.warn(f"the optimizer lacks {left_out} of the model's {len(trained)} parameters that require a gradient: planned as if it "
                      "had them, which is too high", stacklevel=5)


def pytorch_flag() -> Optional[str]:
    """The installed release of PyTorch, whose rules are then planned with."""
    words = re.search(r"rules of .*?(\d+)\.(\d+) to (\d+)\.(\d+)|$", run(["version", "-v"]))
    here = re.match(r"(\d+)\.(\d+)", torch.__version__)
    if not words or not words[1] or not here:
        return None
    release = int(here[1]), int(here[2])
    if release < (1, 13):
        raise GpuplanError(f"PyTorch {torch.__version__} is older than 1.13, the oldest that gpuplan exports of", exit_code=4)
    if release > (int(words[3]), int(words[4])):
        warnings.warn(f"planned with the rules of PyTorch {words[3]}.{words[4]}: this is {torch.__version__}, which gpuplan does not know",
                      stacklevel=4)
        return None
    return f"{release[0]}.{release[1]}"


def module_flags(model: nn.Module) -> Dict[str, Any]:
    """The installed PyTorch, the precision of the model's weights, and the layout of its convolutions."""
    places = {p.device.type for p in model.parameters()}
    if "meta" in places and len(places) > 1:
        raise GpuplanError(f"the model's parameters lie on {' and '.join(sorted(places))}: all of them can, or none",
                           help='model.to_empty(device="cpu"), or build it under torch.device("meta")', exit_code=3)
    flags: Dict[str, Any] = {"pytorch": pytorch_flag()}
    words = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float64: "fp64"}
    kinds = [words[p.dtype] for p in model.parameters() if p.dtype in words]
    if kinds:
        flags["precision"] = kinds[0]
    if any(p.dim() == 4 and p.is_contiguous(memory_format=torch.channels_last) and not p.is_contiguous() for p in model.parameters()):
        flags["layout"] = "nhwc"
    return flags

"""The type that a model is asked for in. Most exports answer every type, since the plan chooses it; code that asks for its own is run as in
one of them."""
from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from gpuplan.stored import is_float8, is_stored

TYPES = {"fp32": torch.float32, "fp64": torch.float64, "bf16": torch.bfloat16, "fp16": torch.float16}


class AskedType(NamedTuple):
    precision: str = "fp32"  # of the model and of what it is given
    amp: str = ""  # what autocast is to

    def word(self) -> str:
        return f"amp-{self.amp}" if self.amp else self.precision


def converted(model: nn.Module, precision: str) -> nn.Module:
    """model.to(dtype), in place; a library's forms take no other type, and transformers refuses to be asked."""
    if precision == "fp32":
        return model
    if not any(is_stored(module) for module in model.modules()):
        return model.to(dtype=TYPES[precision])
    for module in model.modules():
        for tensor in [*module._parameters.values(), *module._buffers.values()]:
            if type(tensor) in (torch.Tensor, nn.Parameter) and tensor.is_floating_point() and not is_float8(tensor.dtype):
                tensor.data = tensor.data.to(TYPES[precision])
    return model


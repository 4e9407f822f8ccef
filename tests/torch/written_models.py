"""Layers as people write them by hand, for export_check.py: written:NAME. What an export can lose in them is what fp32 does not
show: copies of x.float() and y.to(x.dtype), and norms that autocast gives another type than their input's.

A model may have a `criterion`, which makes the loss of its output and the classes.
"""
from __future__ import annotations

import math
from typing import Callable, Dict, Tuple

import torch
import torch.nn.functional as F
from torch import nn

TOKENS, WIDTH, CLASSES = 64, 256, 10


class Classifier(nn.Module):
    """One layer between two products, of [batch, tokens, width]."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.inner, self.layer, self.head = nn.Linear(WIDTH, WIDTH), layer, nn.Linear(WIDTH, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(self.inner(x)).mean(1))


class Weighted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))


class NormOfCopy(Weighted):
    """x stays as it is beside its copy."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        variance = x.float().pow(2).mean(-1, keepdim=True)
        return x * torch.rsqrt(variance + 1e-6) * self.weight


class NormByName(Weighted):
    """As transformers' norms: the name of the copy is x's, the type is a variable."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        given = x.dtype
        x = x.to(torch.float32)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * x.to(given)


class NormOfFunction(Weighted):
    """As Llama's own code has it."""

    @staticmethod
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scaled(x.float()).type_as(x) * self.weight


class NormOfCopies(Weighted):
    """Of weights that are copied, too."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.layer_norm(x.float(), (WIDTH,), self.weight.float(), self.bias.float()).to(x.dtype)
        z = F.rms_norm(y.float(), (WIDTH,), self.weight.float()).to(y.dtype)
        return F.group_norm(z.float().transpose(1, 2), 8, self.weight.float()).to(z.dtype).transpose(1, 2)


class Erf(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


class ResponseNorm(Weighted):
    """Of ConvNeXt V2 (timm's GlobalResponseNorm), over tokens."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        norm = x.norm(p=2, dim=1, keepdim=True)
        return x + self.bias + self.weight * x * (norm / (norm.mean(dim=-1, keepdim=True) + 1e-6))


class UnitRows(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / torch.linalg.vector_norm(x, dim=-1).unsqueeze(-1)


class GroupsWithoutBias(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, WIDTH)
        self.norm.bias = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


def with_loss(criterion: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> nn.Module:
    model = Classifier(nn.ReLU())
    model.criterion = criterion
    return model


MODELS: Dict[str, Callable[[], nn.Module]] = {
    "norm_of_copy": lambda: Classifier(NormOfCopy()),
    "norm_by_name": lambda: Classifier(NormByName()),
    "norm_of_function": lambda: Classifier(NormOfFunction()),
    "norm_of_copies": lambda: Classifier(NormOfCopies()),
    "erf": lambda: Classifier(Erf()),
    "response_norm": lambda: Classifier(ResponseNorm()),
    "unit_rows": lambda: Classifier(UnitRows()),
    "groups_without_bias": lambda: Classifier(GroupsWithoutBias()),
    "mean_of_losses": lambda: with_loss(lambda out, classes: F.cross_entropy(out, classes, reduction="none").mean()),
}


def written(name: str) -> Tuple[nn.Module, torch.Tensor]:
    """The model and a batch without data, of two samples."""
    return MODELS[name](), torch.empty(2, TOKENS, WIDTH, device="meta")

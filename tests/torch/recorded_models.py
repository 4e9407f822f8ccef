"""Models of operators that have no layer, for recorded_operators.sh: each is exported with what a simulated GPU recorded."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Volumes(nn.Module):
    """A small 3-D U-Net: [3, 16, 16, 16]."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Sequential(nn.Conv3d(3, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU())
        self.down = nn.Sequential(nn.MaxPool3d(2), nn.Conv3d(8, 16, 3, padding=1), nn.InstanceNorm3d(16, affine=True), nn.Hardshrink(), nn.Dropout3d(0.1))
        self.up = nn.ConvTranspose3d(16, 8, 2, stride=2)
        self.out = nn.Sequential(nn.ReplicationPad3d(1), nn.Conv3d(16, 8, 3), nn.Softshrink(), nn.AvgPool3d(2), nn.AdaptiveAvgPool3d(4))
        self.head = nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.into(x)
        x = self.out(torch.cat([x, self.up(self.down(x))], dim=1))
        return self.head(x.flatten(2).amax(-1))


class Sequences(nn.Module):
    """[8, 64]."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(8, 16, 3), nn.InstanceNorm1d(16, affine=True), nn.RReLU(), nn.CircularPad1d(2), nn.Conv1d(16, 16, 3),
                                    nn.Dropout1d(0.2), nn.ReflectionPad1d(3), nn.LPPool1d(2, 2), nn.ReplicationPad1d(1), nn.Threshold(0.1, 0.0))
        self.head = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layers(x)
        return self.head(torch.logcumsumexp(x, dim=-1).std(-1))


class Images(nn.Module):
    """[3, 24, 24]."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Conv2d(3, 8, 3, padding=1)
        self.grid = nn.Linear(8, 2)
        self.pads = nn.Sequential(nn.ReplicationPad2d(1), nn.CircularPad2d(2), nn.LocalResponseNorm(4))
        self.pool = nn.MaxPool2d(2, return_indices=False)
        self.head = nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.into(x)
        x = F.grid_sample(x, self.grid(x.permute(0, 2, 3, 1)).tanh(), align_corners=False)
        x = self.pads(x)
        low, high = torch.aminmax(x.flatten(2), dim=-1)
        return self.head(x.flatten(2).var(-1) + low + high)


class Pairs(nn.Module):
    """[12, 16]: rows beside rows."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(16, 16), nn.Linear(16, 16)
        self.both = nn.Bilinear(16, 16, 8)
        self.head = nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = self.one(x), self.other(x)
        near = F.cosine_similarity(a, b, dim=-1) + F.pairwise_distance(a, b) + torch.cdist(a, b).mean(-1)
        return self.head((self.both(a, b) * near.unsqueeze(-1)).sum(1))


class Orders(nn.Module):
    """[12, 16]: what a model does to values and their places."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.head = nn.Linear(16, 32), nn.Linear(32, 10)
        self.register_buffer("bounds", torch.linspace(-1, 1, 9))
        self.bins = nn.Embedding(10, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.into(x)
        x = x + self.bins(torch.bucketize(x.mean(-1).detach(), self.bounds))
        x = x * x.cumprod(-1).sign() + torch.atan2(x, x + 1)
        best = x.kthvalue(3, dim=1).values + x.median(dim=1).values + x.logaddexp(x * 2).nanmean(1)
        return self.head(best)


class Turned(nn.Module):
    """[12, 16]: positions as complex numbers, as the code that LLaMA was published with has them."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.head = nn.Linear(16, 32), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        angles = torch.outer(torch.arange(12, device=x.device).float(), 0.1 ** torch.arange(8, device=x.device).float())
        turns = torch.polar(torch.ones_like(angles), angles)
        y = self.into(x).view(-1, 12, 2, 16)
        turned = torch.view_as_complex(y.float().reshape(*y.shape[:-1], -1, 2)) * turns[:, None, :]
        return self.head(torch.view_as_real(turned).flatten(2).type_as(y).mean(1))


class Distilled(nn.Module):
    """[12, 16]: a model whose forward computes a loss of its own, of what it was given and of what it computed."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.back = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> dict:
        hidden = F.relu(self.into(x))
        y, taught = self.back(hidden), self.back(hidden.detach() * 2).detach()
        loss = F.mse_loss(y, x) + F.smooth_l1_loss(y, taught) + F.kl_div(F.log_softmax(y, -1), F.softmax(taught, -1), reduction="batchmean")
        return {"y": y, "loss": loss}

#!/usr/bin/env python3
"""Modules of torch.nn that are exported as their parts, or that keep something: steps beside PyTorch's, to the byte.

    gpuplan shadow --gpu h200 -q --scratch no-cudnn -- python tests/torch/export_modules.py --gpuplan build/gpuplan [NAME...]

Compared is what export_shadow.py compares, of a training step with Adam, one under autocast to bfloat16 and an inference.
Exits with 1 where a figure differs.
"""
from __future__ import annotations

import argparse
import gc
import os
import sys
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, str(Path(__file__).resolve().parent))
import export_check  # noqa: E402
import export_shadow  # noqa: E402

SHAPE = (40, 64)  # of a sample: 40 rows of 64


class Cross(nn.Module):
    """Attention of a sequence over another one."""

    def __init__(self, masks: bool = False, weights: bool = True, kdim: Optional[int] = None, first: bool = True):
        super().__init__()
        self.memory = nn.Linear(64, kdim or 64)
        self.attention = nn.MultiheadAttention(64, 4, dropout=0.1, batch_first=first, kdim=kdim, vdim=kdim)
        self.head, self.masks, self.weights, self.first = nn.Linear(64, 100), masks, weights, first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        memory, query = F.relu(self.memory(x[:, :24])), x * 2
        if not self.first:
            memory, query = memory.transpose(0, 1), query.transpose(0, 1)
        given: Dict[str, Any] = {}
        if self.masks:
            given = {"attn_mask": torch.zeros(40, 24, device=x.device),
                     "key_padding_mask": torch.zeros(len(x), 24, dtype=torch.bool, device=x.device)}
        y, _ = self.attention(query, memory, memory, need_weights=self.weights, **given)
        y = query + y
        return self.head((y if self.first else y.transpose(0, 1)).mean(1))


class Translator(nn.Module):
    """nn.Transformer with the causal mask as a buffer."""

    def __init__(self, norm_first: bool = False):
        super().__init__()
        self.transformer = nn.Transformer(64, 4, 2, 2, 128, batch_first=True, norm_first=norm_first)
        self.head = nn.Linear(64, 100)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(40))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.transformer(x, x * 2, tgt_mask=self.mask).mean(1))


class Steps(nn.Module):
    """Four steps of a recurrence."""

    def __init__(self, cell: nn.Module, state: bool = True):
        super().__init__()
        self.cell, self.head, self.start, self.state = cell, nn.Linear(80, 100), nn.Linear(64, 80), state

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.start(x[:, 0]) if self.state else None
        c = h * 2 if h is not None else None
        for i in range(4):
            if isinstance(self.cell, nn.LSTMCell):
                h, c = self.cell(x[:, i], None if h is None else (h, c))
            else:
                h = self.cell(x[:, i], h)
        return self.head(h)


class Bags(nn.Module):
    def __init__(self, mode: str, length: int):
        super().__init__()
        self.table, self.head, self.length = nn.EmbeddingBag(5000, 64, mode=mode), nn.Linear(64, 100), length

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.table(torch.zeros(len(x), self.length, dtype=torch.int64, device=x.device)))


class Keeps(nn.Module):
    """A tensor in an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(64, 96), nn.Linear(96, 100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = F.relu(self.a(x))
        return self.b(self.last.mean(1))


class Widened(nn.LayerNorm):
    """fairseq's."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x.float(), self.normalized_shape, self.weight.float(), self.bias.float(), self.eps).type_as(x)


class Triangles(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(64, 64), nn.Linear(64, 100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.a(x)
        return self.b((torch.tril(y) + y.triu(1)).mean(1))


class Blocks(nn.Module):
    """Checkpointed ones, with a residual or without."""

    def __init__(self, reentrant: bool, residual: bool):
        super().__init__()
        self.stem, self.head, self.reentrant, self.residual = nn.Linear(64, 96), nn.Linear(96, 100), reentrant, residual
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(96), nn.Linear(96, 384), nn.GELU(), nn.Dropout(0.1), nn.Linear(384, 96))
                                    for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = checkpoint(lambda y, f=block: y + f(y) if self.residual else f(y), x, use_reentrant=self.reentrant)
        return self.head(x.mean(1))


def frozen_weights(*modules: nn.Module) -> nn.Module:
    """Of the linear layers and convolutions but the last; their biases are trained."""
    for module in modules[:-1]:
        if hasattr(module, "weight"):
            module.weight.requires_grad_(False)
    return nn.Sequential(*modules)


def normed(norm: Callable) -> nn.Module:
    return nn.Sequential(norm(nn.Conv1d(40, 96, 3)), nn.ReLU(), norm(nn.Linear(62, 96)), nn.Flatten(), nn.Linear(96 * 96, 100))


MODELS: Dict[str, Callable[[], nn.Module]] = {
    "attention": Cross,
    "attention without weights": lambda: Cross(weights=False),
    "attention with masks": lambda: Cross(masks=True),
    "attention with masks, without weights": lambda: Cross(masks=True, weights=False),
    "attention over another size": lambda: Cross(kdim=48),
    "attention, sequence first": lambda: Cross(first=False),
    "Transformer": Translator,
    "Transformer, norm first": lambda: Translator(True),
    "LSTMCell": lambda: Steps(nn.LSTMCell(64, 80)),
    "LSTMCell without a bias": lambda: Steps(nn.LSTMCell(64, 80, bias=False)),
    "LSTMCell from zeros": lambda: Steps(nn.LSTMCell(64, 80), False),
    "GRUCell": lambda: Steps(nn.GRUCell(64, 80)),
    "GRUCell without a bias": lambda: Steps(nn.GRUCell(64, 80, bias=False)),
    "GRUCell from zeros": lambda: Steps(nn.GRUCell(64, 80), False),
    "RNNCell": lambda: Steps(nn.RNNCell(64, 80)),
    "RNNCell, relu, from zeros": lambda: Steps(nn.RNNCell(64, 80, nonlinearity="relu"), False),
    "EmbeddingBag": lambda: Bags("mean", 20),
    "EmbeddingBag of long bags": lambda: Bags("sum", 500),
    "EmbeddingBag of maxima": lambda: Bags("max", 20),
    "sizes that are alike": lambda: nn.Sequential(nn.Unflatten(2, (8, 8)), nn.LayerNorm((8, 8)), nn.Flatten(2), nn.Linear(64, 100)),
    "weight_norm": lambda: normed(nn.utils.weight_norm),
    "weight_norm as a parametrization": lambda: normed(nn.utils.parametrizations.weight_norm),
    "an attribute": Keeps,
    "frozen weights of linear layers": lambda: frozen_weights(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Flatten(),
                                                              nn.Linear(96 * 40, 100)),
    "frozen weights of convolutions": lambda: frozen_weights(nn.Conv1d(40, 96, 3), nn.ReLU(), nn.Conv1d(96, 96, 3), nn.Flatten(),
                                                             nn.Linear(96 * 60, 100)),
    "float() of a norm's weights": lambda: nn.Sequential(nn.Linear(64, 96), Widened(96), nn.Linear(96, 96), nn.Flatten(),
                                                         nn.Linear(96 * 40, 100)),
    "triu and tril": Triangles,
    "checkpoints": lambda: Blocks(False, False),
    "checkpoints that reenter": lambda: Blocks(True, False),
    "residual checkpoints that reenter": lambda: Blocks(True, True),
}
MODES = ("train", "bf16", "infer")


def compare(name: str, mode: str, options: argparse.Namespace) -> None:
    model = MODELS[name]()
    case = export_check.Case(model, torch.empty((2,) + SHAPE, device="meta"))
    run = argparse.Namespace(batch=8, infer=mode == "infer", amp=mode == "bf16", optimizer="adam", scratch="no-cudnn")
    planned = export_shadow.planned_phases(options.gpuplan, case, run)
    shape = export_shadow.output_shape(case)
    gc.disable()
    moved = model.train().to("cuda")
    batch = torch.zeros((run.batch,) + SHAPE, device="cuda")
    phases = export_shadow.Phases()
    if run.infer:
        export_shadow.infer(moved, batch, phases)
    else:
        export_shadow.train(moved, batch, shape, phases, run.optimizer, run.amp)
    wrong, count = export_shadow.differences(phases.steps[-1], planned)
    print("\n  ".join([f"{'FAIL' if wrong else 'ok  '}  {name}, {mode}: {count - len(wrong)} of {count} figures equal"] + wrong))
    if wrong:
        raise AssertionError


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpuplan", default="build/gpuplan")
    parser.add_argument("--modes", nargs="+", default=MODES, choices=MODES)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    # What a mask holds is not there under `gpuplan shadow`; the exporter takes square ones to be causal.
    nn.modules.transformer._detect_is_causal_mask = lambda mask, is_causal=None, size=None: mask is not None and mask.dim() == 2
    results: List[bool] = []
    for name in options.names or MODELS:
        for mode in options.modes:
            results.append(in_own_process(name, mode, options))
    print(f"{sum(results)} of {len(results)} runs equal")
    return int(not all(results))


def in_own_process(name: str, mode: str, options: argparse.Namespace) -> bool:
    """Every run begins with an allocator that holds nothing."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            compare(name, mode, options)
            status = 0
        except AssertionError:
            pass
        except Exception as e:  # of the exporter, the plan or PyTorch
            print(f"FAIL  {name}, {mode}: {type(e).__name__}: {str(e)[:500]} {str(getattr(e, 'stderr', ''))[:500]}")
        finally:
            sys.stdout.flush()
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0


if __name__ == "__main__":
    sys.exit(main())

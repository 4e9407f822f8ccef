#!/usr/bin/env python3
"""Models whose step is not what their modules say: each is exported as it runs, or refused by one error that says why.

    python tests/torch/export_hostile.py --gpuplan build/gpuplan [NAME...]

Of what is exported, parameters and buffers are compared with the model's tensors, and the spec has the lines that are
named; of what is refused, the error has the words that are named, and nothing is written. Runs on every release of PyTorch
that the exporter does; a case that a release cannot make is skipped and named. Exits with 1 where one is otherwise.
"""
from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools/python"))
import gpuplan as exporter  # noqa: E402
from gpuplan.asked_type import AskedType  # noqa: E402


class Net(nn.Module):
    """Two products; `between` is what runs between them."""

    def __init__(self, between: Callable[["Net", torch.Tensor], Any] = lambda net, x: F.relu(x), cell: Any = None):
        super().__init__()
        self.cell = cell
        self.a, self.b, self.between = nn.Linear(8, 16), nn.Linear(16, 8), between
        self.register_buffer("average", torch.zeros(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.between(self, self.a(x)))


class Returning(nn.Module):
    """What its forward returns is made of the result."""

    def __init__(self, made: Callable[[torch.Tensor], Any]):
        super().__init__()
        self.a, self.made = nn.Linear(8, 8), made

    def forward(self, x: torch.Tensor) -> Any:
        return self.made(self.a(x))


class Reading(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.table(x) * self.table.weight.mean()


class Widening(nn.Module):
    """A norm as people write it; in half precision it has the type that it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (self.weight * y).to(x.dtype)


@dataclasses.dataclass
class Output:
    __slots__ = ("logits", "other")
    logits: torch.Tensor
    other: Any


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return 2 * gradient * ctx.saved_tensors[0]


square = Square.apply


def hooked() -> nn.Module:
    model = Net()
    model.a.register_forward_hook(lambda module, given, result: result * 2)
    return model


def hooked_before() -> nn.Module:
    model = Net()
    model.b.register_forward_pre_hook(lambda module, given: (given[0] * 2,))
    return model


def replaced_forward() -> nn.Module:
    model = Net()
    original = model.a.forward
    model.a.forward = lambda x: original(x) * 2
    return model


def with_child(changed: Callable[[nn.Linear], nn.Module]) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        model = Net()
        model.a = changed(model.a)
        return model
    return make


def called_twice() -> nn.Module:
    block = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU())
    return nn.Sequential(block, block)


def without_gradient() -> nn.Module:
    class Head(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                features = F.relu(self.a(x))
            return self.b(features)
    return Head()


def checks_values(net: Net, x: torch.Tensor) -> torch.Tensor:
    if not torch.isfinite(x).all():
        x = x.clamp(-1, 1)
    assert (x.detach() != 0).sum().max().item() <= x.numel()
    assert not (x.detach() > 1e9).any(), "too large"
    if not (x.detach() < 1e9).all():
        raise ValueError("too large")
    return F.relu(x)


def turns_autocast_on(net: Net, x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        return F.relu(x)


def turns_autocast_off(net: Net, x: torch.Tensor) -> torch.Tensor:
    with torch.autocast(x.device.type, enabled=False):
        return F.relu(x)


def keeps(net: Net, x: torch.Tensor) -> torch.Tensor:
    net.last = F.relu(x)
    return net.last


def keeps_view(net: Net, x: torch.Tensor) -> torch.Tensor:
    x = F.relu(x)
    net.last = x.view(-1)
    return x


class Cells(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru, self.rnn = nn.LSTMCell(8, 16), nn.GRUCell(16, 16), nn.RNNCell(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h, c = self.lstm(x)
        return self.rnn(self.gru(h, c))


class Crossed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)
        self.memory = nn.Linear(8, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        memory = self.memory(x).view(-1, 3, 8)
        return self.attention(x.unsqueeze(1), memory, memory, need_weights=False)[0]


def bias_alone() -> nn.Module:
    model = Net()
    model.a.weight.requires_grad_(False)
    return model


class Null(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.null = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.null(x) + x


def named_null() -> nn.Module:
    return nn.Sequential(Null(), Null())


def averages(net: Net, x: torch.Tensor) -> torch.Tensor:
    net.average.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
    return x


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(3))
        self.reentrant = reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.reentrant)
        return x


def counting() -> nn.Module:
    class Counting(Net):
        runs = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.runs += 1
            x = self.a(x)
            for _ in range(self.runs):
                x = x * 2
            return self.b(x)
    return Counting()


def of_two_types() -> nn.Module:
    model = Net()
    model.b = model.b.to(torch.bfloat16)
    return model


def requires(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    y = x.detach()
    y.requires_grad = True
    return y * 2


def asks_for_device(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    on_gpu = torch.tanh(x) if x.device.type == "cuda" else F.relu(x)
    return torch.sigmoid(on_gpu) if x.is_cuda else F.relu(on_gpu)


ROWS, IMAGES = torch.zeros(2, 8), torch.zeros(2, 3, 8, 8)
Made = Tuple[Callable[[], nn.Module], Any, List[str]]

# What the spec has.
EXPORTED: Dict[str, Made] = {
    "a hook after a layer": (hooked, ROWS, ["Linear(8, 16)", "Mul(other=2)"]),
    "a hook before a layer": (hooked_before, ROWS, ["Mul(other=2)"]),
    "no_grad over a part": (without_gradient, ROWS, ['grad: false}']),
    "autocast turned off": (lambda: Net(turns_autocast_off), ROWS, ["{op: \"ReLU()\", autocast: false"]),
    "checks that a healthy run passes": (lambda: Net(checks_values), ROWS, ["# Taken to pass", "where values are not finite", "op: \"ReLU()\""]),
    "a tensor in an attribute": (lambda: Net(keeps), ROWS, ["Attribute()"]),
    "a view in an attribute": (lambda: Net(keeps_view), ROWS, ["Attribute()"]),
    "an attribute in a checkpoint": (lambda: Net(lambda net, x: checkpoint(lambda y: keeps(net, y) * 2, x, use_reentrant=False)), ROWS,
                                    ["stays alive after the step"]),
    "weight_norm": (with_child(nn.utils.weight_norm), ROWS, ["WeightNorm()", "Attribute()"]),
    "weight_norm as a parametrization": (with_child(lambda a: nn.utils.parametrizations.weight_norm(a)), ROWS, ["WeightNorm()"]),
    "cells": (Cells, ROWS, ["LSTMCell(8, 16)", "GRUCell(16, 16)", "RNNCell(16, 8)"]),
    "bags of indices": (lambda: nn.Sequential(nn.EmbeddingBag(9, 8), nn.Linear(8, 4)), torch.zeros(2, 5, dtype=torch.int64), ["EmbeddingBag(9, 8)"]),
    "a norm that computes in fp32": (lambda: nn.Sequential(nn.Linear(8, 8), Widening()), ROWS, ['op: "TypeAs()", from: [mul_2, input]']),
    "attention of two tensors": (Crossed, ROWS, ["Split(", "ScaledDotProductAttention(dropout_p=0.1)"
                                                 if hasattr(F, "scaled_dot_product_attention") else "Softmax(-1)"]),
    "a frozen weight and a trained bias": (bias_alone, ROWS, ["frozen: true", "a.bias"]),
    "a module named null": (named_null, ROWS, ['- "null": Linear(8, 8)', 'block: "Null"']),
    "checkpoints that reenter": (lambda: nn.Sequential(nn.Linear(8, 8), Checkpointed(True)), ROWS, ["checkpoint: reentrant"]),
    "a tensor that the forward has require a gradient": (lambda: Net(requires), ROWS, ["RequiresGrad()", "Mul(other=2)"]),
    "a layer's weight that is read, too": (lambda: Net(lambda net, x: x * net.a.weight.mean()), ROWS, ["a.weight: Parameter(16, 8)", "from: [input, a.weight, a.bias]"]),
    "a buffer that the forward changes": (lambda: Net(averages), ROWS, ["inplace=True"]),
    "checkpoints": (lambda: Checkpointed(False), ROWS, ["checkpoint: true"]),
    "a checkpoint of a lambda": (lambda: Net(lambda net, x: checkpoint(lambda y: F.relu(y * 2), x, use_reentrant=False)), ROWS,
                                 ["block: Checkpoint, checkpoint: true"]),
    "a block that is called twice": (called_twice, IMAGES, ["tie: 0.1"]),
    "DataParallel": (lambda: nn.DataParallel(Net()), ROWS, ['{name: a, op: "Linear(8, 16)"']),
    "torch.compile": (lambda: torch.compile(Net()), ROWS, ['{name: a, op: "Linear(8, 16)"']),
    "a compiled child": (with_child(lambda a: torch.compile(a)), ROWS, ['{name: a, op: "Linear(8, 16)"']),
    "SyncBatchNorm": (lambda: nn.SyncBatchNorm.convert_sync_batchnorm(called_twice()[0]), IMAGES, ["BatchNorm2d(3"]),
    "bf16": (lambda: Net().to(torch.bfloat16), ROWS.to(torch.bfloat16), ["use --precision bf16"]),
    "channels_last": (lambda: nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last), IMAGES, ["use --layout nhwc"]),
    "indices of the host": (lambda: Net(lambda net, x: x[:, torch.arange(16).flip(0)]), ROWS, ["Index(1, host=True)"]),
    "code that asks for the device": (lambda: Net(asks_for_device), ROWS, ["Tanh()", "Sigmoid()"]),
    "the GPU by name": (lambda: Net(lambda net, x: x.cuda() + torch.ones(16, device="cuda")), ROWS, ["Full(16, value=1)"]),
    "a dataclass with slots": (lambda: Returning(lambda y: Output(y, None)), ROWS, ["Linear(8, 8)"]),
    "pooling of columns alone": (lambda: nn.Sequential(nn.AdaptiveAvgPool2d((None, 2))), IMAGES, [f"[{IMAGES.shape[2]}, 2]"]),
    "two factors of a size": (lambda: nn.Sequential(nn.Upsample(scale_factor=(2, 3))), IMAGES,
                              [f"Upsample(size=[{2 * IMAGES.shape[2]}, {3 * IMAGES.shape[3]}])"]),
    "nested results": (lambda: Returning(lambda y: {"a": [(y, None)], "b": 3, "c": F.relu(y)}), ROWS, ["ReturnedState()"]),
}
def asks_for_autocast(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) if torch.is_autocast_enabled() and torch.get_autocast_dtype("cuda") == torch.bfloat16 else F.relu(x)


def asks_for_type(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return x.clamp(-65504, 65504) if x.dtype == torch.float16 else F.relu(x)


# What the spec has where the model is asked for in a type.
TOLD: Dict[str, Tuple[AskedType, Made]] = {
    "code that asks for autocast": (AskedType(), (lambda: Net(asks_for_autocast), ROWS, ["ReLU()", "- {bf16: ", "- {fp16: "])),
    "code that asks for autocast, under it": (AskedType(amp="bf16"), (lambda: Net(asks_for_autocast), ROWS, ["exported_for: amp-bf16", "Tanh()"])),
    "code that asks for autocast, in bf16": (AskedType("bf16"), (lambda: Net(asks_for_autocast), ROWS, ["exported_for: bf16", "ReLU()"])),
    "code that asks for its type": (AskedType(), (lambda: Net(asks_for_type), ROWS, ["ReLU()", "- {fp16: "])),
    "code that asks for its type, in it": (AskedType("fp16"), (lambda: Net(asks_for_type), ROWS, ["exported_for: fp16", "Clamp("])),
    "code that asks for its type, under autocast": (AskedType(amp="fp16"), (lambda: Net(asks_for_type), ROWS, ["exported_for: amp-fp16", "- {fp16: "])),
    "autocast turned on where it is on": (AskedType(amp="bf16"), (lambda: Net(turns_autocast_on), ROWS, ["exported_for: amp-bf16"])),
}
# What the error says.
REFUSED: Dict[str, Made] = {
    "an embedding's weight that is read, too": (Reading, torch.zeros(2, 5, dtype=torch.int64), ["reads table.weight"]),
    "weight_norm of the whole weight": (with_child(lambda a: nn.utils.weight_norm(a, dim=None)), ROWS, ["_weight_norm"]),
    "a sparse bag": (lambda: nn.Sequential(nn.EmbeddingBag(9, 8, sparse=True)), torch.zeros(2, 5, dtype=torch.int64), ["sparse gradients"]),
    "a cell without a batch": (lambda: Net(lambda net, x: net.cell(x[0])[0] + x, nn.LSTMCell(16, 16)), ROWS, ["LSTMCell (without a batch)"]),
    "a mask in eval mode": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1, enable_nested_tensor=False),
                            (torch.zeros(2, 5, 8), None, torch.zeros(2, 5, dtype=torch.bool)), ["in eval mode", "modes=('train',)"]),
    "spectral_norm": (with_child(nn.utils.spectral_norm), ROWS, ["normalize (with out=)"]),
    "a custom Function": (lambda: Net(lambda net, x: Square.apply(x)), ROWS, ["export_hostile.py:", "autograd.Function Square", "--eval"]),
    "a custom Function by another name": (lambda: Net(lambda net, x: square(x)), ROWS, ["autograd.Function Square"]),
    "checkpoints that reenter without a gradient": (lambda: Checkpointed(True), ROWS, ["export_hostile.py:", "use_reentrant=False"]),
    "autocast turned on": (lambda: Net(turns_autocast_on), ROWS, ["export_hostile.py:", "--amp"]),
    "a forward of the instance": (replaced_forward, ROWS, ["a is a Linear whose forward was replaced"]),
    "TorchScript": (lambda: torch.jit.trace(Net(), ROWS), ROWS, ["TorchScript"]),
    "a TorchScript child": (with_child(lambda a: torch.jit.trace(a, ROWS)), ROWS, ["a is a", "TorchScript"]),
    "a lazy layer": (lambda: nn.Sequential(nn.LazyLinear(4)), ROWS, ["0 is a LazyLinear", "run the model on a batch"]),
    "quantized": (lambda: torch.ao.quantization.quantize_dynamic(Net(), {nn.Linear}), ROWS, ["a is a", "--weights int8"]),
    "a sparse table": (lambda: nn.Sequential(nn.Embedding(9, 8, sparse=True)), torch.zeros(2, 5, dtype=torch.int64), ["sparse gradients"]),
    "complex numbers": (lambda: Net(lambda net, x: torch.fft.fft(x).real), ROWS, ["real (of complex numbers that do not lie one after the other)"]),
    "a complex batch": (Net, ROWS.to(torch.complex64), ["complex tensors"]),
    "two types": (of_two_types, ROWS, ["a.weight of float32, b.weight of bfloat16"]),
    "a memory format": (lambda: Net(lambda net, x: x.view(-1, 4, 2, 2).contiguous(memory_format=torch.channels_last).flatten(1)), ROWS,
                        ["--layout nhwc"]),
    "out=": (lambda: Net(lambda net, x: torch.mul(x, 2, out=torch.empty_like(x))), ROWS, ["mul (with out=)"]),
    "no result": (lambda: Returning(lambda y: None), ROWS, ["returns no tensor"]),
    "a number as the result": (lambda: Returning(lambda y: 3.0), ROWS, ["returns no tensor"]),
    "values that decide": (lambda: Net(lambda net, x: -x if x.sum() > 0 else x), ROWS, ["export_hostile.py:", "control flow depends on tensor values"]),
    "a power of one": (lambda: Net(lambda net, x: x ** 1), ROWS, ["pow (to the power of 1"]),
    "a quotient of whole numbers": (lambda: Net(lambda net, x: x // 2), ROWS, ["__floordiv__ (of a tensor that wants a gradient, and it cannot be recorded: "]),
    "a remainder": (lambda: Net(lambda net, x: x % 2), ROWS, ["remainder (of a tensor that wants a gradient, and it cannot be recorded: "]),
    "a number to a power": (lambda: Net(lambda net, x: 2 ** x), ROWS, ["__rpow__ (of a tensor that wants a gradient, and it cannot be recorded: "]),
    "a norm of several dimensions": (lambda: Net(lambda net, x: F.normalize(x, dim=(0, 1))), ROWS, ["normalize (over several dimensions, and it cannot be recorded: "]),
    "indices of a maximum": (lambda: nn.Sequential(nn.Conv2d(3, 3, 1), nn.MaxPool2d(2, return_indices=True)), IMAGES,
                             ["MaxPool2d (with return_indices)"]),
    "running statistics of instances": (lambda: nn.Sequential(nn.InstanceNorm2d(3, track_running_stats=True)), IMAGES,
                                        ["InstanceNorm2d (with track_running_stats)"]),
    "a forward that counts": (counting, ROWS, ["export_hostile.py:", "different operations with a second batch size"]),
    "two batches": (Net, (ROWS, torch.zeros(3, 8)), ["2 and 3", "forward="]),
    "no batch": (Net, (ROWS, torch.tensor(3.0)), ["is a scalar", "forward="]),
    "a batch of nothing": (Net, [1, 2], ["the batch has no tensors"]),
    "a wrong size": (Net, torch.zeros(2, 9), ["export_hostile.py:", "does not run on this batch"]),
    "a tensor of the host": (lambda: Net(lambda net, x: x + torch.ones(16)), ROWS, ["stays on the host"]),
}


def exports(gpuplan: str, made: Made, spec: Path, asked: AskedType = AskedType()) -> str:
    """Why the export is wrong; nothing where it is right."""
    model = made[0]()
    text = exporter.export(model, made[1], str(spec), asked=asked)
    missing = [line for line in made[2] if line not in text]
    if missing:
        return f"no {missing[0]!r} in\n{text}"
    done = subprocess.run([gpuplan, str(spec), "--batch", "2", "--format", "json"], capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        return done.stderr
    planned = json.loads(done.stdout)["model"]
    wanted = {"parameters": sum(p.numel() for p in model.parameters()), "buffers": sum(b.numel() for b in model.buffers())}
    return "; ".join(f"{k} {planned[k]}, PyTorch {v}" for k, v in wanted.items() if planned[k] != v)


def refuses(made: Made, spec: Path) -> str:
    model = made[0]()
    try:
        exporter.export(model, made[1], str(spec))
    except exporter.ExportError as e:
        missing = [word for word in made[2] if word not in str(e)]
        return f"no {missing[0]!r} in: {e}" if missing else "a file is left" if spec.exists() else ""
    return "it is exported:\n" + spec.read_text()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpuplan", default="build/gpuplan")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    os.environ["GPUPLAN"] = os.devnull  # without the program no operator is recorded
    right = wrong = 0
    told = {name: made for name, (_, made) in TOLD.items()}
    for name, made in {**EXPORTED, **told, **REFUSED}.items():
        if options.names and name not in options.names:
            continue
        try:
            made[0]()
        except Exception as e:
            print(f"skip  {name}: PyTorch {torch.__version__}: {type(e).__name__}: {str(e).splitlines()[0]}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            spec = Path(folder) / "model.yaml"
            try:
                asked = TOLD[name][0] if name in TOLD else AskedType()
                why = refuses(made, spec) if name in REFUSED else exports(options.gpuplan, made, spec, asked)
            except Exception as e:
                why = f"{type(e).__name__}: {e}"
        print(f"{'FAIL' if why else 'ok  '}  {name}{': ' + why if why else ''}", flush=True)
        right, wrong = right + (not why), wrong + bool(why)
    print(f"{right} of {right + wrong} as they should be")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Programs that a number draws: modules of some forty kinds, functional calls, residuals, shared and frozen weights, views, checkpoints,
blocks that are called twice, several losses. As source text, so that the exporter sees lines as it does in people's code.

    python tests/drawn_models/programs.py 17      # prints program 17"""
from __future__ import annotations

import linecache
import random
import sys
from typing import Any, Callable, Dict, List, Tuple

import torch
from torch import nn

Shape = Tuple[int, ...]  # without the batch: (channels, height, width), (length, features) or (features,)
CLASSES = 10

ACTIVATIONS = ["nn.ReLU()", "nn.ReLU(inplace=True)", "nn.GELU()", "nn.GELU(approximate='tanh')", "nn.SiLU()", "nn.SiLU(inplace=True)", "nn.Hardswish()",
               "nn.LeakyReLU(0.1)", "nn.ELU()", "nn.Sigmoid()", "nn.Tanh()", "nn.Mish()", "nn.Softplus()", "nn.Hardsigmoid()", "nn.ReLU6()", "nn.PReLU()",
               "nn.CELU()", "nn.SELU()", "nn.LogSigmoid()", "nn.Softsign()", "nn.Hardtanh()", "nn.Identity()"]
POINTWISE = ["F.relu(x)", "F.gelu(x)", "F.silu(x)", "torch.sigmoid(x) * x", "x.clamp(-3, 3)", "x * 0.5", "x + 1", "x - x.mean()", "torch.tanh(x)", "x.abs()",
             "x / 2.0", "x * x", "x.pow(2)", "(x.abs() + 1e-5).sqrt()", "torch.where(x > 0, x, x * 0.1)", "F.leaky_relu(x, 0.2)", "F.elu(x)", "-x",
             "x.exp().log1p()", "F.hardswish(x)", "torch.cat([x, x], 1)[:, :x.shape[1]]", "x.float().to(x.dtype)", "F.dropout(x, 0.1, self.training)",
             "x.contiguous()", "x.clone()", "torch.maximum(x, x * 0.3)", "x.detach() + x", "torch.softmax(x, -1)", "F.log_softmax(x, 1)", "x.relu_()",
             "x.mul(2).add_(1)", "x.masked_fill(x > 2, 0.0)", "torch.flip(x, [1])", "torch.roll(x, 1, 1)", "x.cumsum(1)", "x - x.amax(1, keepdim=True)",
             "x / (x.norm(dim=1, keepdim=True) + 1)", "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)", "torch.stack([x, x * 2]).sum(0)",
             "x.expand_as(x) * 1.5", "torch.erf(x)", "x.sin() + x.cos()", "x + torch.ones_like(x)"]


class Writer:
    """Draws a class: lines of __init__ and of forward, which rebinds x."""

    def __init__(self, draw: random.Random, name: str, source: List[str], depth: int):
        self.draw, self.name, self.source, self.depth = draw, name, source, depth
        self.made: List[str] = []
        self.run: List[str] = []

    def module(self, constructor: str, prefix: str = "m") -> str:
        name = f"{prefix}{len(self.made)}"
        self.made.append(f"self.{name} = {constructor}")
        return f"self.{name}"

    def call(self, constructor: str) -> None:
        self.run.append(f"x = {self.module(constructor)}(x)")

    def step(self, shape: Shape) -> Shape:
        """One more step; the shape after it."""
        choice = self.draw.random()
        if choice < 0.18:
            self.call(self.draw.choice(ACTIVATIONS))
            return shape
        if choice < 0.38:
            self.run.append(f"x = {self.draw.choice(POINTWISE)}")
            return shape
        if choice < 0.52 and self.depth < 2:
            return self.structure(shape)
        return {3: self.image_step, 2: self.sequence_step, 1: self.row_step}[len(shape)](shape)

    def image_step(self, shape: Shape) -> Shape:
        c, h, w = shape
        d, wide = self.draw, self.draw.choice([8, 16, 24, 32])
        groups = d.choice([1, 1, 1, 2, c]) if wide % 2 == 0 and c % 2 == 0 else 1
        out = c if groups == c else wide
        options: List[Callable[[], Shape]] = [
            lambda: self.then(f"nn.Conv2d({c}, {out}, 3, padding=1, groups={groups}, bias={d.random() < 0.5})", (out, h, w)),
            lambda: self.then(f"nn.Conv2d({c}, {wide}, 1)", (wide, h, w)),
            lambda: self.then(f"nn.Conv2d({c}, {wide}, 3, stride=2, padding=1)", (wide, (h + 1) // 2, (w + 1) // 2)) if h > 6 else shape,
            lambda: self.then(f"nn.Conv2d({c}, {wide}, 3, padding=2, dilation=2)", (wide, h, w)),
            lambda: self.then(f"nn.BatchNorm2d({c})", shape),
            lambda: self.then(f"nn.GroupNorm({d.choice([g for g in (1, 2, 4, 8) if c % g == 0])}, {c})", shape),
            lambda: self.then(f"nn.InstanceNorm2d({c}, affine={d.random() < 0.5})", shape) if h > 1 else shape,
            lambda: self.then("nn.MaxPool2d(2)", (c, h // 2, w // 2)) if h > 6 else shape,
            lambda: self.then("nn.AvgPool2d(3, stride=1, padding=1)", shape),
            lambda: self.then(f"nn.AdaptiveAvgPool2d({h})", shape),
            lambda: self.then("nn.Upsample(scale_factor=2)", (c, 2 * h, 2 * w)) if h <= 16 else shape,
            lambda: self.then("nn.Upsample(scale_factor=2, mode='bilinear')", (c, 2 * h, 2 * w)) if h <= 16 else shape,
            lambda: self.then(f"nn.ConvTranspose2d({c}, {wide}, 2, stride=2)", (wide, 2 * h, 2 * w)) if h <= 16 else shape,
            lambda: self.then("nn.PixelShuffle(2)", (c // 4, 2 * h, 2 * w)) if c % 32 == 0 and h <= 16 else shape,
            lambda: self.then("nn.Dropout2d(0.1)", shape),
            lambda: self.then("nn.Dropout(0.1)", shape),
            lambda: self.then("nn.ReflectionPad2d(1)", (c, h + 2, w + 2)) if 2 < h < 40 else shape,
            lambda: self.line("x = x * torch.sigmoid(x.mean((2, 3), keepdim=True))", shape),
            lambda: self.line(f"x = {self.module(f'nn.LayerNorm({c})')}(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)", shape),
            lambda: self.line("a, b = x.chunk(2, 1); x = torch.cat([a * torch.sigmoid(b), b], 1)", shape) if c % 2 == 0 else shape,
            lambda: self.line(f"x = x + {self.module(f'nn.Parameter(torch.zeros({c}, 1, 1))', 'p')}", shape),
            lambda: self.line("x = F.interpolate(x, scale_factor=2.0, mode='nearest')", (c, 2 * h, 2 * w)) if h <= 16 else shape,
            lambda: self.line("x = F.avg_pool2d(x, 2)", (c, h // 2, w // 2)) if h > 6 else shape,
            lambda: self.line("x = F.pad(x, (1, 1, 1, 1))[:, :, 1:-1, 1:-1]", shape),
            lambda: self.line("x = torch.cat([x[:, ::2], x[:, 1::2]], 1)", shape) if c % 2 == 0 else shape,
        ]
        return d.choice(options)()

    def sequence_step(self, shape: Shape) -> Shape:
        length, width = shape
        d, wide = self.draw, self.draw.choice([32, 48, 64])
        heads = d.choice([2, 4])
        options: List[Callable[[], Shape]] = [
            lambda: self.then(f"nn.Linear({width}, {wide}, bias={d.random() < 0.7})", (length, wide)),
            lambda: self.then(f"nn.LayerNorm({width})", shape),
            lambda: self.then(f"nn.RMSNorm({width})", shape),
            lambda: self.then("nn.Dropout(0.1)", shape),
            lambda: self.line(f"x = x + {self.module(f'nn.Parameter(torch.zeros(1, {length}, {width}))', 'p')}", shape),
            lambda: self.attention(shape, heads),
            lambda: self.line(f"x = x + {self.module(f'nn.MultiheadAttention({width}, {heads}, batch_first=True)')}(x, x, x, need_weights=False)[0]", shape),
            lambda: self.then(f"nn.TransformerEncoderLayer({width}, {heads}, {2 * width}, batch_first=True, norm_first={d.random() < 0.5})", shape),
            lambda: self.line(f"x = {self.module(f'nn.Conv1d({width}, {wide}, 3, padding=1)')}(x.transpose(1, 2)).transpose(1, 2)", (length, wide)),
            lambda: self.line(f"x = {self.module(f'nn.GRU({width}, {wide}, batch_first=True)')}(x)[0]", (length, wide)),
            lambda: self.line("x = torch.softmax(x @ x.transpose(1, 2), -1) @ x", shape),
            lambda: self.line("x = torch.einsum('bld,bmd->blm', x, x).softmax(-1) @ x", shape),
            lambda: self.line("x = x.reshape(x.shape[0], -1, 2).flip(2).reshape(x.shape)", shape),
            lambda: self.line(f"x = F.layer_norm(x, ({width},))", shape),
            lambda: self.line("x = torch.cat([x[:, :1] * 2, x[:, 1:]], 1)", shape),
            lambda: self.line("x = F.glu(x, -1)", (length, width // 2)) if width % 2 == 0 and width >= 32 else shape,
            lambda: self.line("x = x + x.mean(1, keepdim=True)", shape),
            lambda: self.line("x = x.transpose(0, 1).contiguous().transpose(0, 1)", shape),
            lambda: self.line(f"x = F.linear(x, {self.module(f'nn.Parameter(torch.zeros({width}, {width}))', 'p')})", shape),
        ]
        return d.choice(options)()

    def attention(self, shape: Shape, heads: int) -> Shape:
        length, width = shape
        if width % heads:
            return shape
        qkv, out = self.module(f"nn.Linear({width}, {3 * width})"), self.module(f"nn.Linear({width}, {width})")
        causal = self.draw.random() < 0.5
        self.run += [f"q, k, v = {qkv}(x).reshape(x.shape[0], {length}, 3, {heads}, {width // heads}).permute(2, 0, 3, 1, 4).unbind(0)",
                     f"x = x + {out}(F.scaled_dot_product_attention(q, k, v, is_causal={causal}).transpose(1, 2).reshape(x.shape[0], {length}, {width}))"]
        return shape

    def row_step(self, shape: Shape) -> Shape:
        (width,), d = shape, self.draw
        wide = d.choice([16, 32, 64, 100])
        options: List[Callable[[], Shape]] = [
            lambda: self.then(f"nn.Linear({width}, {wide}, bias={d.random() < 0.7})", (wide,)),
            lambda: self.then(f"nn.BatchNorm1d({width})", shape),
            lambda: self.then(f"nn.LayerNorm({width})", shape),
            lambda: self.then("nn.Dropout(0.2)", shape),
            lambda: self.line("x = F.normalize(x, dim=1)", shape),
            lambda: self.line(f"w = {self.module(f'nn.Linear({width}, {width})')}; x = w(w(x))", shape),
            lambda: self.line(f"x = F.linear(x, {self.module(f'nn.Linear({width}, {width})')}.weight)", shape),
            lambda: self.line(f"x = x @ {self.module(f'nn.Parameter(torch.zeros({width}, {wide}))', 'p')}", (wide,)),
            lambda: self.line("x = torch.cat([x, x * 2], 1)", (2 * width,)) if width < 200 else shape,
            lambda: self.line("x = x.unflatten(1, (2, -1)).sum(1)", (width // 2,)) if width % 2 == 0 and width > 16 else shape,
            lambda: self.line("x = torch.addcmul(x, x, x, value=0.5)", shape),
        ]
        return d.choice(options)()

    def then(self, constructor: str, shape: Shape) -> Shape:
        self.call(constructor)
        return shape

    def line(self, text: str, shape: Shape) -> Shape:
        self.run.append(text)
        return shape

    def block(self, shape: Shape, keeps: bool) -> Tuple[str, Shape]:
        """A class of its own; `keeps`: its result has the shape of what it is given."""
        name = f"{self.name}_{len(self.source)}"
        inner = Writer(self.draw, name, self.source, self.depth + 1)
        after = shape
        for _ in range(self.draw.randint(1, 3)):
            after = inner.step(after)
        if keeps:
            after = inner.back(after, shape)
        inner.write()
        return name, after

    def back(self, now: Shape, wanted: Shape) -> Shape:
        if now == wanted:
            return now
        if len(now) == 3:
            if now[1:] != wanted[1:]:
                self.run.append(f"x = F.adaptive_avg_pool2d(x, {wanted[1:]})")
            self.call(f"nn.Conv2d({now[0]}, {wanted[0]}, 1)")
        else:
            self.call(f"nn.Linear({now[-1]}, {wanted[-1]})")
        return wanted

    def structure(self, shape: Shape) -> Shape:
        kind = self.draw.choice(["residual", "residual", "twice", "list", "checkpoint", "frozen", "sequential", "no_grad", "training", "fp32", "dense"])
        name, after = self.block(shape, kind not in ("checkpoint", "sequential"))
        if kind == "sequential":
            self.call(f"nn.Sequential({name}(), {self.draw.choice(ACTIVATIONS)})")
            return after
        if kind == "list":
            self.run.append(f"for layer in {self.module(f'nn.ModuleList([{name}() for _ in range(3)])')}: x = layer(x)")
            return shape
        made = self.module(f"{name}().requires_grad_(False)" if kind == "frozen" else f"{name}()")
        self.run.append({
            "residual": f"x = x + {made}(x)",
            "twice": f"x = {made}({made}(x))",
            "checkpoint": f"x = checkpoint({made}, x, use_reentrant=False)",
            "frozen": f"x = {made}(x)",
            "no_grad": f"with torch.no_grad(): y = {made}(x)\nx = x + y",
            "training": f"if self.training: x = {made}(x)",
            "fp32": f"with torch.autocast(x.device.type, enabled=False): y = {made}(x.float())\nx = x + y.to(x.dtype)",
            "dense": f"kept = [x, {made}(x)]\nx = torch.stack(kept).mean(0)",
        }[kind])
        return after

    def write(self) -> None:
        lines = [f"class {self.name}(nn.Module):", "    def __init__(self):", "        super().__init__()", *(f"        {line}" for line in self.made), "",
                 "    def forward(self, x):", *(f"        {line}" for step in self.run for line in step.split("\n")), "        return x", "", ""]
        self.source.append("\n".join(lines))


INPUTS: List[Shape] = [(3, 32, 32), (8, 17, 17), (16, 48), (20, 64), (64,), (30,)]


def program(seed: int) -> Tuple[str, Shape, int]:
    """Its source, which has a class Net, the shape of a sample, and how many outputs it has."""
    draw = random.Random(seed)
    source: List[str] = []
    shape = given = draw.choice(INPUTS)
    writer = Writer(draw, "Net", source, 0)
    for _ in range(draw.randint(3, 9)):
        shape = writer.step(shape)
    outputs = draw.choice([1, 1, 1, 2])
    for i in range(outputs):
        flat = "x.flatten(1)" if len(shape) == 3 and draw.random() < 0.3 and shape[0] * shape[1] * shape[2] < 20000 else \
            {3: "x.mean((2, 3))", 2: "x.mean(1)", 1: "x"}[len(shape)]
        width = shape[0] * shape[1] * shape[2] if flat == "x.flatten(1)" else shape[0] if len(shape) == 3 else shape[-1]
        writer.run.append(f"y{i} = {writer.module(f'nn.Linear({width}, {CLASSES})', 'head')}({flat})")
    writer.run.append("x = " + ("y0" if outputs == 1 else "y0, y1"))
    writer.write()
    head = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\nfrom torch.utils.checkpoint import checkpoint\n\n\n"
    return head + "".join(source), given, outputs


def network(seed: int) -> nn.Module:
    text = program(seed)[0]
    name = f"<program {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space: Dict[str, Any] = {"__name__": f"program_{seed}"}
    exec(compile(text, name, "exec"), space)  # its own text, of the above
    return space["Net"]()


if __name__ == "__main__":
    print(program(int(sys.argv[1]))[0])

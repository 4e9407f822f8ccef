"""Models whose custom functions launch Triton kernels that write gradients over what is there: over inputs, over the gradient that
arrives, and over what the forward computed. What the kernels compute is nothing; what they need is told by PyTorch's allocator."""
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def halve(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, at < n) * 0.5, at < n)


def halved(x):
    halve[(triton.cdiv(x.numel(), 1024),)](x, x.numel(), BLOCK=1024)
    return x


class Gated(torch.autograd.Function):
    """Gradients lie in its inputs."""

    @staticmethod
    def forward(ctx, a, b):
        c = torch.empty_like(a)
        halved(c)
        ctx.save_for_backward(a, b)
        return c

    @staticmethod
    def backward(ctx, dc):
        a, b = ctx.saved_tensors
        return halved(a).view(dc.shape), halved(b).view(dc.shape)


class Turned(torch.autograd.Function):
    """Its result is its input, and its gradient the one that arrives."""

    @staticmethod
    def forward(ctx, x):
        halved(x)
        return x.transpose(0, 1).transpose(0, 1)

    @staticmethod
    def backward(ctx, dy):
        return halved(dy)


class Fused(torch.autograd.Function):
    """A product whose gradients the forward computes."""

    @staticmethod
    def forward(ctx, x, weight):
        y = x @ weight.t()
        ctx.save_for_backward(torch.zeros_like(x), torch.zeros_like(weight))
        return y.sum(1)

    @staticmethod
    def backward(ctx, dy):
        dx, dw = ctx.saved_tensors
        return halved(dx), halved(dw)


class Net(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(64, 256), nn.Linear(64, 256), nn.Linear(256, 64)
        self.kind = kind

    def forward(self, x):
        gate, up = self.a(x), self.b(x)
        if self.kind == "gated":
            return self.c(Gated.apply(gate, up))
        if self.kind == "turned":
            return self.c(Turned.apply(gate) + up)
        return Fused.apply(gate * up, self.c.weight)


def net(kind="gated"):
    return Net(kind)

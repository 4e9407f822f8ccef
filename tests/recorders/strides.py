"""Strides as PyTorch computes them, for tests/unit/base/test_strides.cpp. Run with any PyTorch 2; no GPU is needed.

    python3 strides.py > strides.torch2.15.tsv

Lines, tab-separated, lists separated by commas:
  view        shape  strides  new-shape  strides of the view, or "none"
  like        shape  strides  strides of empty_like
  pointwise   shape  strides  shape  strides  strides of the sum
  format      shape  strides  contiguous  channels-last  suggested channels-last  dense, as 0 or 1
"""
import itertools
import random

import torch

random.seed(3)


def text(numbers):
    return ",".join(str(n) for n in numbers) or "-"


def tensors(shape):
    """Tensors of a shape that lie in memory in different ways."""
    rank = len(shape)
    yield torch.empty(shape)
    for order in random.sample(list(itertools.permutations(range(rank))), min(4, len(list(itertools.permutations(range(rank)))))):
        base = torch.empty([shape[i] for i in order])
        yield base.permute([order.index(i) for i in range(rank)])
    yield torch.empty([2 * n for n in shape])[tuple(slice(0, n) for n in shape)]
    if rank == 4:
        yield torch.empty(shape).to(memory_format=torch.channels_last)
    once = [1 if random.random() < 0.4 else n for n in shape]
    yield torch.empty(once).expand(shape)


def is_dense(x):
    return torch.ops.aten.is_non_overlapping_and_dense(x) if hasattr(torch.ops.aten, "is_non_overlapping_and_dense") else \
        torch._prims_common.is_non_overlapping_and_dense(x)


SHAPES = [(6,), (4, 6), (1, 6), (2, 3, 4), (2, 1, 4), (3, 1, 1), (2, 3, 4, 5), (2, 3, 1, 1), (1, 3, 4, 4), (2, 1, 4, 4), (2, 4, 1, 5), (1, 1, 1, 1),
          (2, 3, 2, 2, 4), (2, 2, 3, 1, 2, 2)]
for shape in SHAPES:
    for x in tensors(shape):
        print("format", text(shape), text(x.stride()), int(x.is_contiguous()),
              int(x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)),
              int(x.dim() == 4 and torch._prims_common.suggest_memory_format(x) == torch.channels_last), int(is_dense(x)), sep="\t")
        print("like", text(shape), text(x.stride()), text(torch.empty_like(x).stride()), sep="\t")
        n = x.numel()
        for new in {(n,), (shape[0], n // shape[0]), (n // shape[-1], shape[-1]), (1, *shape), (*shape, 1), (2, n // 2) if n % 2 == 0 else (n,)}:
            try:
                strides = text(x.view(new).stride())
            except RuntimeError:
                strides = "none"
            print("view", text(shape), text(x.stride()), text(new), strides, sep="\t")
        other = tuple(1 if random.random() < 0.3 else s for s in shape)[random.randint(0, len(shape) - 1):]
        for y in random.sample(list(tensors(shape)), 2) + random.sample(list(tensors(other)), 2):
            print("pointwise", text(shape), text(x.stride()), text(y.shape), text(y.stride()), text((x + y).stride()), sep="\t")

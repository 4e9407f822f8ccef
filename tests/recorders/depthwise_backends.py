"""Records who runs depthwise convolutions in PyTorch, a sample of a grid: python depthwise_backends.py > TSV

Columns: dtype, layout, n c h w k r s stride dilation, native (PyTorch's kernel) or cudnn.
"""
import itertools
import random

import torch

DTYPES = {"fp32": torch.float32, "fp64": torch.float64, "fp16": torch.float16, "bf16": torch.bfloat16}
FORMATS = {"nchw": torch.contiguous_format, "nhwc": torch.channels_last}
IMAGES = [(1, 100), (5, 5), (6, 6), (7, 7), (14, 14), (28, 28), (56, 56), (56, 28), (28, 6)]
KERNELS = [(1, 1), (3, 3), (5, 5), (7, 7), (3, 5), (1, 3)]


def backend(n, c, image, filters, kernel, stride, dilation, dtype, layout):
    form = {"device": "cuda", "dtype": DTYPES[dtype], "memory_format": FORMATS[layout]}
    x, f = torch.empty((n, c, *image), **form), torch.empty((c * filters, 1, *kernel), **form)
    padding = [dilation * max(kernel) // 2] * 2
    chosen = torch._C._select_conv_backend(x, f, None, [stride] * 2, padding, [dilation] * 2, False, [0, 0], c, None)
    return "cudnn" if "Cudnn" in str(chosen) else "native"


def main():
    random.seed(1)
    grid = list(itertools.product((1, 2, 16, 17, 64), (2, 16, 31, 32, 64, 128, 256, 512, 1024), IMAGES, (1, 2), KERNELS, (1, 2, 4), (1, 2)))
    print("dtype", "layout", "n", "c", "h", "w", "k", "r", "s", "stride", "dilation", "backend", sep="\t")
    for dtype, layout in itertools.product(DTYPES, FORMATS):
        left = dict.fromkeys(("cudnn", "native"), 100 if (dtype, layout) == ("fp16", "nchw") else 20)
        for n, c, image, filters, kernel, stride, dilation in random.sample(grid, 4000):
            chosen = backend(n, c, image, filters, kernel, stride, dilation, dtype, layout)
            left[chosen] -= 1
            if left[chosen] >= 0:
                print(dtype, layout, n, c, *image, c * filters, *kernel, stride, dilation, chosen, sep="\t")


if __name__ == "__main__":
    main()

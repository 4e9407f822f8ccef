"""Records the scratch of TensorIterator reductions: python reductions.py > ../shadow/reductions.GPU.tsv

Columns: operator; input sizes; reduced dimensions; dtype; the allocations and frees after the result's own, "-" for none.
"""
import itertools

import torch

import memory_trace

DTYPES = {"fp32": torch.float32, "fp64": torch.float64, "fp16": torch.float16, "bf16": torch.bfloat16}


def rows():
    """(operator, sizes, dims, dtype)"""
    # Linear's bias gradient.
    for n, c in itertools.product((1, 7, 64, 100, 128, 1000, 1024, 3000, 4096, 6272, 8192, 25088, 65536),
                                  (1, 2, 10, 33, 64, 96, 384, 512, 768, 1000, 2304, 3072, 4096, 50257)):
        if n * c <= 1 << 29:
            for d in ("fp32", "fp64", "fp16", "bf16") if c in (10, 33, 768, 3072) else ("fp32", "bf16"):
                yield "sum", (n, c), (0,), d
    # A convolution's bias gradient, batch norm and pooling over images.
    for (c, h), n in itertools.product(((1, 28), (3, 224), (6, 24), (16, 10), (20, 1), (64, 224), (64, 55), (96, 56), (128, 112),
                                        (192, 27), (256, 13), (512, 7), (512, 28), (1000, 13), (1280, 7), (2048, 7)), (1, 2, 8, 32, 64, 256)):
        if n * c * h * h <= 1 << 28:
            for d in ("fp32", "bf16") if c in (64, 512) else ("fp32",):
                yield "sum", (n, c, h, h), (0, 2, 3), d
                yield "mean", (n, c, h, h), (2, 3), d
                yield "sum", (n, h, h, c), (0, 1, 2), d
            yield "sum", (n, c, h, h), (1, 2, 3), "fp32"
            yield "sum", (n, c, h, h), (0,), "fp32"
            yield "sum", (n, c, h, h), (1,), "fp32"
            yield "sum", (n, c, h, h), (0, 1), "fp32"
    # Sequences: mean over the tokens, sums over positions, layer scale, channels-last means.
    for n, t, c in itertools.product((1, 8, 32, 256), (1, 49, 196, 197, 512, 1024), (64, 384, 768, 1024)):
        for d in ("fp32", "fp16"):
            yield "mean", (n, t, c), (1,), d
            yield "sum", (n, t, c), (0, 1), d
            yield "sum", (n, t, c), (0,), d
            yield "mean", (n, t, c), (2,), d
            yield "sum", (n, t, c), (1, 2), d
    # Whole tensors: losses.
    for n in (1, 2, 31, 32, 100, 127, 128, 129, 1000, 1024, 4096, 10000, 65536, 100000, 1 << 20, 3 << 20, 12345678, 1 << 26, 1 << 30):
        for d in DTYPES:
            yield "mean", (n,), (0,), d
            yield "sum", (n,), (0,), d
    # More than 2 GiB: TensorIterator splits for 32-bit offsets.
    for sizes, dims in (((256, 64, 224, 224), (0, 2, 3)), ((200000, 4096), (0,)), ((64, 1024, 50257), (0, 1)), ((1 << 30,), (0,)),
                        ((512, 128, 112, 112), (2, 3)), ((3, 3 << 28), (1,)), ((1024, 1024, 1024), (1,))):
        for d in ("fp32", "bf16"):
            yield "sum", sizes, dims, d


def main():
    print("op\tsizes\tdims\tdtype\tallocations")
    for op, sizes, dims, dtype in dict.fromkeys(rows()):
        x = torch.empty(sizes, dtype=DTYPES[dtype], device="cuda")
        events = memory_trace.allocations(lambda: getattr(x, op)(dims))
        print(op, ",".join(map(str, sizes)), ",".join(map(str, dims)), dtype, memory_trace.text(events[1:]), sep="\t")
        del x


if __name__ == "__main__":
    main()

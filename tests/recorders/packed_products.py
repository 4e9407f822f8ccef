#!/usr/bin/env python3
"""Which products of a 4-bit weight bitsandbytes computes from its packed numbers: its own rule, asked at GPUs and sizes.

    python tests/recorders/packed_products.py >tests/recorded/packed_products.tsv
"""

import importlib.metadata
import random

import torch
from bitsandbytes.backends.cuda import ops

GPUS = [(7, 0, 80), (7, 5, 40), (8, 0, 108), (8, 6, 72), (8, 6, 82), (8, 9, 58), (8, 9, 128), (9, 0, 132), (10, 0, 148), (12, 0, 170), (12, 1, 48)]
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
SIZES = [256, 512, 896, 1024, 1536, 2048, 2560, 4096, 5120, 8192, 11008, 12288, 14336, 28672, 4864]
ROWS = [1, 4, 5, 6, 7, 8, 10, 12, 16, 23, 24, 32, 48, 64, 96, 128, 192, 256, 320, 384, 512, 513, 1024, 1536, 1537]


def main():
    random.seed(0)
    print("# bitsandbytes %s" % importlib.metadata.version("bitsandbytes"))
    print("major\tminor\tsms\ttype\tm\tn\tk\tpacked")
    for major, minor, sms in GPUS:
        ops._gpu_dispatch_props = lambda _, props=(sms, major, minor): props
        for _ in range(240):
            kind, m, n = random.choice(list(TYPES)), random.choice(ROWS), random.choice(SIZES)
            k = n if random.random() < 0.2 else random.choice([*SIZES, 1000])
            ops._gemm_4bit_use_custom_cuda.cache_clear()
            packed = m <= ops._gemm_4bit_custom_max_m and k % 64 == 0 and ops._gemm_4bit_use_custom_cuda(0, TYPES[kind], m, n, k)
            print(major, minor, sms, kind, m, n, k, int(packed), sep="\t")


if __name__ == "__main__":
    main()

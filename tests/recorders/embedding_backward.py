"""Records the scratch of embedding_dense_backward: python embedding_backward.py > ../shadow/embedding_backward.VERSION.GPU.tsv

Columns: indices, vocabulary, features, dtype; what is allocated (+bytes) and freed (-bytes), the gradient itself included, in order.
The sizes do not depend on the values of the indices, so all are zero.
"""
import torch

import memory_trace

DTYPES = {"fp32": torch.float32, "fp64": torch.float64, "fp16": torch.float16, "bf16": torch.bfloat16}


def rows():
    """(indices, vocabulary, features, dtype)"""
    for n in (1, 512, 3071, 3072, 3073, 3500, 4096, 5000, 6272, 8192, 10000, 12288, 16384, 20000, 32768, 40000, 65536, 100000, 131072, 262144,
              524288, 1000000, 1 << 20, 1 << 22):
        yield n, 50257, 768, "fp32"
        yield n, 1000, 128, "fp32"
        yield n, 128256, 64, "bf16"
        yield n, 300, 1500, "fp16"
    for n in (4096, 16384):
        for v in (2, 109, 110, 131, 255, 256, 512, 2000, 4096, 4097, 30522):
            for c in (100, 768, 4096):
                for d in DTYPES if c == 768 else ("fp32", "bf16"):
                    yield n, v, c, d


def main():
    print("indices\tvocabulary\tfeatures\tdtype\tallocations")
    for n, v, c, dtype in dict.fromkeys(rows()):
        ids = torch.zeros(n, dtype=torch.int64, device="cuda")
        grad = torch.empty(n, c, dtype=DTYPES[dtype], device="cuda")
        events = memory_trace.allocations(lambda: torch.ops.aten.embedding_dense_backward(grad, ids, v, -1, False))
        print(n, v, c, dtype, memory_trace.text(events), sep="\t")
        del ids, grad


if __name__ == "__main__":
    main()

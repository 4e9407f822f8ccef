"""Records the workspaces that PyTorch gives cuDNN's convolutions: python convolutions.py SHAPES DIRECTORY GPU [SETUPS]

SHAPES is convolution_shapes.py's. For each setup (LAYOUT.DTYPE, all by default) DIRECTORY/GPU.LAYOUT.DTYPE gets a line a convolution: layout,
dtype, n c h w k r s p q stride_h stride_w pad_h pad_w dilation_h dilation_w groups, and the bytes of forward, backward data and backward
filter. fp32 may use TF32, PyTorch's default for convolutions. What does not fit the GPU is left out.
"""
import os
import sys

import torch

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
FORMATS = {"nchw": torch.contiguous_format, "nhwc": torch.channels_last}
SETUPS = [layout + "." + dtype for layout in FORMATS for dtype in DTYPES]


def freed_by(fn):
    """Bytes that fn allocates and frees again, and what it returns."""
    def freed():
        return torch.cuda.memory_stats_as_nested_dict()["requested_bytes"]["all"]["freed"]

    before = freed()
    kept = fn()
    return freed() - before, kept


def workspaces(shape, dtype, layout):
    n, c, h, w, k, r, s, sh, sw, ph, pw, dh, dw, groups = shape
    form = {"device": "cuda", "dtype": DTYPES[dtype], "memory_format": FORMATS[layout]}
    x, f = torch.empty((n, c, h, w), **form), torch.empty((k, c // groups, r, s), **form)
    geometry = (sh, sw), (ph, pw), (dh, dw), False, (0, 0), groups
    forward, y = freed_by(lambda: torch.ops.aten.convolution(x, f, None, *geometry))
    backward = [freed_by(lambda m=mask: torch.ops.aten.convolution_backward(y, x, f, [0], *geometry, m))[0]
                for mask in ((True, False, False), (False, True, False))]
    return y.shape[2:], [forward, *backward]


def main():
    shapes = [tuple(map(int, line.split())) for line in open(sys.argv[1])]
    for setup in sys.argv[4:] or SETUPS:
        layout, dtype = setup.split(".")
        with open(os.path.join(sys.argv[2], sys.argv[3] + "." + setup), "w") as out:
            for shape in shapes:
                try:
                    output, sizes = workspaces(shape, dtype, layout)
                except (torch.OutOfMemoryError, RuntimeError) as e:
                    print(*shape, str(e).split("\n")[0], file=sys.stderr)
                    continue
                print(layout, dtype, *shape[:7], *output, *shape[7:], *sizes, file=out)


if __name__ == "__main__":
    main()

"""Records the workspaces that PyTorch gives cuDNN's convolutions: python convolutions.py [-m MODELS] [-b BATCHES] [-d DTYPES] [-l LAYOUTS]

One line for every distinct convolution of torchvision's models (and a few others), batch, dtype, layout and pass, as far as they fit the GPU.
Columns: pass (f: forward,
d: backward data, w: backward filter), layout, dtype, n c h w k r s p q stride_h stride_w pad_h pad_w dilation_h dilation_w groups, bytes.
fp32 may use TF32, PyTorch's default for convolutions.
"""
import argparse

import torch
import torchvision
from torch import nn

import memory_trace

DTYPES = {"fp32": torch.float32, "fp64": torch.float64, "fp16": torch.float16, "bf16": torch.bfloat16}
FORMATS = {"nchw": torch.contiguous_format, "nhwc": torch.channels_last}
MODELS = ("alexnet convnext_tiny densenet121 efficientnet_b0 googlenet mnasnet1_0 mobilenet_v2 mobilenet_v3_large mobilenet_v3_small "
          "regnet_y_400mf resnet18 resnet50 resnext50_32x4d wide_resnet50_2 shufflenet_v2_x1_0 squeezenet1_0 squeezenet1_1 swin_t vgg16 vit_b_16 "
          "fcn_resnet50 fcn_resnet50@520 resnet18@32 deeplabv3_resnet50@520 inception_v3@299").split()


def unet(width, depth, pixels, classes):
    """Its convolutions, and the transposed ones as the convolutions whose backward pass they are."""
    out = [(width, pixels, classes, 1, 1, 0, 1)]
    for level in range(depth + 1):
        c, size = width << level, pixels >> level
        out += [(c // 2 if level else 3, size, c, 3, 1, 1, 1), (c, size, c, 3, 1, 1, 1), (2 * c, size, c, 3, 1, 1, 1)]
        if level:
            out.append((c // 2, 2 * size, c, 2, 2, 0, 1))
    return out


# channels, size, filters, kernel, stride, padding, groups
OTHERS = unet(32, 4, 256, 1) + unet(64, 4, 256, 1) + unet(16, 3, 128, 2) + [(1, 28, 6, 5, 1, 2, 1), (6, 14, 16, 5, 1, 0, 1), (1, 28, 32, 3, 1, 0, 1), (32, 26, 64, 3, 1, 0, 1), (1, 28, 32, 5, 1, 2, 1),
                              (32, 14, 64, 5, 1, 2, 1), (3, 32, 6, 5, 1, 0, 1), (3, 32, 32, 3, 1, 1, 1), (32, 32, 32, 3, 1, 1, 1), (32, 16, 64, 3, 1, 1, 1),
                              (64, 16, 64, 3, 1, 1, 1), (64, 8, 128, 3, 1, 1, 1), (3, 32, 64, 3, 1, 1, 1), (64, 32, 64, 3, 1, 1, 1),
                              (128, 16, 128, 3, 1, 1, 1), (256, 8, 256, 3, 1, 1, 1), (512, 4, 512, 3, 1, 1, 1), (3, 26, 64, 3, 1, 0, 1),
                              (64, 24, 128, 3, 1, 0, 1), (128, 22, 64, 3, 1, 0, 1), (64, 20, 1, 3, 1, 0, 1), (3, 224, 1024, 14, 14, 0, 1)]


def shapes(models):
    """Distinct (c, h, w, k, r, s, stride, padding, dilation, groups) in the order of appearance."""
    found = {}

    def hook(m, args, _):
        x = args[0]
        if isinstance(m, nn.Conv2d) and not isinstance(m.padding, str):
            found[(x.shape[1], x.shape[2], x.shape[3], m.out_channels, *m.kernel_size, *m.stride, *m.padding, *m.dilation, m.groups)] = None

    for name, _, size in (m.partition("@") for m in models):
        with torch.device("cuda"), torch.no_grad():
            backbone = {"weights_backbone": None} if name in torchvision.models.list_models(torchvision.models.segmentation) else {}
            model = torchvision.models.get_model(name, weights=None, **backbone).eval()
            for m in model.modules():
                m.register_forward_hook(hook)
            model(torch.empty(1, 3, int(size or 224), int(size or 224)))
    for c, size, k, r, stride, pad, groups in OTHERS:
        found[(c, size, size, k, r, r, stride, stride, pad, pad, 1, 1, groups)] = None
    return list(found)


def workspace(fn):
    """Bytes that fn allocates and frees again."""
    return -sum(e for e in memory_trace.allocations(fn) if e < 0)


def passes(n, shape, dtype, layout):
    c, h, w, k, r, s, sh, sw, ph, pw, dh, dw, g = shape
    form = {"device": "cuda", "dtype": DTYPES[dtype], "memory_format": FORMATS[layout]}
    x, f = torch.empty((n, c, h, w), **form), torch.empty((k, c // g, r, s), **form)
    geometry = (sh, sw), (ph, pw), (dh, dw), False, (0, 0), g
    y = torch.ops.aten.convolution(x, f, None, *geometry)
    yield "f", y.shape, workspace(lambda: torch.ops.aten.convolution(x, f, None, *geometry))
    for name, mask in (("d", (True, False, False)), ("w", (False, True, False))):
        yield name, y.shape, workspace(lambda: torch.ops.aten.convolution_backward(y, x, f, [0], *geometry, mask))


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    ap.add_argument("-m", "--models", nargs="*", default=MODELS)
    ap.add_argument("-b", "--batches", nargs="*", type=int, default=[1 << i for i in range(11)])
    ap.add_argument("-d", "--dtypes", nargs="*", default=["fp32"])
    ap.add_argument("-l", "--layouts", nargs="*", default=["nchw"])
    a = ap.parse_args()
    print("pass layout dtype n c h w k r s p q sh sw ph pw dh dw g bytes", sep="\t")
    for shape in shapes(a.models):
        c, h, w, k, r, s, *rest = shape
        for layout in a.layouts:
            for dtype in a.dtypes:
                for n in a.batches:
                    if n * max(c * h * w, k * (h // rest[0]) * (w // rest[1])) > 1 << 31:
                        continue
                    try:
                        for name, y, size in passes(n, shape, dtype, layout):
                            print(name, layout, dtype, n, c, h, w, k, r, s, y[2], y[3], *rest, size)
                    except torch.OutOfMemoryError:
                        torch.cuda.memory._record_memory_history(enabled=None)


if __name__ == "__main__":
    main()

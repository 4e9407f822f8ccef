"""Convolutions to record: python convolution_shapes.py zoo|exported [MODEL...]|models|unseen|random > SHAPES

A line is n c h w k r s stride_h stride_w pad_h pad_w dilation_h dilation_w groups. zoo: those of our models at batches of powers of two;
exported: likewise those of torchvision's models and of tests/torch/export_runs.txt, up to a batch of 256, at the size they are made for,
those of segmentation with their auxiliary heads too, or of the models that are named as for tests/torch/export_check.py;
models: those of torchvision's and timm's at several image sizes and batches, with a fifth of the models left out, which are `unseen`;
random: plausible sizes, first layers and grouped ones in numbers, because they are many-sided and hold the largest tensors.
"""
import pathlib
import random
import sys
import warnings
import zlib

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

BATCHES = [1, 2, 3, 4, 6, 8, 8, 8, 12, 16, 16, 20, 24, 32, 32, 32, 48, 64, 64, 64, 96, 100, 128, 128, 256]
SIZES = [32, 64, 96, 128, 160, 192, 256, 288, 320, 384, 512]
ZOO = ("alexnet convnext_tiny densenet121 efficientnet_b0 googlenet mobilenet_v2 mobilenet_v3_large resnet18 resnet50 resnext50_32x4d "
       "wide_resnet50_2 shufflenet_v2_x1_0 squeezenet1_1 swin_t vgg16 vit_b_16 fcn_resnet50 fcn_resnet50@520 resnet18@32").split()
TOO_BIG = ("regnet_y_128gf", "vit_h_14", "vit_l", "efficientnet_v2_l", "swin_v2", "maxvit", "regnet_y_32gf", "regnet_x_32gf", "convnext_large",
           "inception_v3")
SEGMENTATION = "fcn_resnet50 deeplabv3_resnet50 lraspp_mobilenet_v3_large".split()
TIMM = ("resnet26d resnet50d resnetrs50 ecaresnet26t seresnet50 res2net50_26w_4s resnest26d dpn68 cspresnet50 cspdarknet53 darknet53 vovnet39a "
        "ese_vovnet19b_dw ghostnet_100 mobilenetv4_conv_small mobilenetv4_conv_medium repvgg_a0 hrnet_w18_small hrnet_w18 dla34 dla60 "
        "efficientnet_lite0 tf_efficientnetv2_b0 tinynet_a mixnet_s fbnetc_100 lcnet_100 hardcorenas_a rexnet_100 nfnet_f0 dm_nfnet_f0 "
        "eca_nfnet_l0 regnetz_b16 skresnet18 gernet_s legacy_xception xception41 inception_resnet_v2 inception_v4 nasnetalarge pnasnet5large "
        "tresnet_m convmixer_768_32 convnextv2_tiny convnext_atto edgenext_small poolformer_s12 coat_tiny pit_s_224 levit_256 twins_svt_small "
        "pvt_v2_b1 mobilevit_s repghostnet_100 starnet_s1 fasternet_t0 efficientvit_b0 efficientformer_l1 focalnet_tiny_srf davit_tiny").split()


def square(c, size, k, kernel, stride, padding, groups=1):
    return c, size, size, k, kernel, kernel, stride, stride, padding, padding, 1, 1, groups


def unet(width, depth, pixels, classes):
    """Its convolutions, and the transposed ones as the convolutions whose backward pass they are."""
    yield square(width, pixels, classes, 1, 1, 0)
    for level in range(depth + 1):
        c, size = width << level, pixels >> level
        yield from (square(inputs, size, c, 3, 1, 1) for inputs in (c // 2 if level else 3, c, 2 * c))
        if level:
            yield square(c // 2, 2 * size, c, 2, 2, 0)


def diffusion_unet(widths=(320, 640, 1280, 1280), pixels=64, channels=4):
    """Stable Diffusion 1.5's: widths down, and up again with what was kept beside."""
    yield square(channels, pixels, widths[0], 3, 1, 1)
    yield square(widths[0], pixels, channels, 3, 1, 1)
    kept, c = [widths[0]], widths[0]
    for level, width in enumerate(widths):
        size = pixels >> level
        for _ in range(2):
            yield from (square(c, size, width, kernel, 1, kernel // 2) for kernel in (1, 3))
            c = width
            yield from (square(c, size, c, kernel, 1, kernel // 2) for kernel in (1, 3))
            kept.append(c)
        if level < len(widths) - 1:
            yield square(c, size, c, 3, 2, 1)
            kept.append(c)
    for level, width in reversed(list(enumerate(widths))):
        size = pixels >> level
        for _ in range(3):
            yield from (square(c + kept[-1], size, width, kernel, 1, kernel // 2) for kernel in (1, 3))
            kept.pop()
            c = width
        if level:
            yield square(c, 2 * size, c, 3, 1, 1)


def whisper(width, mels=80, frames=3000):
    for c, stride in ((mels, 1), (width, 2)):
        yield c, 1, frames, width, 1, 3, 1, stride, 0, 1, 1, 1, 1


SMALL = [(1, 28, 6, 5, 1, 2), (6, 14, 16, 5, 1, 0), (1, 28, 32, 3, 1, 0), (32, 26, 64, 3, 1, 0), (1, 28, 32, 5, 1, 2), (32, 14, 64, 5, 1, 2),
         (3, 32, 6, 5, 1, 0), (3, 32, 32, 3, 1, 1), (32, 32, 32, 3, 1, 1), (32, 16, 64, 3, 1, 1), (64, 16, 64, 3, 1, 1), (64, 8, 128, 3, 1, 1),
         (3, 32, 64, 3, 1, 1), (64, 32, 64, 3, 1, 1), (128, 16, 128, 3, 1, 1), (256, 8, 256, 3, 1, 1), (512, 4, 512, 3, 1, 1), (3, 26, 64, 3, 1, 0),
         (64, 24, 128, 3, 1, 0), (128, 22, 64, 3, 1, 0), (64, 20, 1, 3, 1, 0), (3, 224, 1024, 14, 14, 0)]


def of_model(model, size):
    """Distinct convolutions of a forward pass over square images, in order."""
    found = {}

    def hook(m, args, _):
        x = args[0]
        if isinstance(m, nn.Conv2d) and not isinstance(m.padding, str):
            found[(*x.shape[1:], m.out_channels, *m.kernel_size, *m.stride, *m.padding, *m.dilation, m.groups)] = None

    for m in model.modules():
        m.register_forward_hook(hook)
    try:
        with torch.no_grad():
            model(torch.empty(1, 3, size, size, device="meta"))
    except (RuntimeError, AssertionError, NotImplementedError) as e:
        print(type(model).__name__, size, str(e).split("\n")[0], file=sys.stderr)
    return list(found)


def torchvision_model(name, **options):
    import torchvision
    backbone = {"weights_backbone": None} if name in torchvision.models.list_models(torchvision.models.segmentation) else {}
    with torch.device("meta"):
        return torchvision.models.get_model(name, weights=None, **backbone, **options).eval()


def zoo():
    found = [s for name, _, size in (m.partition("@") for m in ZOO) for s in of_model(torchvision_model(name), int(size or 224))]
    found += [*unet(32, 4, 256, 1), *unet(64, 4, 256, 1), *unet(16, 3, 128, 2), *diffusion_unet(), *(square(*s) for s in SMALL)]
    found += [s for width in (384, 512, 768, 1024, 1280) for s in whisper(width)]
    for s in sorted(set(found)):
        c, h, w, k, stride = *s[:4], s[6]
        yield from ((n, *s) for n in (1 << i for i in range(11)) if n * max(c * h * w, k * (h // stride or 1) * (w // stride)) <= 1 << 31)


class Convolutions(TorchDispatchMode):
    """Every convolution that runs, also of functions and behind a padding of its own."""

    def __init__(self):
        super().__init__()
        self.found = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.convolution.default and args[0].dim() == 4 and not args[6]:
            x, weight, _, stride, padding, dilation, _, _, groups = args
            depthwise = 1 < groups == x.shape[1]  # PyTorch's own kernel's, in NCHW
            if not depthwise or not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last):
                self.found[(*x.shape[1:], weight.shape[0], *weight.shape[2:], *stride, *padding, *dilation, groups)] = None
        return func(*args, **(kwargs or {}))


def exported(names):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "torch"))
    import export_check
    from gpuplan.without_data import on_meta
    if not names:
        names = [f"{kind}:{n}" for kind in ("torchvision", "segmentation") for n in export_check.names_of(kind)]
        names += [n for n in pathlib.Path(__file__).resolve().parents[1].joinpath("torch/export_runs.txt").read_text().split() if n not in names]
    found = {}
    for name in names:
        kind, _, model = name.partition(":")
        cases = [export_check.CASES[kind](model)]
        if kind == "segmentation" and model.startswith(("fcn", "deeplabv3")):
            cases.append(cases[0]._replace(model=torchvision_model(model, aux_loss=True)))
        for case in cases:
            with Convolutions() as convolutions, torch.no_grad():
                on_meta(case.model).train()(case.batch)
            found.update(convolutions.found)
    for s in sorted(found):
        c, h, w, k, stride = *s[:4], s[6]
        yield from ((n, *s) for n in (1 << i for i in range(9)) if n * max(c * h * w, k * (h // stride or 1) * (w // stride)) <= 1 << 31)


def many_models():
    """(name, shapes)"""
    import timm
    import torchvision
    for name in torchvision.models.list_models(torchvision.models):
        if name.startswith(TOO_BIG):
            continue
        try:
            model = torchvision_model(name)
        except NotImplementedError:  # does not initialize without memory
            continue
        for size in [224] if name.startswith("vit") else [224, *random.sample(SIZES, 3)]:
            yield name, of_model(model, size)
    for name in SEGMENTATION:
        model = torchvision_model(name)
        for size in (224, 320, 512, 520, 640):
            yield name, of_model(model, size)
    for name in TIMM:
        with torch.device("meta"):
            model = timm.create_model(name).eval()
        for size in [224, *random.sample(SIZES[3:-1], 2)]:
            yield name, of_model(model, size)


def models(unseen):
    kept, left_out = set(), set()
    for name, shapes in many_models():
        (left_out if zlib.crc32(name.encode()) % 5 == 0 else kept).update(shapes)
    for s in sorted(left_out - kept if unseen else kept):
        for n in random.sample(BATCHES, 2):
            c, h, w, k, stride = *s[:4], s[6]
            if n * max(c * h * w, k * h * w // stride**2) < 3 << 30:
                yield n, *s


WIDTHS = [8, 12, 16, 24, 32, 40, 48, 56, 58, 64, 72, 80, 88, 96, 112, 116, 120, 128, 144, 160, 176, 184, 192, 200, 208, 224, 232, 240, 256, 272, 288,
          320, 336, 348, 384, 432, 440, 448, 480, 512, 528, 576, 624, 640, 672, 720, 736, 768, 816, 832, 864, 888, 896, 960, 1024, 1056, 1152, 1280,
          1392, 1536, 1920, 2048, 2304, 2560]
IMAGES = [1, 2, 4, 7, 8, 10, 12, 13, 14, 15, 16, 17, 20, 24, 26, 27, 28, 32, 33, 35, 40, 48, 52, 55, 56, 60, 64, 65, 70, 75, 80, 96, 104, 110, 112,
          128, 130, 147, 149, 150, 160, 192, 208, 224, 256, 260, 299, 300, 320, 384, 512, 520, 640]
FIRST_KERNELS = [(3, 1, 1), (3, 1, 1), (3, 2, 1), (3, 2, 1), (3, 2, 0), (3, 1, 0), (7, 2, 3), (7, 2, 3), (5, 1, 2), (5, 2, 2), (11, 4, 2), (4, 4, 0),
                 (4, 4, 0), (16, 16, 0), (14, 14, 0), (32, 32, 0), (8, 8, 0), (2, 2, 0), (7, 4, 3), (7, 4, 2), (6, 2, 2), (1, 1, 0), (7, 1, 3), (5, 1, 0)]


def first_layer():
    return square(random.choice([1, 1, 2, 3, 3, 3, 3, 3, 3, 3, 4, 4, 6, 8]), random.choice([28, 32, 32, 64, 96, 112, 128, 160, 192, 224, 224, 224, 240,
                  256, 299, 320, 384, 416, 448, 512, 518, 520, 640]), random.choice([6, 10, 20, *WIDTHS[:40], *WIDTHS[:20], 1152, 1280]),
                  *random.choice(FIRST_KERNELS))


def depthwise():
    c, kernel = random.choice(WIDTHS[2:]), random.choice([3, 3, 3, 3, 5, 5, 7, 7, 9])
    return square(c, random.choice(IMAGES[2:41]), c, kernel, random.choice([1, 1, 2]), kernel // 2, c)


def grouped():
    groups, kernel = random.choice([2, 2, 4, 8, 8, 16, 32, 32, 32, 64]), random.choice([3, 3, 3, 3, 1, 5])
    c = groups * random.choice([2, 4, 8, 8, 16, 16, 24, 32, 32, 48, 64])
    return square(c, random.choice(IMAGES[2:41]), c * random.choice([1, 1, 1, 2]), kernel, random.choice([1, 1, 2]), kernel // 2, groups)


def sequence():
    kernel, c, k = random.choice([1, 3, 3, 5, 7]), random.choice(WIDTHS), random.choice(WIDTHS)
    return c, 1, random.choice([100, 128, 500, 1000, 1500, 3000, 8000]), k, 1, kernel, 1, random.choice([1, 1, 2]), 0, kernel // 2, 1, 1, 1


def dense():
    """1 x 1 and 3 x 3 for the most part, images shrinking as channels grow."""
    c = random.choice(WIDTHS)
    k = random.choice([c, max(1, int(c * random.choice([1 / 6, 0.25, 1 / 3, 0.5, 1.5, 2, 3, 4, 6]))), random.choice(WIDTHS), random.choice(WIDTHS)])
    if random.random() < 0.6:
        values = random.choice([1, 2, 4, 8, 16]) * 224 * 224 * 3
        h = w = min(IMAGES, key=lambda v: abs(v * v * c - values))
    else:
        h = w = random.choice(IMAGES)
    if random.random() < 0.08:
        w = random.choice(IMAGES)
    kind, dilation = random.random(), 1
    if kind < 0.48:
        kernel, stride, pad = 1, random.choice([1] * 7 + [2]), 0
    elif kind < 0.92:
        kernel, stride, pad = 3, random.choice([1, 1, 1, 1, 2]), random.choice([1] * 19 + [0])
    elif kind < 0.94:
        kernel, stride, dilation = 3, 1, random.choice([2, 4, 12, 24])
        pad = dilation
    elif kind < 0.97:
        kernel, stride = random.choice([5, 5, 7]), random.choice([1, 1, 2])
        pad = kernel // 2
    else:
        kernel = stride = random.choice([2, 2, 2, 4, 4, 8, 14, 16, 32])
        pad = 0
    return c, h, w, k, kernel, kernel, stride, stride, pad, pad, dilation, dilation, 1


def random_shapes():
    for count, make in ((6000, dense), (300, sequence), (5500, first_layer), (2400, depthwise), (2000, grouped)):
        found = set()
        while len(found) < count:
            s = make()
            n, (c, h, w, k, r, _, stride, _, pad, _, dilation, _, groups) = random.choice(BATCHES), s
            if 2 * n * max(c * h * w, k * h * w // stride**2) < 2 << 30 and h * w >= (dilation * (r - 1) + 1 - 2 * pad) ** 2 and \
                    c * k * r * r // groups < 40 << 20 and (h == 1 or min(h, w) + 2 * pad >= dilation * (r - 1) + 1):
                found.add((n, *s))
        yield from sorted(found)


def main():
    warnings.simplefilter("ignore")
    random.seed(1)
    for shape in {"zoo": zoo, "exported": lambda: exported(sys.argv[2:]), "models": lambda: models(False), "unseen": lambda: models(True), "random": random_shapes}[sys.argv[1]]():
        print(*shape)


if __name__ == "__main__":
    main()

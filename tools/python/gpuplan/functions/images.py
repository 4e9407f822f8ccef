"""Windows, pooling, padding and resizing of images."""
from __future__ import annotations

from typing import Any, List, Tuple

from gpuplan.errors import Unsupported
from gpuplan.functions.arguments import inferred_shape, number
from gpuplan.layers import simplified
from gpuplan.writer import Writer, handles


@handles("unfold")
def write_unfold(w: Writer) -> None:
    """tensor.unfold, a view with one dimension more; or F.unfold of images."""
    if len(w.results()[0].shape) == len(w.x.shape) + 1:
        return w.emit("UnfoldDimension", [("", w.argument(i, n)) for i, n in ((1, "dimension"), (2, "size"), (3, "step"))],
                      [w.x], view=True) and None
    w.emit("Unfold", window_arguments(w, 1), [w.x])


@handles("fold")
def write_fold(w: Writer) -> None:
    w.emit("Fold", [("output_size", simplified(w.argument(1, "output_size")))] + window_arguments(w, 2), [w.x])


def window_arguments(w: Writer, first: int) -> List[Tuple[str, Any]]:
    defaults = (("kernel_size", None), ("dilation", 1), ("padding", 0), ("stride", 1))
    given = [(n, simplified(w.argument(first + i, n, d)), d) for i, (n, d) in enumerate(defaults)]
    return [(n, v) for n, v, d in given if v != d]


@handles("pad")
def write_pad(w: Writer) -> None:
    mode, value = w.argument(2, "mode", "constant"), w.argument(3, "value", 0)
    if mode == "reflect" and len(w.argument(1, "pad")) == 4:
        return w.emit("ReflectionPad2d", [("", list(w.argument(1, "pad")))], [w.x]) and None
    if mode != "constant":
        raise Unsupported(f"mode {mode}")
    if w.results() == [w.x]:
        return
    w.emit("Pad", [("pad", list(w.argument(1, "pad")))] + ([("value", value)] if value else []), [w.x])


@handles("interpolate", "upsample")
def write_interpolate(w: Writer) -> None:
    mode, corners = w.argument(3, "mode", "nearest"), w.argument(4, "align_corners")
    size = [n for n in w.results()[0].shape[2:]]
    scale = None if w.argument(5, "recompute_scale_factor") else simplified(w.argument(2, "scale_factor"))
    if mode not in ("nearest", "linear", "bilinear", "bicubic") or mode == "nearest" and len(w.x.shape) != 4:
        raise Unsupported(f"mode {mode} of {len(w.x.shape)} dimensions")
    arguments: List[Tuple[str, Any]] = [("scale_factor", scale)] if number(scale) else [("size", simplified(size))]
    arguments += [("mode", mode)] if mode != "nearest" else []
    arguments += [("align_corners", corners)] if corners is not None else []
    w.emit("Interpolate", arguments + ([("antialias", True)] if w.argument(6, "antialias", False) else []), [w.x])


@handles("adaptive_avg_pool2d")
def write_adaptive_pool(w: Writer) -> None:
    w.emit("AdaptiveAvgPool2d", [("", simplified(tuple(w.results()[0].shape[-2:])))], [w.x])


@handles("avg_pool2d", "max_pool2d")
def write_pool(w: Writer) -> None:
    names = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override") \
        if w.call.name == "avg_pool2d" else ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
    defaults = {"stride": None, "padding": 0, "dilation": 1, "ceil_mode": False, "count_include_pad": True,
                "divisor_override": None, "return_indices": False}
    arguments = []
    for i, name in enumerate(names):
        value = simplified(w.argument(i + 1, name, defaults.get(name)))
        if value != defaults.get(name) and value != ():
            arguments.append((name, value))
    w.emit("AvgPool2d" if w.call.name == "avg_pool2d" else "MaxPool2d", arguments, [w.x])


@handles("adaptive_avg_pool1d", "adaptive_max_pool1d", "max_pool1d")
def write_row_pool(w: Writer) -> None:
    """An image of one row (Pooling.cpp, the adaptive pools and, where there are indices to keep, max_pool1d)."""
    shape, out = list(w.x.shape), list(w.results()[0].shape)
    row, pooled = w.inner(shape[:-1] + [1] + shape[-1:]), w.inner(out[:-1] + [1] + out[-1:])
    arguments: List[Tuple[str, Any]] = [("", [1, out[-1]])]
    if w.call.name == "max_pool1d":
        kernel, stride, padding, dilation = (simplified(w.argument(i + 1, n, d)) for i, (n, d) in enumerate((
            ("kernel_size", None), ("stride", None), ("padding", 0), ("dilation", 1))))
        stride = kernel if stride is None or stride == () else stride
        arguments = [("kernel_size", [1, kernel]), ("stride", [1, stride])] + ([("padding", [0, padding])] if padding else []) + \
            ([("dilation", [1, dilation])] if dilation != 1 else []) + ([("ceil_mode", True)] if w.argument(5, "ceil_mode", False) else [])
    w.emit("Unsqueeze", [("", -2)], [w.x], [row], view=True)
    pool = {"max_pool1d": "MaxPool2d", "adaptive_max_pool1d": "AdaptiveMaxPool2d"}.get(w.call.name, "AdaptiveAvgPool2d")
    w.emit(pool, arguments, [row], [pooled])
    w.emit("Squeeze", [("", -2)], [pooled], view=True)


@handles("pixel_shuffle", "pixel_unshuffle", "channel_shuffle")
def write_shuffle(w: Writer) -> None:
    """A contiguous copy of a permuted view (aten/src/ATen/native/PixelShuffle.cpp and ChanelShuffle.cpp)."""
    if len(w.x.shape) != 4:
        raise Unsupported("of other than four dimensions")
    n, c, h, v = w.x.shape
    of = w.argument(1, {"channel_shuffle": "groups", "pixel_shuffle": "upscale_factor"}.get(w.call.name, "downscale_factor"))
    parts, order = {"pixel_shuffle": ([n, c // of**2, of, of, h, v], (0, 1, 4, 2, 5, 3)),
                    "pixel_unshuffle": ([n, c, h // of, of, v // of, of], (0, 1, 3, 5, 2, 4)),
                    "channel_shuffle": ([n, of, c // of, h * v], (0, 2, 1, 3))}[w.call.name]
    result = w.results()[0]
    cut, turned, copied = w.inner(parts), w.inner([parts[i] for i in order]), w.inner([parts[i] for i in order], result)
    w.emit("View", [("", s) for s in inferred_shape(parts)], [w.x], [cut], view=True)
    w.emit("Permute", [("", i) for i in order], [cut], [turned], view=True)
    w.emit("Contiguous", [], [turned], [copied])
    w.emit("View", [("", s) for s in inferred_shape(result.shape)], [copied], view=True)


@handles("avg_pool1d")
def write_pool_1d(w: Writer) -> None:
    """An image of one row (aten/src/ATen/native/Pooling.cpp, avg_pool1d)."""
    kernel, stride, padding = (simplified(w.argument(i, n, d)) for i, n, d in (
        (1, "kernel_size", None), (2, "stride", None), (3, "padding", 0)))
    if w.argument(4, "ceil_mode", False) or not w.argument(5, "count_include_pad", True):
        raise Unsupported("with these options")
    stride = kernel if stride is None or stride == () else stride
    shape, out = list(w.x.shape), list(w.results()[0].shape)
    row, pooled = w.inner(shape[:-1] + [1] + shape[-1:]), w.inner(out[:-1] + [1] + out[-1:])
    w.emit("Unsqueeze", [("", -2)], [w.x], [row], view=True)
    arguments = [("kernel_size", [1, kernel]), ("stride", [1, stride])] + ([("padding", [0, padding])] if padding else [])
    w.emit("AvgPool2d", arguments, [row], [pooled])
    w.emit("Squeeze", [("", -2)], [pooled], view=True)


@handles("adaptive_max_pool2d")
def write_adaptive_max_pool(w: Writer) -> None:
    w.emit("AdaptiveMaxPool2d", [("", simplified(w.argument(1, "output_size")))], [w.x], w.results()[:1])

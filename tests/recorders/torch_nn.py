#!/usr/bin/env python3
"""docs/torch-nn.md: what every class of torch.nn is in a spec, asked of the exporter.

    python tests/recorders/torch_nn.py --gpuplan build/gpuplan > docs/torch-nn.md

A class is exported with the arguments below, in train and eval mode; what the spec has for it is its line."""
from __future__ import annotations

import argparse
import inspect
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, Dict, List, Tuple

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools/python"))
import gpuplan  # noqa: E402
from gpuplan.errors import ExportError  # noqa: E402

ROWS, WIDTH = (12, 16), 16
SHAPES = {"1d": (16, 32), "2d": (16, 8, 8), "3d": (16, 4, 8, 8)}
CHANNELS = ("BatchNorm", "InstanceNorm", "SyncBatchNorm")
ARGUMENTS: Dict[str, Tuple[Any, ...]] = {
    "Linear": (16, 24), "Bilinear": (16, 16, 8), "LayerNorm": (16,), "RMSNorm": (16,), "GroupNorm": (4, 16), "Embedding": (50, 16), "EmbeddingBag": (50, 16),
    "MultiheadAttention": (16, 4), "Transformer": (16, 4, 1, 1, 32), "TransformerEncoderLayer": (16, 4, 32), "TransformerDecoderLayer": (16, 4, 32),
    "RNN": (16, 24), "LSTM": (16, 24), "GRU": (16, 24), "RNNCell": (16, 24), "LSTMCell": (16, 24), "GRUCell": (16, 24), "PixelShuffle": (2,),
    "PixelUnshuffle": (2,), "ChannelShuffle": (4,), "Unflatten": (-1, (4, 4)), "Unfold": (3,), "Fold": ((8, 8), 2, 1, 0, 2), "LocalResponseNorm": (2,),
    "CrossMapLRN2d": (2,), "Threshold": (0.1, 0.0), "Softmax": (-1,), "LogSoftmax": (-1,), "Softmin": (-1,), "UpsamplingBilinear2d": ((16, 16),),
    "UpsamplingNearest2d": ((16, 16),), "Upsample": ((16, 16),), "FractionalMaxPool2d": (2, 4), "FractionalMaxPool3d": (2, 2),
    "AdaptiveLogSoftmaxWithLoss": (16, 20, [5, 10])}
INPUTS: Dict[str, List[Tuple[int, ...]]] = {"Bilinear": [ROWS, ROWS], "CosineSimilarity": [ROWS, ROWS], "PairwiseDistance": [(16,), (16,)],
                                            "MultiheadAttention": [ROWS] * 3, "Transformer": [ROWS] * 2, "TransformerDecoderLayer": [ROWS] * 2,
                                            "RNNCell": [(16,)], "LSTMCell": [(16,)], "GRUCell": [(16,)], "Fold": [(64, 16)]}
OF_IMAGES = ("PixelShuffle", "PixelUnshuffle", "ChannelShuffle", "Unfold", "GroupNorm", "LocalResponseNorm", "Upsample", "SyncBatchNorm")
# What is no layer of a model by itself.
OTHERS = {"Container": "a base class", "Module": "a base class", "RNNBase": "a base class", "RNNCellBase": "a base class", "Sequential": "a block",
          "ModuleList": "a list of entries", "ModuleDict": "a list of entries", "ParameterList": "`Parameter` entries", "ParameterDict": "`Parameter` entries",
          "DataParallel": "no part of a model: `--gpus N` plans several GPUs", "TransformerEncoder": "blocks of its layers",
          "TransformerDecoder": "blocks of its layers", "NLLLoss2d": "an old name of `NLLLoss`",
          "AdaptiveLogSoftmaxWithLoss": "not asked, since its forward takes the targets",
          "LinearCrossEntropyLoss": "not asked, since its forward takes the targets"}

# Exports have them recorded, with what their kernels work in; these are layers of specs that people write.
BY_HAND = ("AdaptiveAvgPool3d", "AdaptiveMaxPool3d", "AvgPool3d", "Conv3d", "CosineSimilarity", "MaxPool3d")


def classes() -> List[str]:
    return [name for name in dir(nn) if inspect.isclass(getattr(nn, name)) and issubclass(getattr(nn, name), nn.Module)]


def kind(name: str) -> str:
    return next((k for k in SHAPES if name.endswith(k)), "2d" if name in OF_IMAGES or name == "Softmax2d" else "")


def arguments(name: str) -> Tuple[Any, ...]:
    if name in ARGUMENTS:
        return ARGUMENTS[name]
    if name.startswith(CHANNELS):
        return (16,)
    if name.startswith("Conv"):
        return (16, 24, 3)
    if name.startswith("Lazy"):
        return () if "Norm" in name else (24,) if name == "LazyLinear" else (24, 3)
    if "Pad" in name:
        return (1, 0.5) if name.startswith("Constant") else (1,)
    if name.startswith("Adaptive"):
        return (4,)
    if name.startswith("LPPool"):
        return (2, 2)
    return (2,) if "Pool" in name or "Unpool" in name else ()


class One(nn.Module):
    """The class behind a weight, so that what it is given wants a gradient."""

    def __init__(self, name: str, inputs: List[Tuple[int, ...]]):
        super().__init__()
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(shape)) for shape in inputs])
        self.module = getattr(nn, name)(*arguments(name), **KEYWORDS.get(name, {}))

    def forward(self, *inputs: torch.Tensor) -> Any:
        out = self.module(*(x * s for x, s in zip(inputs, self.scales)), *inputs[len(self.scales):])
        while not isinstance(out, torch.Tensor):
            out = out[0]
        return out


class Loss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(WIDTH, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x)


KEYWORDS: Dict[str, Dict[str, Any]] = {name: {"batch_first": True} for name in
                                       ("MultiheadAttention", "Transformer", "TransformerEncoderLayer", "TransformerDecoderLayer")}


def targets(name: str, out: torch.Tensor) -> Tuple[torch.Tensor, ...]:
    rows = out.shape[0]
    classes, like = torch.zeros(rows, dtype=torch.int64, device=out.device), torch.zeros_like(out.detach())
    return {"CrossEntropyLoss": (classes,), "NLLLoss": (classes,), "MultiMarginLoss": (classes,), "GaussianNLLLoss": (like, like),
            "CosineEmbeddingLoss": (like, classes), "MarginRankingLoss": (like, like), "TripletMarginLoss": (like, like),
            "TripletMarginWithDistanceLoss": (like, like),
            "MultiLabelMarginLoss": (like.long(),), "CTCLoss": (classes[:, None], classes, classes)}.get(name, (like,))


def exported(name: str, folder: str) -> str:
    path = os.path.join(folder, "m.yaml")
    if name.endswith("Loss") and not name.startswith("Adaptive"):
        loss = getattr(nn, name)()
        batch = (torch.empty(2, WIDTH), *targets(name, torch.empty(2, 10)))
        return gpuplan.export(Loss(), batch, path, forward=lambda model, batch: model(batch[0]), loss=lambda _, out, batch: loss(out, *batch[1:]))
    if name.startswith("Embedding"):
        return gpuplan.export(One(name, []), torch.zeros(2, 12, dtype=torch.int64), path, loss=lambda _, out, batch: out.sum())
    inputs = INPUTS.get(name, [SHAPES[kind(name)] if kind(name) else ROWS])
    batch = tuple(torch.empty((2, *shape)) for shape in inputs)
    if name.startswith("MaxUnpool"):
        batch += (torch.zeros((2, *inputs[0]), dtype=torch.int64),)
    return gpuplan.export(One(name, inputs), batch, path, forward=lambda model, batch: model(*batch), loss=lambda _, out, batch: out.sum())


def ops_of(spec: str) -> List[str]:
    """The layers' names in a spec, in order, without the scales that One puts before them."""
    ops = re.findall(r'(?:^|[\s":,{])([A-Z]\w*)\(', "\n".join(line for line in spec.splitlines() if not line.startswith(("#", "verified", "differs"))))
    return [op for op in dict.fromkeys(ops) if op not in ("Parameter", "Rebind", "Return")]


def line(name: str, folder: str) -> str:
    if name in OTHERS:
        return OTHERS[name]
    if name.startswith("Lazy"):
        return f"as `{name[4:]}`, once a first forward has given it its sizes"
    try:
        spec = exported(name, folder)
    except ExportError as e:
        return "no: " + why(str(e))
    except Exception as e:  # whatever the class raises of these arguments
        return f"no: {type(e).__name__}: {str(e).splitlines()[0][:90]}"
    ops = ops_of(spec)
    if name == "Identity":
        return "nothing, as it computes nothing"
    if name in ops:
        return "the layer of that name"
    recorded = list(dict.fromkeys(re.findall(r"Aten\('(\w+)'", spec)))
    parts = [op for op in ops if op not in ("Mul", "Sum", "Linear")] or ops
    if recorded:
        beside = [op for op in parts if op not in ("Aten", "Buffer", "Identity")]
        by_hand = "; by hand the layer of that name" if name in BY_HAND else ""
        return "recorded: " + ", ".join(f"`{op}`" for op in recorded) + by_hand + (f"; with {', '.join(f'`{op}`' for op in beside[:4])}" if beside else "")
    shown = parts[:6] + (["..."] if len(parts) > 6 else [])
    return "its parts: " + ", ".join(op if op == "..." else f"`{op}`" for op in shown)


def why(message: str) -> str:
    lines = [text.strip() for text in message.splitlines() if text.strip()]
    text = lines[1] if lines[0].endswith("calls:") and len(lines) > 1 else lines[0]
    text = re.sub(r"^(in \w+ mode: )?\S+torch_nn.py:\d+: ", "", text)
    text = text.replace(" (no layer supports this)", ", for which there is no layer")
    return re.sub(r"(which meta tensors do not have): .*", r"\1", text)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpuplan", required=True)
    os.environ["GPUPLAN"] = parser.parse_args().gpuplan
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        rows = [(name, line(name, folder)) for name in classes()]
    print("# Classes of torch.nn\n")
    print(f"What each class of torch.nn (PyTorch {'.'.join(torch.__version__.split('.')[:2])}) is in a spec; written by `tests/recorders/torch_nn.py`, which exports each.")
    print("A layer is written as in PyTorch. What has no layer may be exported as its parts, or, with PyTorch's build for CUDA, as operators that")
    print("are [recorded](models.md#operators-without-a-layer) on a simulated GPU. What cannot be exported (no: the reason) is")
    print("[learned](models.md#from-python-by-name) by `gpuplan MODEL.py:CALLABLE`.\n")
    print("| class | in a spec |\n|---|---|")
    for name, text in rows:
        print(f"| `{name}` | {text} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Operators of PyTorch one by one, as torch.onnx writes them: an output of one graph for each.

  python3 tests/recorders/onnx_operators.py tests/onnx     writes operators_EXPORTER.onnx and operators.tsv

Beside each operator stands the layer of the catalog that is the same call; the shapes are PyTorch's. The table says which
exporter wrote the operator: the newer one (dynamo) and the older one (script) know not all of them. Needs torch and onnx.
"""
import io
import logging
import sys
import tempfile
import warnings
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

BATCH = 2

# Of x [batch, 6, 8, 10], or of what is made of it.
OPERATORS = {
    "vector_norm": (lambda m, x: torch.linalg.vector_norm(x, dim=1), "VectorNorm(dim=[1])"),
    "amax": (lambda m, x: x.amax((2, 3), keepdim=True), "AMax(dim=[2, 3], keepdim=True)"),
    "amin": (lambda m, x: x.amin(1), "AMin(dim=[1])"),
    "max_values": (lambda m, x: x.max(2)[0] + x.max(2)[1], "Max(2)"),
    "argmax": (lambda m, x: x.argmax(1), "ArgMax(1)"),
    "argmin": (lambda m, x: x.argmin(3, keepdim=True), "ArgMin(3, keepdim=True)"),
    "topk": (lambda m, x: sum(x.topk(3, dim=3)), "TopK(3, dim=3)"),
    "tile": (lambda m, x: x.repeat(1, 2, 1, 3), "Repeat(1, 2, 1, 3)"),
    "reflect": (lambda m, x: F.pad(x, (1, 2, 3, 0), mode="reflect"), "ReflectionPad2d([1, 2, 3, 0])"),
    "flip": (lambda m, x: x.flip(3), "Flip([3])"),
    "bicubic": (lambda m, x: F.interpolate(x, (12, 20), mode="bicubic", align_corners=False),
                "Interpolate(size=[12, 20], mode='bicubic', align_corners=False)"),
    "bilinear_smooth": (lambda m, x: F.interpolate(x, (4, 5), mode="bilinear", antialias=True),
                        "Interpolate(size=[4, 5], mode='bilinear', align_corners=False, antialias=True)"),
    "linear": (lambda m, x: F.interpolate(x[:, :, 0], 25, mode="linear"),
               "Interpolate(size=25, mode='linear', align_corners=False)"),
    "max_pool": (lambda m, x: F.adaptive_max_pool2d(x, 1), "AdaptiveMaxPool2d(1)"),
    "max_pool1d": (lambda m, x: F.max_pool1d(x[:, :, 0], 3, 2, 1), "MaxPool2d([1, 3], stride=[1, 2], padding=[0, 1])"),
    "avg_pool1d": (lambda m, x: F.avg_pool1d(x[:, :, 0], 4), "AvgPool2d([1, 4], stride=[1, 4])"),
    "clamp_min": (lambda m, x: x.clamp(min=0.25), "Clamp(min=0.25)"),
    "rsqrt": (lambda m, x: x.rsqrt(), "Rsqrt()"),
    "prelu": (lambda m, x: m.prelu(x), "PReLU(6)"),
    "prelu_one": (lambda m, x: m.prelu_one(x), "PReLU(1)"),
    "conv1d": (lambda m, x: m.conv1d(x[:, :, 0]), "Conv1d(6, 4, 3, stride=2, padding=1)"),
    "conv_transpose1d": (lambda m, x: m.conv_transpose1d(x[:, :, 0]), "ConvTranspose1d(6, 4, 4, stride=2, padding=1)"),
    "batch_norm1d": (lambda m, x: m.batch_norm1d(x[:, :, 0]), "BatchNorm1d(6)"),
    "addmm": (lambda m, x: torch.mm(x[:, 0, 0], x[0, 0].t()), "MatMul()"),
    "index_table": (lambda m, x: m.table[m.places] * 2, "Index()"),
    "index_rows": (lambda m, x: x[:, :, m.places], "Index(dim=2)"),
    "floor_divide": (lambda m, x: x.argmax(1) // 3, "FloorDivide(3)"),
    "remainder": (lambda m, x: x.argmax(1) % 3, "Remainder(3)"),
    "and": (lambda m, x: torch.logical_and(x > 0.25, x < 0.75), "LogicalAnd()"),
    "or": (lambda m, x: torch.logical_or(x < 0.25, x > 0.75), "LogicalOr()"),
    "xor": (lambda m, x: torch.logical_xor(x > 0.25, x[:, :1] < 0.75), "LogicalXor()"),
    "one_hot": (lambda m, x: F.one_hot(x.argmax(1), 6), "OneHot(6)"),
    "where": (lambda m, x: torch.where(~(x > 0.5), x, x * 2), "Not()"),
}

# What the newer exporter writes as several operators for the sake of negative numbers, and what it computes itself.
SCRIPT_ONLY = ("floor_divide", "remainder", "index_table")
# What is written as other operators, of which one is this.
WRITTEN_AS = {
    ("dynamo", "linear"): "Index()",
    ("dynamo", "index_rows"): "Index()",
    ("dynamo", "one_hot"): "To(int64)",  # of a comparison with the classes
    ("dynamo", "max_pool"): "AMax(dim=[2, 3], keepdim=True)",
    ("script", "max_pool"): "MaxPool2d([8, 10], stride=[8, 10])",
}


class One(nn.Module):
    def __init__(self, names):
        super().__init__()
        self.names = names
        self.prelu = nn.PReLU(6)
        self.prelu_one = nn.PReLU()
        self.conv1d = nn.Conv1d(6, 4, 3, 2, 1)
        self.conv_transpose1d = nn.ConvTranspose1d(6, 4, 4, 2, 1)
        self.batch_norm1d = nn.BatchNorm1d(6)
        self.table = nn.Parameter(torch.rand(5, 7))
        self.register_buffer("places", torch.tensor([[0, 1, 2], [2, 1, 0]]))

    def forward(self, x):
        return tuple(OPERATORS[name][0](self, x) for name in self.names)


def export(names, path, exporter):
    module = One(names).eval()
    with torch.no_grad():
        for p in module.parameters():
            p.uniform_(0.5, 1.5)
    outputs = ["out_" + name for name in names]
    inputs = (torch.rand(BATCH, 6, 8, 10),)
    stdout, sys.stdout = sys.stdout, io.StringIO()
    try:
        if exporter == "dynamo":
            shapes = ({0: torch.export.Dim("batch", min=1, max=64)},)
            torch.onnx.export(module, inputs, str(path), dynamo=True, input_names=["x"], output_names=outputs,
                              dynamic_shapes=shapes, verbose=False)
        else:
            torch.onnx.export(module, inputs, str(path), dynamo=False, opset_version=18, input_names=["x"],
                              output_names=outputs, dynamic_axes={"x": {0: "batch"}}, do_constant_folding=False)
    finally:
        sys.stdout = stdout
    return module(*inputs)


def strip(path, target):
    """Without the notes that an importer does not read: they name files of the machine."""
    import onnx

    model = onnx.load(str(path))
    for node in model.graph.node:
        node.ClearField("doc_string")
        kept = [(p.key, p.value) for p in node.metadata_props if p.key.endswith(("name_scopes", "fx_node"))]
        del node.metadata_props[:]
        for key, value in kept:
            node.metadata_props.add(key=key, value=value)
    del model.metadata_props[:]
    del model.graph.metadata_props[:]
    target.write_bytes(model.SerializeToString())


def main(folder):
    lines = []
    for exporter in ("dynamo", "script"):
        known = []
        with tempfile.TemporaryDirectory() as scratch:
            for name in OPERATORS:
                if exporter == "dynamo" and name in SCRIPT_ONLY:
                    continue
                try:
                    export([name], Path(scratch) / "one.onnx", exporter)
                    known.append(name)
                except Exception as problem:
                    print(f"{exporter} does not export {name}: {type(problem).__name__}: {str(problem).splitlines()[0]}")
            path = Path(scratch) / "all.onnx"
            results = export(known, path, exporter)
            strip(path, Path(folder) / f"operators_{exporter}.onnx")
        for name, result in zip(known, results):
            shape = "x".join(str(n) for n in result.shape)
            layer = WRITTEN_AS.get((exporter, name), OPERATORS[name][1])
            lines.append(f"{exporter}\t{name}\t{shape}\t{layer}\n")
    (Path(folder) / "operators.tsv").write_text(
        f"# Recorded by tests/recorders/onnx_operators.py with PyTorch {torch.__version__.split('+')[0]}: batch {BATCH}.\n"
        "exporter\toperator\tshape\tlayer\n" + "".join(lines))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])

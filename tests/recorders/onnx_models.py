"""Small ONNX models as torch.onnx writes them, and what PyTorch counts of the same modules.

  python3 tests/recorders/onnx_models.py record tests/onnx [NAME ...]     writes NAME.onnx without weights, expected.tsv
  python3 tests/recorders/onnx_models.py check GPUPLAN [NAME ...]         exports anew and compares, weights and all

Needs torch, torchvision, transformers (4.46: what 5 calls in making masks, torch.onnx cannot export) and onnx. Weights are
drawn at random, so that the exporter does not take equal ones for one. Multiply-adds are those of
torch.utils.flop_counter, with attention as matrix products.
"""
import copy
import io
import json
import logging
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
torch.backends.mha.set_fastpath_enabled(False)

BATCH = 2
IMAGE = [torch.zeros(BATCH, 3, 64, 64)]
TOKENS = [torch.zeros(BATCH, 16, dtype=torch.long)]


class Segmenter(nn.Module):
    """Group norms, transposed convolutions, resizing, padding and pixel shuffles."""

    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.GroupNorm(4, 16), nn.SiLU())
        self.body = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.InstanceNorm2d(32, affine=True), nn.LeakyReLU(0.1))
        self.up = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.mix = nn.Conv2d(32, 16, 1)
        self.head = nn.Conv2d(16, 4, 3, padding=1)

    def forward(self, x):
        d = self.down(x)
        u = self.up(self.body(d))
        s = nn.functional.interpolate(d, scale_factor=2, mode="bilinear", align_corners=False)
        y = nn.functional.gelu(self.mix(torch.cat([u, s], 1)), approximate="tanh")
        return nn.functional.pixel_shuffle(self.head(nn.functional.pad(y, (1, 0, 1, 0))[:, :, 1:, 1:]), 2)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 24)
        self.lstm = nn.LSTM(24, 32, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(64, 16, batch_first=True)
        self.head = nn.Linear(16, 10)

    def forward(self, ids):
        return self.head(self.gru(self.lstm(self.embed(ids))[0])[0])


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 32)
        self.positions = nn.Parameter(torch.zeros(1, 16, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 5)

    def forward(self, ids):
        return self.head(self.layers(self.embed(ids) + self.positions).mean(1))


class Branches(nn.Module):
    """An if, which the older exporter keeps of a scripted module: its condition follows from a size."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3)
        self.large = nn.Linear(16, 12)
        self.small = nn.Linear(12, 10)

    def forward(self, x):
        y = self.conv(x).mean((2, 3))
        if x.shape[2] == 64:
            y = self.large(y)
        else:
            y = torch.cat([y[:, :4], y[:, 8:]], 1)
        return self.small(y)


def torchvision_model(name):
    from torchvision import models

    def make(**arguments):
        return getattr(models, name)(**arguments)

    return make


def small_vit():
    from torchvision.models import VisionTransformer

    return VisionTransformer(image_size=64, patch_size=16, num_layers=2, num_heads=4, hidden_dim=64, mlp_dim=128)


def small_convnext():
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    return ConvNeXt([CNBlockConfig(32, 64, 1), CNBlockConfig(64, None, 2)], stochastic_depth_prob=0.1)


def small_densenet():
    from torchvision.models import DenseNet

    return DenseNet(growth_rate=8, block_config=(2, 2), num_init_features=16)


def hugging_face(kind, config, output="logits", **arguments):
    def make():
        import transformers

        class Wrapped(nn.Module):
            def __init__(self):
                super().__init__()
                self.model = getattr(transformers, kind)(getattr(transformers, config[0])(**config[1]))

            def forward(self, ids):
                return getattr(self.model(input_ids=ids, **arguments), output)

        return Wrapped()

    return make


SMALL = dict(vocab_size=120, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
LLAMA = dict(SMALL, num_key_value_heads=2)
GPT2 = dict(vocab_size=120, n_positions=32, n_embd=32, n_layer=2, n_head=4)

# name: module, inputs, and how it is exported: train keeps batch norms and dropout, fold is constant folding,
# fixed writes the batch down, script goes through torch.jit.script, dynamo is the exporter of PyTorch 2.5 and later.
MODELS = {
    "alexnet": (torchvision_model("alexnet"), [torch.zeros(BATCH, 3, 224, 224)], {}),
    "resnet18_train": (torchvision_model("resnet18"), IMAGE, {"train": True}),
    "resnet18_folded": (torchvision_model("resnet18"), IMAGE, {"folds_norms": True}),
    "resnet18_dynamo": (torchvision_model("resnet18"), IMAGE, {"dynamo": True, "folds_norms": True}),
    "shufflenet_fixed": (torchvision_model("shufflenet_v2_x0_5"), IMAGE, {"train": True, "fixed": True}),
    "mobilenet_v3_train": (torchvision_model("mobilenet_v3_small"), IMAGE, {"train": True}),
    "squeezenet_opset9": (torchvision_model("squeezenet1_1"), IMAGE, {"opset": 9}),
    "densenet_train": (small_densenet, IMAGE, {"train": True}),
    "convnext": (small_convnext, IMAGE, {}),
    "convnext_train": (small_convnext, IMAGE, {"train": True}),
    "vit": (small_vit, IMAGE, {}),
    "vit_opset14": (small_vit, IMAGE, {"opset": 14}),
    "vit_fixed": (small_vit, IMAGE, {"fixed": True}),
    "vit_dynamo": (small_vit, IMAGE, {"dynamo": True}),
    "segmenter": (Segmenter, IMAGE, {}),
    "branches": (Branches, IMAGE, {"script": True}),
    "recurrent": (Recurrent, TOKENS, {}),
    "encoder_opset20": (Encoder, TOKENS, {"opset": 20}),
    "bert": (hugging_face("BertForSequenceClassification", ("BertConfig", SMALL)), TOKENS, {}),
    "gpt2": (hugging_face("GPT2LMHeadModel", ("GPT2Config", GPT2), use_cache=False), TOKENS, {"fold": False}),
    "distilbert": (hugging_face("DistilBertForMaskedLM", ("DistilBertConfig", dict(
        vocab_size=120, dim=32, n_layers=2, n_heads=4, hidden_dim=64))), TOKENS, {"fold": False}),
    "llama": (hugging_face("LlamaForCausalLM", ("LlamaConfig", LLAMA), use_cache=False), TOKENS, {}),
    "t5_encoder": (hugging_face("T5EncoderModel", ("T5Config", dict(
        vocab_size=120, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)), "last_hidden_state"), TOKENS, {}),
}


def randomize(module):
    torch.manual_seed(1)
    with torch.no_grad():
        for tensor in list(module.parameters()) + [b for b in module.buffers() if b.is_floating_point() and b.dim() == 1]:
            tensor.uniform_(0.5, 1.5)


def export(module, inputs, path, train=False, fold=True, fixed=False, dynamo=False, opset=17, folds_norms=False,
           script=False):
    module.train(train)
    if script:
        module = torch.jit.script(module)
    if dynamo:
        shapes = tuple({0: torch.export.Dim("batch", min=1, max=64)} for _ in inputs)
        torch.onnx.export(module, tuple(inputs), str(path), dynamo=True, opset_version=18, input_names=["input"],
                          dynamic_shapes=shapes, verbose=False)
        return
    mode = torch.onnx.TrainingMode
    torch.onnx.export(module, tuple(inputs), str(path), dynamo=False, opset_version=opset, input_names=["input"],
                      dynamic_axes=None if fixed else {"input": {0: "batch"}},
                      training=mode.TRAINING if train else mode.EVAL, do_constant_folding=fold and not train)


def counts(module, inputs, folds_norms=False):
    """Parameters as the file should have them, and multiply-adds of a forward of BATCH."""
    parameters = sum(p.numel() for p in module.parameters())
    if folds_norms:  # a norm's weight goes into the convolution before it, its bias becomes that one's
        parameters -= sum(m.num_features for m in module.modules() if isinstance(m, nn.BatchNorm2d))
    kernel = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)
    with kernel, FlopCounterMode(display=False) as flops, torch.no_grad():
        module(*inputs)
    macs = flops.get_total_flops() // 2
    for m in module.modules():  # which the counter does not know
        if isinstance(m, nn.LSTM):
            macs += BATCH * 16 * sum(p.numel() for n, p in m.named_parameters() if n.startswith("weight"))
    rotary = [m for m in module.modules() if type(m).__name__ == "LlamaRotaryEmbedding"]
    if rotary:  # the product of its frequencies and the positions follows from the graph alone: it is folded
        macs -= rotary[0].inv_freq.numel() * TOKENS[0].shape[1]
    return parameters, macs


def strip(path, target):
    import onnx

    model = onnx.load(str(path), load_external_data=False)
    for tensor in model.graph.initializer:
        if tensor.data_type != onnx.TensorProto.FLOAT or tensor.data_location == onnx.TensorProto.EXTERNAL or \
                len(tensor.raw_data) <= 64:
            continue
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="weights.bin")
    del model.graph.value_info[:]
    del model.metadata_props[:]
    for node in model.graph.node:
        node.ClearField("doc_string")
        del node.metadata_props[:]
    for value in list(model.graph.input) + list(model.graph.output):
        del value.metadata_props[:]
    target.write_bytes(model.SerializeToString())


def rows(names, folder):
    for name in names or MODELS:
        make, inputs, how = MODELS[name]
        module = make()
        randomize(module)
        module.train(how.get("train", False))
        parameters, macs = counts(copy.deepcopy(module), inputs, how.get("folds_norms", False))
        path = Path(folder) / (name + ".onnx")
        try:
            stdout, sys.stdout = sys.stdout, io.StringIO()
            export(module, inputs, path, **how)
        except Exception as problem:
            sys.stdout = stdout
            print(f"{name}: not exported: {type(problem).__name__}: {str(problem).splitlines()[0]}")
            continue
        finally:
            sys.stdout = stdout
        yield name, path, parameters, macs


def record(folder, names):
    table = Path(folder) / "expected.tsv"
    known = dict(line.split("\t", 1) for line in table.read_text().splitlines()[2:]) if table.exists() else {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, path, parameters, macs in rows(names, scratch):
            strip(path, Path(folder) / (name + ".onnx"))
            known[name] = f"{parameters}\t{macs}\t{torch.__version__.split('+')[0]}"
    lines = [f"{name}\t{row}\n" for name, row in sorted(known.items())]
    table.write_text(f"# Recorded by tests/recorders/onnx_models.py: batch {BATCH}.\nmodel\tparameters\tmacs\ttorch\n" +
                     "".join(lines))


def check(gpuplan, names):
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name, path, parameters, macs in rows(names, scratch):
            run = subprocess.run([gpuplan, str(path), "--batch", str(BATCH), "-q", "--format", "json"],
                                 capture_output=True, text=True)
            if run.returncode > 1:
                print(f"{name}: {run.stderr.strip()}")
                bad += 1
                continue
            plan = json.loads(run.stdout)
            got = plan["model"]["parameters"], plan["compute"]["forward_macs"]
            bad += got != (parameters, macs)
            print(f"{name}: {got[0]} parameters, {got[1]} multiply-adds" +
                  ("" if got == (parameters, macs) else f"; PyTorch has {parameters} and {macs}"))
    return 1 if bad else 0


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("record", "check"):
        sys.exit(__doc__)
    if sys.argv[1] == "record":
        record(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(check(sys.argv[2], sys.argv[3:]))

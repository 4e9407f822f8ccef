#!/usr/bin/env python3
"""Exports models with torch.onnx and compares their plans with PyTorch's own counts, to the unit.

    python tests/torch/onnx_check.py --gpuplan build/gpuplan [--exporter NAME] [--results DIR] [--again] MODEL...
    python tests/torch/onnx_check.py --results DIR --table        prints what is known, as tests/torch/onnx_results.tsv

MODEL: torchvision:NAME, segmentation:NAME, backbone:NAME (of a detection model), timm:NAME, hf:NAME, or `torchvision`,
`segmentation`, ... for all of that kind. NAME: dynamo, the exporter of torch.export (the default); script, the older one
without constant folding; folded, that one as it is by default. The weights are random numbers, in eval mode; the batch
is dynamic where the exporter can. Multiply-adds of a forward are those of torch.utils.flop_counter on the meta device;
parameters are those that the forward reads, less what the exporters fold: a batch norm behind a convolution goes into its
weight and bias, and small tables into what is computed of them. What torch.onnx does not export is no failure. --results
keeps a file for each model, so that a run that was stopped goes on where it was; --again repeats those that failed, with
the file of then, whose weights are taken out. A model that takes longer than --limit seconds is left out. Needs onnx, and
onnxscript for dynamo. Exits with 1 where a model differs or is not imported.
"""
from __future__ import annotations

import argparse
import contextlib
import copy
import json
import logging
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

BATCH = 2
# Sides of the images: small ones, as exporters run the model, where the model takes any.
SIDE = 64
SIZES = {"inception_v3": 128, "ssd300_vgg16": 300, "maxvit_t": 224}
TIMM = Path(__file__).with_name("export_timm.txt")


class WithoutRandomNumbers(TorchDispatchMode):
    """Zeros where a module would draw its first weights: they are drawn once, afterwards."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket.__name__ in ("uniform_", "normal_") and args[0].is_floating_point():
            return args[0].zero_()
        return func(*args, **(kwargs or {}))


class Reads(TorchDispatchMode):
    """The storages of all tensors that operators are given."""

    def __init__(self) -> None:
        super().__init__()
        self.storages: Set[int] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        for tensor in tree_leaves((args, kwargs)):
            if isinstance(tensor, torch.Tensor):
                self.storages.add(tensor.untyped_storage()._cdata)
        return func(*args, **(kwargs or {}))


# --- models -----------------------------------------------------------------------------------------------------------


def image(size: int) -> Tuple[torch.Tensor, ...]:
    return (torch.zeros(BATCH, 3, size, size),)


def torchvision_case(name: str):
    import torchvision

    keywords = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    side = 224 if name.startswith(("vit_", "vgg", "alexnet")) else SIZES.get(name, SIDE)
    return torchvision.models.get_model(name, **keywords), image(side)


class First(nn.Module):
    """The tensors of a result that is a dictionary or an object, as a tuple."""

    def __init__(self, model: nn.Module, **keywords: Any) -> None:
        super().__init__()
        self.model = model
        self.keywords = keywords

    def forward(self, *inputs):
        out = self.model(*inputs, **self.keywords)
        if hasattr(out, "logits"):
            return out.logits
        if hasattr(out, "last_hidden_state"):
            return out.last_hidden_state
        return tuple(out.values()) if isinstance(out, dict) else out


def segmentation_case(name: str):
    import torchvision

    return First(torchvision.models.get_model(name, weights_backbone=None)), image(SIDE)


def backbone_case(name: str):
    import torchvision

    return First(torchvision.models.get_model(name, weights_backbone=None).backbone), image(SIZES.get(name, 2 * SIDE))


def timm_case(name: str):
    import timm

    model = timm.create_model(name)
    channels, height, width = model.default_cfg.get("input_size", (3, 224, 224))
    if not model.default_cfg.get("fixed_input_size", False):
        height, width = min(height, 2 * SIDE), min(width, 2 * SIDE)
    return model, (torch.zeros(BATCH, channels, height, width),)


TOKENS = 16
SMALL = dict(vocab_size=120, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
GROUPED = dict(SMALL, num_key_value_heads=2, max_position_embeddings=64)
T5 = dict(vocab_size=120, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
WHISPER = dict(vocab_size=120, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
               decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=128,
               max_target_positions=128, num_mel_bins=8, pad_token_id=0, bos_token_id=1, eos_token_id=2,
               decoder_start_token_id=1)
# The class, its configuration, and what else is given to its forward.
FAMILIES: Dict[str, Tuple[str, Dict[str, Any]]] = {
    "bert": ("BertForMaskedLM", SMALL),
    "distilbert": ("DistilBertForMaskedLM", dict(vocab_size=120, dim=32, n_layers=2, n_heads=4, hidden_dim=64)),
    "gemma": ("GemmaForCausalLM", dict(GROUPED, head_dim=8)),
    "gpt2": ("GPT2LMHeadModel", dict(vocab_size=120, n_positions=256, n_embd=32, n_layer=2, n_head=4)),
    "llama": ("LlamaForCausalLM", GROUPED),
    "mistral": ("MistralForCausalLM", GROUPED),
    "mixtral": ("MixtralForCausalLM", dict(GROUPED, num_local_experts=4)),
    "opt": ("OPTForCausalLM", dict(vocab_size=120, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64,
                                   max_position_embeddings=64, word_embed_proj_dim=32)),
    "phi": ("PhiForCausalLM", dict(SMALL, max_position_embeddings=64)),
    "qwen2": ("Qwen2ForCausalLM", GROUPED),
    "qwen3": ("Qwen3ForCausalLM", dict(GROUPED, head_dim=8)),
    "roberta": ("RobertaForMaskedLM", dict(SMALL, max_position_embeddings=64)),
    "t5": ("T5ForConditionalGeneration", T5),
    "vit": ("ViTForImageClassification", dict(SMALL, image_size=32, patch_size=8, num_labels=10)),
    "whisper": ("WhisperForConditionalGeneration", WHISPER),
}


class EncoderDecoder(nn.Module):
    """A sequence-to-sequence model, called with its two inputs by name."""

    def __init__(self, model: nn.Module, first: str) -> None:
        super().__init__()
        self.model = model
        self.first = first

    def forward(self, source, target):
        return self.model(**{self.first: source}, decoder_input_ids=target, use_cache=False).logits


def hf_case(name: str):
    import transformers

    kind, sizes = FAMILIES[name]
    model_class = getattr(transformers, kind)
    # Token numbers that these small vocabularies have.
    special = {} if name in ("vit", "whisper") else dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)
    model = model_class(model_class.config_class(**{**special, **sizes}))
    ids = torch.ones(BATCH, TOKENS, dtype=torch.long)
    if name == "vit":
        return First(model), image(32)
    if name == "t5":
        return EncoderDecoder(model, "input_ids"), (ids, ids.clone())
    if name == "whisper":
        return EncoderDecoder(model, "input_features"), (torch.zeros(BATCH, 8, 256), ids)
    cache = {} if name in ("bert", "distilbert", "roberta") else {"use_cache": False}
    return First(model, **cache), (ids,)


CASES = {"torchvision": torchvision_case, "segmentation": segmentation_case, "backbone": backbone_case, "timm": timm_case,
         "hf": hf_case}


def names_of(kind: str) -> List[str]:
    if kind == "timm":
        return TIMM.read_text().split()
    if kind == "hf":
        return list(FAMILIES)
    import torchvision

    modules = {"torchvision": torchvision.models, "segmentation": torchvision.models.segmentation,
               "backbone": torchvision.models.detection}
    if kind not in modules:
        raise SystemExit(f"unknown kind of models: {kind}")
    return torchvision.models.list_models(module=modules[kind])


def constructed(target: str):
    kind, _, name = target.partition(":")
    with WithoutRandomNumbers():
        model, inputs = CASES[kind](name)
    torch.manual_seed(1)
    with torch.no_grad():
        # Different everywhere: exporters write one of several tensors that are equal.
        for tensor in list(model.parameters()) + [b for n, b in model.named_buffers() if n.rpartition(".")[2].startswith("running")]:
            tensor.uniform_(0.5, 1.5)
    return model.eval(), inputs


# --- counts -----------------------------------------------------------------------------------------------------------


def norms_behind_convolutions(model: nn.Module) -> Tuple[List[Any], Dict[str, int]]:
    """Hooks that collect batch norms which read a convolution's result: by the name of their weight, how many parameters
    fewer there are where the exporter puts them into the convolution."""
    results: Dict[int, nn.Module] = {}
    alive: List[torch.Tensor] = []  # so that no other tensor gets the number of one of them
    names = {module: name for name, module in model.named_modules()}
    norms: Dict[str, int] = {}

    def after_convolution(module, inputs, output):
        results[id(output)] = module
        alive.append(output)

    def before_norm(module, inputs):
        convolution = results.get(id(inputs[0]))
        if convolution is not None and module.weight is not None:
            norms[names[module] + ".weight"] = module.num_features * (2 if convolution.bias is not None else 1)

    hooks = []
    for module in model.modules():
        if isinstance(module, nn.modules.conv._ConvNd):
            hooks.append(module.register_forward_hook(after_convolution))
        elif isinstance(module, nn.modules.batchnorm._BatchNorm):
            hooks.append(module.register_forward_pre_hook(before_norm))
    return hooks, norms


def on_meta(model: nn.Module) -> nn.Module:
    """A copy without data, whose tied weights are tied."""
    memo: Dict[int, Any] = {id(p): nn.Parameter(torch.empty_like(p, device="meta"), False) for p in model.parameters()}
    memo.update({id(b): torch.empty_like(b, device="meta") for b in model.buffers()})
    return copy.deepcopy(model, memo)


def counts(model: nn.Module, inputs, path: Path) -> Dict[str, int]:
    """Parameters as a file should have them, and multiply-adds of a forward of BATCH."""
    hooks, norms = norms_behind_convolutions(model)
    counter = FlopCounterMode(display=False)
    reads = Reads()
    with torch.no_grad(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH), reads, counter:
        model(*inputs)
    for hook in hooks:
        hook.remove()
    used = {n: p for n, p in model.named_parameters() if p.untyped_storage()._cdata in reads.storages}
    gone = absent(model, used, norms, path)
    flops = counter.get_flop_counts()
    root = type(model).__name__ + "."
    folded = sum(sum(flops.get(root + name.rpartition(".")[0], {}).values()) for name in gone if name.endswith(".weight"))
    return {"parameters": sum(p.numel() for p in used.values()) - sum(gone.values()),
            "macs": (counter.get_total_flops() - folded) // 2}


def plain(sizes) -> Tuple[int, ...]:
    """The sizes of a weight however it was turned, and whatever dimensions of 1 it was given."""
    return tuple(sorted(n for n in sizes if n != 1))


def absent(model: nn.Module, used: Dict[str, nn.Parameter], norms: Dict[str, int], path: Path) -> Dict[str, int]:
    """Elements of the parameters that the exporter left out, by name: of batch norms that it put into convolutions, and of
    what it computed with, such as small tables of positions, of which no tensor with a made-up name has the sizes. What it
    multiplied a matrix with itself is no product of the file."""
    import onnx

    graph = onnx.load(str(path), load_external_data=False).graph
    tensors = {t.name: plain(t.dims) for t in graph.initializer if t.data_type == onnx.TensorProto.FLOAT}
    modules = dict(model.named_modules(remove_duplicate=False))
    present = {id(p) for n, p in model.named_parameters(remove_duplicate=False) if n in tensors}  # by one of its names
    products = ("MatMul", "Gemm", "Conv", "ConvTranspose", "BatchNormalization")
    weights = {name for node in graph.node for name in node.input
               if node.op_type in products or any("group_norm" in note.value for note in node.metadata_props)}
    # Vectors that only have other dimensions, such as scales of channels.
    weights |= {t.name for t in graph.initializer if math.prod(t.dims) == max(t.dims, default=0) > 64}
    others = [sizes for name, sizes in tensors.items() if name not in used and name in weights]
    gone = {"norm " + name: elements for name, elements in norms.items() if name not in tensors}
    for name, parameter in used.items():
        module = modules[name.rpartition(".")[0]]
        of_layer = isinstance(module, (nn.modules.conv._ConvNd, nn.modules.batchnorm._BatchNorm))
        if id(parameter) in present or isinstance(module, nn.RNNBase) or \
                (of_layer and name.rpartition(".")[2] in ("weight", "bias")):
            continue
        whole = [plain(parameter.shape)]
        rows = [plain(parameter.shape[1:])] * len(parameter) if parameter.dim() > 1 else whole
        for pieces in (whole, rows):  # code that selects rows is folded to them
            if all(others.count(piece) >= len(pieces) for piece in pieces):
                for piece in pieces:
                    others.remove(piece)
                break
        else:
            gone[name] = parameter.numel()
    return gone


# --- export -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Also of what libraries write themselves: the exporters print whole graphs."""
    sys.stdout.flush()
    kept = [os.dup(1), os.dup(2)]
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        for number, before in enumerate(kept, start=1):
            os.dup2(before, number)
            os.close(before)
        os.close(nothing)


def export(model: nn.Module, inputs, path: Path, exporter: str) -> str:
    """Writes the file; says whether its batch is free."""
    names = [f"input{i}" for i in range(len(inputs))]
    if exporter != "dynamo":
        with silence():
            torch.onnx.export(model, inputs, str(path), dynamo=False, do_constant_folding=exporter == "folded", input_names=names,
                              dynamic_axes={n: {0: "batch"} for n in names})
        return "free"
    shapes = tuple({0: torch.export.Dim("batch", min=1, max=1024)} for _ in inputs)
    if isinstance(model, First):
        shapes = (shapes,)
    for batch, dynamic in (("free", shapes), ("fixed", None)):
        try:
            with silence():
                torch.onnx.export(model, inputs, str(path), dynamo=True, input_names=names, dynamic_shapes=dynamic,
                                  verbose=False)
            return batch
        except Exception:
            if dynamic is None:
                raise
    return ""


def planned(gpuplan: str, path: Path) -> Dict[str, Any]:
    command = [gpuplan, str(path), "--mode", "infer", "--batch", str(BATCH), "--gpu", "h200", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if not done.stdout.startswith("{"):
        raise RuntimeError(done.stderr.strip().replace(str(path), path.name))
    plan = json.loads(done.stdout)
    return {"parameters": plan["model"]["parameters"], "macs": plan["compute"]["forward_macs"]}


def without_weights(path: Path, target: Path) -> None:
    """A copy that has the names and shapes of its weights, and the content of small tensors, which sizes may follow from."""
    import onnx

    model = onnx.load(str(path), load_external_data=False)
    for tensor in model.graph.initializer:
        if len(tensor.raw_data) > 1 << 16:
            tensor.ClearField("raw_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="weights")
    target.write_bytes(model.SerializeToString())


def compared(gpuplan: str, path: Path, expected: Dict[str, int]) -> Dict[str, Any]:
    try:
        found = planned(gpuplan, path)
    except Exception as problem:
        return {"equal": False, "expected": expected, "error": f"{type(problem).__name__}: {problem}"}
    return {"equal": expected == found, "expected": expected, "found": found}


def check(gpuplan: str, target: str, exporter: str, stripped: Path) -> Dict[str, Any]:
    model, inputs = constructed(target)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / (file_name(target) + ".onnx")
        try:
            batch = export(model, inputs, path, exporter)
        except Exception as problem:
            text = str(problem).strip().splitlines() or [""]
            return {"equal": False, "not_exported": f"{type(problem).__name__}: {text[0]}"[:300]}
        if not target.startswith("hf:"):  # whose code looks at values
            model, inputs = on_meta(model), [i.to("meta") for i in inputs]
        result = compared(gpuplan, path, counts(model, inputs, path))
        if not result["equal"]:
            without_weights(path, stripped)
    return {**result, "batch": batch}


def file_name(target: str) -> str:
    return target.replace(":", ".").replace("/", ".")


def result_file(options, target: str) -> Path:
    return Path(options.results) / f"{file_name(target)}.{options.exporter}.json"


def result_of(options, target: str) -> Dict[str, Any]:
    file = result_file(options, target)
    stripped = file.with_suffix(".onnx")
    known: Dict[str, Any] = {}
    if file.exists():
        known = json.loads(file.read_text())
        if known["equal"] or "not_exported" in known or not options.again:
            return known
    try:
        if stripped.exists():  # what was exported before
            result = {**compared(options.gpuplan, stripped, known["expected"]), "batch": known["batch"]}
        else:
            result = check(options.gpuplan, target, options.exporter, stripped)
    except Exception as problem:  # a model of other people's code: whatever it raises is its result
        result = {"equal": False, "error": f"{type(problem).__name__}: {problem}"}
    if result["equal"] and stripped.exists():
        stripped.unlink()
    file.write_text(json.dumps({"model": target, "exporter": options.exporter, "torch": torch.__version__, **result}))
    return result


def within(limit: float, options, target: str) -> Optional[Dict[str, Any]]:
    """The result by a process of its own, which gives its memory back; nothing where it takes longer."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            result_of(options, target)
        finally:
            os._exit(0)
    end = time.monotonic() + limit
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(0.1)
    file = result_file(options, target)
    return json.loads(file.read_text()) if file.exists() else {"equal": False, "error": "the process ended without a result"}


def line(target: str, result: Dict[str, Any]) -> str:
    if "not_exported" in result:
        return f"none  {target}: torch.onnx does not export it: {result['not_exported']}"
    if "error" in result:
        return f"FAIL  {target}: {result['error'][:900]}"
    if not result["equal"]:
        wrong = [f"{k} {result['found'][k]:,}, PyTorch {v:,}" for k, v in result["expected"].items() if result["found"][k] != v]
        return f"FAIL  {target}: {'; '.join(wrong)}"
    return f"ok    {target}: " + ", ".join(f"{v:,} {k}" for k, v in result["found"].items())


def reason(result: Dict[str, Any]) -> str:
    """In a line: what PyTorch counts, or why there is nothing to count."""
    if result["equal"]:
        return ""
    if "found" in result:
        return ", ".join(f"PyTorch has {v} {k}" for k, v in result["expected"].items() if result["found"][k] != v)
    text = result.get("not_exported") or result["error"]
    text = re.sub(r"\x1b\[[0-9;]*m", "", text).replace("RuntimeError: error: ", "")
    return " ".join(re.sub(r"^[\w.]+\.onnx: ", "", text).split())[:160]


def table(folder: Path) -> None:
    print("# python tests/torch/onnx_check.py --exporter NAME MODEL..., then --table: torch " + torch.__version__.split("+")[0])
    print("model\texporter\tresult\tparameters\tmacs\treason")
    for file in sorted(folder.glob("*.json")):
        r = json.loads(file.read_text())
        state = "equal" if r["equal"] else "not exported" if "not_exported" in r else "refused" if "error" in r else "differs"
        found = r.get("found", {})
        print(f"{r['model']}\t{r['exporter']}\t{state}\t{found.get('parameters', '')}\t{found.get('macs', '')}\t{reason(r)}")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpuplan", default="build/gpuplan")
    parser.add_argument("--exporter", choices=("dynamo", "script", "folded"), default="dynamo")
    parser.add_argument("--results", default="build-torch/onnx")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--limit", type=float, default=600, help="seconds for a model")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("models", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)
    folder = Path(options.results)
    folder.mkdir(parents=True, exist_ok=True)
    if options.table:
        table(folder)
        return 0
    targets = [t for m in options.models for t in ([m] if ":" in m else [f"{m}:{n}" for n in names_of(m)])]
    failed = 0
    none = 0
    late = 0
    for target in targets:
        result = within(options.limit, options, target)
        if result is None:
            late += 1
            print(f"late  {target}: not done within {options.limit:.0f} s", flush=True)
            continue
        none += "not_exported" in result
        failed += not result["equal"] and "not_exported" not in result
        print(line(target, result), flush=True)
    done = len(targets) - none - late
    print(f"{done - failed} of {done} equal, {none} not exported by torch.onnx, {late} not done in time")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

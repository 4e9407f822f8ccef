#!/usr/bin/env python3
"""Exports the models that the zoo has too and compares the plans of the two specs, figure by figure:

    python tests/torch/export_zoo.py --gpuplan build/gpuplan [NAME...]

NAME as in configs/models; all by default. The zoo's models are made on the GPU, so their exports take the construction
along. Compared are the bytes requested, allocated and reserved, live and at their peaks, in every phase of the first and
the steady step, with cuDNN's workspaces and without, and parameters, buffers and multiply-adds. Exits with 1 where
something differs.
"""
from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
import export_check  # noqa: E402
import export_hf  # noqa: E402
import export_shadow  # noqa: E402
import gpuplan as exporter  # noqa: E402
from gpuplan.construction import Construction, constructed  # noqa: E402

TRAINING = ["--loop function --opt sgd", "--loop function --opt adam", "--opt adamw --amp bf16", "--loop function --opt momentum --amp fp16",
            "--opt adam --layout nhwc --precision bf16", "--opt adam --micro-batches 2 --scratch no-cudnn",
            "--opt sgd --pytorch 2.8 --gpu a100-80gb"]
OF_LANGUAGE = ["--loop function --opt sgd", "--opt adamw --amp bf16", "--opt adam --precision bf16 --scratch no-cudnn", "--mode infer",
               "--mode infer --precision fp16"]
INFERENCE = ["--mode infer", "--mode infer --precision fp16 --scratch no-cudnn"]
PLAIN = ("alexnet convnext_tiny densenet121 efficientnet_b0 mobilenet_v2 mobilenet_v3_large resnet18 resnet34 resnet50 resnet101 "
         "resnext50_32x4d shufflenet_v2_x1_0 squeezenet1_1 swin_t vgg11 vgg16 vit_b_16 wide_resnet50_2").split()


def vision(name: str, size: int = 224, **keywords: Any) -> Callable[[], Tuple[torch.nn.Module, int]]:
    def make() -> torch.nn.Module:
        import torchvision

        return torchvision.models.get_model(name, **keywords)

    return lambda: (make, size)


MODELS = {name: vision(name) for name in PLAIN}
MODELS["googlenet"] = vision("googlenet", aux_logits=False, init_weights=False)
MODELS["fcn_resnet50"] = vision("fcn_resnet50", weights=None, weights_backbone=None, num_classes=21, aux_loss=None)


# transformers' models: the class, tests/huggingface's config where it is not the class's default, what replaces values of
# it, and the zoo's tokens.
LANGUAGE: Dict[str, Tuple[str, str, Dict[str, Any], int]] = {
    "gpt2": ("GPT2LMHeadModel", "", {"use_cache": False}, 1024),
    "bert_base": ("BertForSequenceClassification", "", {}, 128),
    "roberta_large": ("RobertaForSequenceClassification", "roberta-large", {}, 256),
    "distilbert": ("DistilBertForSequenceClassification", "", {}, 256),
    "t5_small": ("T5ForConditionalGeneration", "", {"d_model": 512, "d_ff": 2048, "num_layers": 6, "num_heads": 8,
                                                    "decoder_start_token_id": 0}, 512),
    "vit_base": ("ViTForImageClassification", "", {"num_labels": 1000}, 0),
    "opt_125m": ("OPTForCausalLM", "", {"use_cache": False}, 512),
    "tinyllama_1b": ("LlamaForCausalLM", "tinyllama-1.1b", {"use_cache": False}, 2048),
    "llama2_7b": ("LlamaForCausalLM", "llama-2-7b", {"use_cache": False}, 2048),
    "qwen2_0_5b": ("Qwen2ForCausalLM", "qwen2-0.5b", {"use_cache": False}, 1024),
    "gemma_2b": ("GemmaForCausalLM", "gemma-2b", {"use_cache": False}, 1024),
    "mistral_7b": ("MistralForCausalLM", "mistral-7b-v0.1", {"use_cache": False}, 2048),
    "mixtral_8x7b": ("MixtralForCausalLM", "mixtral-8x7b", {"use_cache": False}, 2048),
}


def language(name: str) -> Tuple[Any, Any, int]:
    import transformers

    cls_name, config, options, seq = LANGUAGE[name]
    cls = getattr(transformers, cls_name)
    if not config:
        return cls, cls.config_class(**options), seq
    values = json.loads((export_hf.CONFIGS / f"{config}.json").read_text())
    for key in ("torch_dtype", "dtype"):
        values.pop(key, None)
    return cls, cls.config_class.from_dict({**values, **options}), seq


def write(name: str, folder: Path) -> Path:
    construction = Construction()
    spec = folder / f"{name}.yaml"
    if name in LANGUAGE:
        cls, config, seq = language(name)
        model = constructed(lambda: cls(config), construction)
        batch = export_hf.batch_of(cls.__name__, config, 2, "meta", seq)
        exporter.export(model, batch, str(spec), name=name, construction=construction)
        return spec
    make, size = MODELS[name]()
    case = export_check.Case(constructed(make, construction), export_check.image(size))
    export_shadow.export_trained(case, spec, name, construction)
    return spec


def figures(gpuplan: str, model: str, flags: str) -> Dict[str, int]:
    command = [gpuplan, model, "--batch", "8", "--format", "json", *flags.split()]
    command += [] if "--gpu" in flags else ["--gpu", "h200"]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        raise RuntimeError(f"{model} {flags}: {done.stderr.strip()}")
    plan = json.loads(done.stdout)
    found = {f"{p['step']} {p['phase']} {key}": value for p in plan["phases"] for key, value in p.items() if key.endswith("bytes")}
    found.update({key: plan["model"][key] for key in ("parameters", "buffers")}, macs=plan["compute"]["forward_macs"])
    return found


def compare(gpuplan: str, name: str, folder: Path) -> List[str]:
    spec = write(name, folder)
    different = []
    for flags in TRAINING + INFERENCE if name in MODELS else OF_LANGUAGE:
        zoo = figures(gpuplan, f"zoo:{name}", flags + (" --set target=256" if name == "t5_small" else ""))
        exported = figures(gpuplan, str(spec), flags)
        wrong = [f"{key}: {exported.get(key):,}, the zoo's {value:,}" for key, value in zoo.items() if exported.get(key) != value]
        if wrong:
            different.append(f"{flags}: {len(wrong)} of {len(zoo)} figures differ, {wrong[0]}")
    return different


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpuplan", default="build/gpuplan")
    parser.add_argument("--specs", type=Path, help="where to keep what was written")
    parser.add_argument("models", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    unequal = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.specs or Path(temporary)
        names = options.models or sorted(MODELS) + sorted(LANGUAGE)
        for name in names:
            different = compare(options.gpuplan, name, folder)
            unequal += bool(different)
            print(f"{'FAIL' if different else 'ok  '}  {name}", *different, sep="\n      ", flush=True)
    print(f"{len(names) - unequal} of {len(names)} equal, each in {len(TRAINING) + len(INFERENCE)} runs")
    return int(unequal > 0)


if __name__ == "__main__":
    sys.exit(main())

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
import export_shadow  # noqa: E402

exporter = export_check.gpuplan_export

TRAINING = ["--loop function --opt sgd", "--loop function --opt adam", "--opt adamw --amp bf16", "--loop function --opt momentum --amp fp16",
            "--opt adam --layout nhwc --precision bf16", "--opt adam --micro-batches 2 --scratch no-cudnn",
            "--opt sgd --pytorch 2.8 --gpu a100-80gb"]
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


def write(name: str, folder: Path) -> Tuple[Path, Path]:
    """The specs of training and of inference."""
    make, size = MODELS[name]()
    construction = exporter.Construction()
    case = export_check.Case(exporter.constructed(make, construction), export_check.image(size))
    trained, inferred = folder / f"{name}.yaml", folder / f"{name}.eval.yaml"
    export_shadow.export_trained(case, trained, name, construction)
    case.model.eval()
    exporter.export(case.model, case.batch, str(inferred), name=name, construction=construction)
    return trained, inferred


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
    trained, inferred = write(name, folder)
    different = []
    for spec, runs in ((trained, TRAINING), (inferred, INFERENCE)):
        for flags in runs:
            zoo, exported = figures(gpuplan, f"zoo:{name}", flags), figures(gpuplan, str(spec), flags)
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
        names = options.models or sorted(MODELS)
        for name in names:
            different = compare(options.gpuplan, name, folder)
            unequal += bool(different)
            print(f"{'FAIL' if different else 'ok  '}  {name}", *different, sep="\n      ", flush=True)
    print(f"{len(names) - unequal} of {len(names)} equal, each in {len(TRAINING) + len(INFERENCE)} runs")
    return int(unequal > 0)


if __name__ == "__main__":
    sys.exit(main())

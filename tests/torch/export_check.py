#!/usr/bin/env python3
"""Exports models with tools/gpuplan_export.py and compares their plans with PyTorch's own counts, to the unit.

    python tests/torch/export_check.py --gpuplan build/gpuplan [--results DIR] [--again] MODEL...

MODEL: torchvision:NAME, segmentation:NAME, backbone:NAME (of a detection model), timm:NAME, or `torchvision`,
`segmentation`, ... for all of that kind. Parameters and buffers are counted from the model's tensors, multiply-adds of a
forward by torch.utils.flop_counter, everything on the meta device. --results keeps a file for each model, so that a run
that was stopped goes on where it was and several may share the folder; --again repeats those that failed. Exits with 1
where a model differs or is not exported.
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional

import torch
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import gpuplan_export  # noqa: E402

BATCH = 2
# Input sizes other than 224 that torchvision's models are made for.
SIZES = {"inception_v3": 299}
TIMM = Path(__file__).with_name("export_timm.txt")


class Case(NamedTuple):
    model: torch.nn.Module
    batch: Any
    forward: Optional[Callable] = None
    loss: Optional[Callable] = None


def image(size: int) -> torch.Tensor:
    return torch.empty(BATCH, 3, size, size, device="meta")


def torchvision_case(name: str) -> Case:
    import torchvision

    keywords = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    model = gpuplan_export.constructed(lambda: torchvision.models.get_model(name, **keywords))
    return Case(model, image(SIZES.get(name, 224)))


def segmentation_case(name: str) -> Case:
    import torchvision

    model = gpuplan_export.constructed(lambda: torchvision.models.get_model(name, weights_backbone=None))
    return Case(model, image(224))


def backbone_case(name: str) -> Case:
    import torchvision

    model = gpuplan_export.constructed(lambda: torchvision.models.get_model(name, weights_backbone=None).backbone)
    return Case(model, image(320))


def timm_case(name: str) -> Case:
    import timm

    model = gpuplan_export.constructed(lambda: timm.create_model(name))
    size = model.default_cfg.get("input_size", (3, 224, 224))
    return Case(model, torch.empty((BATCH,) + tuple(size), device="meta"))


def names_of(kind: str) -> List[str]:
    if kind == "timm":
        return TIMM.read_text().split()
    import torchvision

    if kind == "torchvision":
        return torchvision.models.list_models(module=torchvision.models)
    if kind == "segmentation":
        return torchvision.models.list_models(module=torchvision.models.segmentation)
    if kind == "backbone":
        return torchvision.models.list_models(module=torchvision.models.detection)
    raise SystemExit(f"unknown kind of models: {kind}")


CASES: Dict[str, Callable[[str], Case]] = {"torchvision": torchvision_case, "segmentation": segmentation_case,
                                          "backbone": backbone_case, "timm": timm_case}


def storage_elements(tensors: Iterable[torch.Tensor]) -> int:
    return sum(t.numel() for t in {id(t): t for t in tensors}.values())


def forward_macs(case: Case) -> int:
    """Of one sample, by torch's counter; the model as it is trained."""
    model = gpuplan_export.on_meta(case.model)
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        (case.forward or gpuplan_export.call_on_batch)(model, gpuplan_export.batch_on_meta(case.batch, BATCH))
    return counter.get_total_flops() // 2


def planned(gpuplan: str, spec: Path) -> Dict[str, Any]:
    command = [gpuplan, str(spec), "--batch", str(BATCH), "--gpu", "h200", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)


def check(gpuplan: str, target: str, folder: Path) -> Dict[str, Any]:
    kind, _, name = target.partition(":")
    case = CASES[kind](name)
    spec = folder / (target.replace(":", ".").replace("/", ".") + ".yaml")
    keywords = {k: v for k, v in (("forward", case.forward), ("loss", case.loss)) if v is not None}
    gpuplan_export.export(case.model, case.batch, str(spec), name=name.replace("/", "."), **keywords)
    plan = planned(gpuplan, spec)
    expected = {"parameters": storage_elements(case.model.parameters()), "buffers": storage_elements(case.model.buffers()),
                "macs": forward_macs(case)}
    found = {"parameters": plan["model"]["parameters"], "buffers": plan["model"]["buffers"],
             "macs": plan["compute"]["forward_macs"]}
    return {"expected": expected, "found": found, "equal": expected == found, "lines": len(spec.read_text().splitlines())}


def result_of(gpuplan: str, target: str, folder: Path, again: bool) -> Dict[str, Any]:
    file = folder / (target.replace(":", ".").replace("/", ".") + ".json")
    if file.exists():
        known = json.loads(file.read_text())
        if known["equal"] or not again:
            return known
    try:
        result = check(gpuplan, target, folder)
    except Exception as e:  # a model of other people's code: whatever it raises is its result
        result = {"equal": False, "error": f"{type(e).__name__}: {e}", "trace": traceback.format_exc()}
    file.write_text(json.dumps(result))
    return result


def line(target: str, result: Dict[str, Any]) -> str:
    if "error" in result:
        return f"FAIL  {target}: {result['error'][:600]}"
    if not result["equal"]:
        wrong = [f"{k} {result['found'][k]:,}, PyTorch {v:,}" for k, v in result["expected"].items() if result["found"][k] != v]
        return f"FAIL  {target}: {'; '.join(wrong)}"
    return f"ok    {target}: " + ", ".join(f"{v:,} {k}" for k, v in result["found"].items())


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpuplan", default="build/gpuplan")
    parser.add_argument("--results", default="build-torch/export")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("models", nargs="+")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    folder = Path(options.results)
    folder.mkdir(parents=True, exist_ok=True)
    targets = [t for m in options.models for t in ([m] if ":" in m else [f"{m}:{n}" for n in names_of(m)])]
    failed = 0
    for target in targets:
        result = result_of(options.gpuplan, target, folder, options.again)
        failed += not result["equal"]
        print(line(target, result), flush=True)
    print(f"{len(targets) - failed} of {len(targets)} equal")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

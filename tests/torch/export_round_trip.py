#!/usr/bin/env python3
"""Export, import, plan: what gpuplan reads of an exported spec plans to the same figures, and writes itself the same.

    python tests/torch/export_round_trip.py --gpuplan build/gpuplan [MODEL...]

MODEL as for export_check.py or one of export_modes.py's by its name; a sample of ten by default. The spec is exported
twice, which must give the same text; `gpuplan plan --canonical` writes it expanded, and that again, which must give the
same text; both are planned in training and inference, which must give the same figures. Exits with 1 where one differs.
"""
from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, Dict, List

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
import export_check  # noqa: E402
import export_modes  # noqa: E402
import export_shadow  # noqa: E402
import gpuplan as exporter  # noqa: E402
from gpuplan.construction import constructed  # noqa: E402

SAMPLE = ("torchvision:resnet18 torchvision:densenet121 torchvision:swin_t torchvision:vit_b_32 timm:efficientvit_m0 hf:small-gpt2 "
          "hf:small-t5 googlenet fcn_resnet50 nested functional levit_128s").split()
RUNS = ["--mode train --opt adam", "--mode train --opt sgd --amp bf16 --loop function", "--mode infer", "--mode infer --precision fp16"]


def write(model: str, spec: Path) -> None:
    kind, _, name = model.partition(":")
    if model in export_modes.CASES:
        case = export_modes.CASES[model]
        exporter.export(constructed(case.make), export_modes.run_batch(case, 2, "meta"), str(spec), forward=export_modes.only_first,
                        loss=case.loss, name=model)
    elif kind == "hf":
        made = export_check.CASES[kind](name)
        exporter.export(made.model, made.batch, str(spec), name=name)
    else:
        export_shadow.export_trained(export_check.CASES[kind](name), spec, name)


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return done.stdout


def figures(gpuplan: str, spec: Path, flags: str) -> Dict[str, Any]:
    """All but where in the file a layer stands."""
    plan = json.loads(run(gpuplan, str(spec), "--batch", "4", "--gpu", "h200", "--format", "json", *flags.split()))
    plan["model"].pop("file", None)
    for layer in plan["layers"]:
        layer.pop("at")
    return plan


def differences(gpuplan: str, model: str, folder: Path) -> List[str]:
    spec, again, canonical, twice = (folder / f"{name}.yaml" for name in ("model", "again", "canonical", "twice"))
    write(model, spec)
    write(model, again)
    canonical.write_text(run(gpuplan, "plan", str(spec), "--canonical"))
    twice.write_text(run(gpuplan, "plan", str(canonical), "--canonical"))
    found = [] if spec.read_text() == again.read_text() else ["a second export is another text"]
    found += [] if canonical.read_text() == twice.read_text() else ["the canonical spec is written otherwise when it is read"]
    for flags in RUNS:
        wanted, got = figures(gpuplan, spec, flags), figures(gpuplan, canonical, flags)
        found += [f"{flags}: {key} differs" for key in wanted if wanted[key] != got.get(key)]
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpuplan", required=True)
    parser.add_argument("models", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    failed = 0
    for model in options.models or SAMPLE:
        with tempfile.TemporaryDirectory() as folder:
            found = differences(options.gpuplan, model, Path(folder))
        failed += bool(found)
        print(f"{'FAIL' if found else 'ok  '}  {model}", *found, sep="\n      ", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Exports models with tools/python/gpuplan and compares their plans with PyTorch's own counts, to the unit.

    python tests/torch/export_check.py --gpuplan build/gpuplan [--results DIR] [--again] MODEL...

MODEL: torchvision:NAME, segmentation:NAME, backbone:NAME (of a detection model), timm:NAME, written:NAME (written_models.py), hf:NAME
(export_hf.py), or `torchvision`,
`segmentation`, ... for all of that kind. Parameters and buffers are counted from the model's tensors, multiply-adds of a
forward in train mode and of one in eval mode by torch.utils.flop_counter, everything on the meta device. --results keeps
a file for each model, so that a run that was stopped goes on where it was and several may share the folder; --again
repeats those that failed. Exits with 1 where a model differs or is not exported.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import re
import subprocess
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional

import torch

try:
    from torch.utils.flop_counter import FlopCounterMode
except ImportError:  # PyTorch before 2.1: multiply-adds are not compared
    FlopCounterMode = None

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools/python"))
import gpuplan as exporter  # noqa: E402
from gpuplan.construction import constructed  # noqa: E402
from gpuplan.replacements import Replacements  # noqa: E402
from gpuplan.without_data import batch_on_meta, call_on_batch, on_meta  # noqa: E402

BATCH = 2
COUNTS = ("parameters", "buffers", "macs", "eval_macs")
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
    model = constructed(lambda: torchvision.models.get_model(name, **keywords))
    return Case(model, image(SIZES.get(name, 224)))


def segmentation_case(name: str) -> Case:
    import torchvision

    model = constructed(lambda: torchvision.models.get_model(name, weights_backbone=None))
    return Case(model, image(224))


def backbone_case(name: str) -> Case:
    import torchvision

    model = constructed(lambda: torchvision.models.get_model(name, weights_backbone=None).backbone)
    return Case(model, image(320))


def timm_case(name: str) -> Case:
    import timm

    model = constructed(lambda: timm.create_model(name))
    size = model.default_cfg.get("input_size", (3, 224, 224))
    return Case(model, torch.empty((BATCH,) + tuple(size), device="meta"))


def written_case(name: str) -> Case:
    import written_models

    return Case(*written_models.written(name))


def names_of(kind: str) -> List[str]:
    if kind == "written":
        import written_models

        return list(written_models.MODELS)
    if kind == "hf":
        import export_hf

        return sorted(export_hf.SMALL) + sorted(p.stem for p in export_hf.CONFIGS.glob("*.json"))
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


def hugging_face_case(name: str) -> Case:
    import export_hf
    import transformers

    # transformers 4 reads the tokens, to warn; they have no values here.
    if hasattr(transformers.PreTrainedModel, "warn_if_padding_and_no_attention_mask"):
        transformers.PreTrainedModel.warn_if_padding_and_no_attention_mask = lambda *_: None
    return Case(*export_hf.case(name))


CASES: Dict[str, Callable[[str], Case]] = {"torchvision": torchvision_case, "segmentation": segmentation_case,
                                          "backbone": backbone_case, "timm": timm_case, "written": written_case, "hf": hugging_face_case}


def storage_elements(tensors: Iterable[torch.Tensor]) -> int:
    return sum(t.numel() for t in {id(t): t for t in tensors}.values())


def grouped_mm_flops(a_shape: Any, b_shape: Any, *args: Any, **kwargs: Any) -> int:
    """[rows, k] of which each belongs to one of the matrices [n, k, m]."""
    return 2 * a_shape[0] * a_shape[1] * b_shape[-1]


# Operators of multiply-adds that the counter passes over.
UNCOUNTED = {op: grouped_mm_flops for op in [getattr(torch.ops.aten, "_grouped_mm", None)] if op is not None}


@contextlib.contextmanager
def autocast_on_meta() -> Iterator[None]:
    """Models that turn autocast off for a part name the device of their tensors; older releases know none for meta."""
    replacements, make = Replacements(), torch.autocast.__init__
    replacements.set(torch.autocast, "__init__", lambda self, *_, **__: make(self, "cpu", enabled=False))
    try:
        yield
    finally:
        replacements.restore()


def counts_of(model: torch.nn.Module, forward: Callable[[torch.nn.Module], Any]) -> Dict[str, int]:
    """By torch's own tensors, and its counter of a forward. A model may give its buffers their size in its first forward."""
    held = {"parameters": storage_elements(model.parameters()), "buffers": storage_elements(model.buffers())}
    if FlopCounterMode is None:
        return held
    counter = FlopCounterMode(display=False, custom_mapping=UNCOUNTED)
    with counter, torch.no_grad(), autocast_on_meta():
        forward(model)
    return {**held, "buffers": storage_elements(model.buffers()), "macs": counter.get_total_flops() // 2}


def expected_of(case: Case) -> Dict[str, int]:
    """Of both modes."""
    batch, forward = batch_on_meta(case.batch, BATCH), case.forward or call_on_batch
    counts = [counts_of(on_meta(case.model).train(trains), lambda model: forward(model, batch)) for trains in (True, False)]
    return {**counts[0], "eval_macs": counts[1]["macs"]} if FlopCounterMode is not None else counts[0]


def planned(gpuplan: str, spec: Path, mode: str) -> Dict[str, Any]:
    command = [gpuplan, str(spec), "--batch", str(BATCH), "--gpu", "h200", "--mode", mode, "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)


def check(gpuplan: str, target: str, folder: Path) -> Dict[str, Any]:
    kind, _, name = target.partition(":")
    case = CASES[kind](name)
    spec = folder / (target.replace(":", ".").replace("/", ".") + ".yaml")
    keywords = {k: v for k, v in (("forward", case.forward), ("loss", case.loss)) if v is not None}
    exporter.export(case.model, case.batch, str(spec), name=name.replace("/", "."), **keywords)
    trained, inferred = planned(gpuplan, spec, "train"), planned(gpuplan, spec, "infer")
    expected = expected_of(case)
    found = {"parameters": trained["model"]["parameters"], "buffers": inferred["model"]["buffers"],
             "macs": trained["compute"]["forward_macs"], "eval_macs": inferred["compute"]["forward_macs"]}
    found = {k: v for k, v in found.items() if k in expected}
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


def row(target: str, result: Dict[str, Any]) -> str:
    """PyTorch's counts, and whether the plan has them; of a refused model the last line of the error."""
    if "error" in result:
        causes = [re.sub(r"^.*?:\d+: ", "", text.strip()) for text in result["error"].splitlines()[1:]]
        listed = "has no layer" in result["error"]
        why = ", ".join(dict.fromkeys(causes)) if listed else result["error"].splitlines()[0].partition(": ")[2]
        return "\t".join([target] + [""] * len(COUNTS) + ["refused: " + why])
    counts = [str(result["expected"].get(k, "")) for k in COUNTS]
    return "\t".join([target] + counts + ["equal" if result["equal"] else "differs"])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpuplan", default="build/gpuplan")
    parser.add_argument("--results", default="build-torch/export")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--table", help="writes a line for each model: name, parameters, buffers, multiply-adds, result")
    parser.add_argument("models", nargs="+")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    folder = Path(options.results)
    folder.mkdir(parents=True, exist_ok=True)
    targets = [t for m in options.models for t in ([m] if ":" in m else [f"{m}:{n}" for n in names_of(m)])]
    failed = 0
    rows = ["\t".join(["model", *COUNTS, "result"])]
    for target in targets:
        result = result_of(options.gpuplan, target, folder, options.again)
        failed += not result["equal"]
        rows.append(row(target, result))
        print(line(target, result), flush=True)
    if options.table:
        Path(options.table).write_text("\n".join(rows) + "\n")
    print(f"{len(targets) - failed} of {len(targets)} equal")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Models that run otherwise in eval mode, and losses of several outputs: one exported spec, planned in both modes.

    gpuplan shadow --gpu h200 -q -- python tests/torch/export_modes.py --gpuplan build/gpuplan [NAME...]

Parameters, buffers and multiply-adds of a forward of each mode are compared with PyTorch's own, and the bytes requested,
allocated and reserved, live and at their peaks, of every phase of the third training step (SGD) and of the third
inference with what PyTorch allocates under `gpuplan shadow`; without it the counts alone. Exits with 1 where one differs.
"""
from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent))
import export_check  # noqa: E402
import export_record  # noqa: E402
import export_shadow  # noqa: E402
import gpuplan as exporter  # noqa: E402
from gpuplan.construction import constructed  # noqa: E402
from gpuplan.without_data import on_meta  # noqa: E402

BATCH = 8
Loss = Callable[[nn.Module, Any, Any], torch.Tensor]


class Case(NamedTuple):
    make: Callable[[], nn.Module]
    size: Tuple[int, ...]  # of a sample of the input
    targets: Callable[[int, str], torch.Tensor]  # of a batch, on a device
    loss: Loss


def classes(count: int, device: str) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.int64, device=device)


def pixels(size: int) -> Callable[[int, str], torch.Tensor]:
    return lambda count, device: torch.zeros(count, size, size, dtype=torch.int64, device=device)


def of_output(model: nn.Module, out: torch.Tensor, batch: Any) -> torch.Tensor:
    return F.cross_entropy(out, batch[1])


def of_three_heads(model: nn.Module, out: Any, batch: Any) -> torch.Tensor:
    """GoogLeNet's, of the paper: the auxiliary heads weigh 0.3."""
    targets = batch[1]
    return F.cross_entropy(out.logits, targets) + 0.3 * (F.cross_entropy(out.aux_logits1, targets) + F.cross_entropy(out.aux_logits2, targets))


def of_two_heads(model: nn.Module, out: Any, batch: Any) -> torch.Tensor:
    """Inception v3's; the two losses are local variables until the function returns."""
    first = F.cross_entropy(out.logits, batch[1], label_smoothing=0.1)
    second = F.cross_entropy(out.aux_logits, batch[1], label_smoothing=0.1)
    return first + 0.4 * second


def of_segmentation(model: nn.Module, out: Any, batch: Any) -> torch.Tensor:
    """torchvision's references/segmentation/train.py, criterion."""
    losses = {name: nn.functional.cross_entropy(x, batch[1], ignore_index=255) for name, x in out.items()}
    return losses["out"] + 0.5 * losses["aux"]


def of_sum(model: nn.Module, out: torch.Tensor, batch: Any) -> torch.Tensor:
    """Python's sum begins with the number 0. The second term is of its own targets."""
    return sum([nn.CrossEntropyLoss()(out, batch[1]), 0.1 * out.square().mean()])


def vision(name: str, **keywords: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import torchvision

        return torchvision.models.get_model(name, **keywords)

    return make


def timm_model(name: str, **keywords: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import timm

        return timm.create_model(name, **keywords)

    return make


class Functional(nn.Module):
    """Dropout and a branch of its own in each mode, as code writes them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1)
        self.aux = nn.Sequential(nn.Conv2d(32, 64, 3, stride=2), nn.ReLU(inplace=True))
        self.blend = nn.Parameter(torch.zeros(64, 1, 1))
        self.last = nn.Conv2d(32, 64, 3, stride=2)
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        y = F.dropout(F.relu(x), 0.2, training=self.training)
        y = self.last(y + x)
        if self.training:
            aux = self.aux(x)
            left, right = aux.chunk(2, 1)
            y = y + torch.cat([right, left], 1) * self.blend
        else:
            y = y * torch.sigmoid(self.blend)
        y = F.dropout2d(y, 0.1, training=self.training) if self.training else y
        y = self.head(y.mean((2, 3)))
        return y if self.training else y.softmax(-1)


class Nested(nn.Module):
    """A backbone that returns a tuple in train mode and a tensor in eval mode, and attention that is told its dropout."""

    class Backbone(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(48, 64), nn.Linear(64, 64)
            self.qkv = nn.Linear(64, 192)

        def forward(self, x: torch.Tensor) -> Any:
            first = F.gelu(self.one(x))
            q, k, v = self.qkv(first).unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4).unbind(0)
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1 if self.training else 0.0)
            y = self.two(y.transpose(1, 2).flatten(2))
            return (y, first) if self.training else y

    def __init__(self) -> None:
        super().__init__()
        self.backbone = self.Backbone()
        self.head, self.aux = nn.Linear(64, 10), nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> Any:
        if not self.training:
            return self.head(self.backbone(x).mean(1))
        y, first = self.backbone(x)
        return {"out": self.head(y.mean(1)), "aux": self.aux(first.mean(1))}


CASES: Dict[str, Case] = {
    "googlenet": Case(vision("googlenet", init_weights=False), (3, 224, 224), classes, of_three_heads),
    "inception_v3": Case(vision("inception_v3", init_weights=False), (3, 299, 299), classes, of_two_heads),
    "deeplabv3_resnet50": Case(vision("deeplabv3_resnet50", weights_backbone=None, aux_loss=True), (3, 224, 224), pixels(224),
                               of_segmentation),
    "fcn_resnet50": Case(vision("fcn_resnet50", weights_backbone=None, aux_loss=True), (3, 224, 224), pixels(224), of_segmentation),
    "deit_drop_path": Case(timm_model("deit_tiny_patch16_224", drop_path_rate=0.1, attn_drop_rate=0.1), (3, 224, 224), classes,
                           of_output),
    "convnext_drop_path": Case(timm_model("convnext_atto", drop_path_rate=0.1, drop_rate=0.2), (3, 224, 224), classes, of_output),
    "levit_128s": Case(timm_model("levit_128s"), (3, 224, 224), classes, of_output),
    "ghostnet_050": Case(timm_model("ghostnet_050"), (3, 224, 224), classes, of_output),
    "focalnet": Case(timm_model("focalnet_tiny_srf"), (3, 224, 224), classes, of_output),
    "swin_v2_t": Case(vision("swin_v2_t"), (3, 256, 256), classes, of_output),
    "functional": Case(Functional, (3, 64, 64), classes, of_sum),
    "nested": Case(Nested, (50, 48), classes, of_segmentation),
}


def run_batch(case: Case, count: int, device: str) -> Tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros((count,) + case.size, device=device), case.targets(count, device)


def only_first(model: nn.Module, batch: Any) -> Any:
    return model(batch[0])


def plan_of(gpuplan: str, spec: str, mode: str, scratch: str) -> Dict[str, Any]:
    command = [gpuplan, spec, "--batch", str(BATCH), "--gpu", "h200", "--format", "json", "--scratch", scratch]
    command += ["--mode", "infer"] if mode == "infer" else ["--opt", "sgd", "--loop", "function"]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)


def counted(case: Case, model: nn.Module, mode: str) -> Dict[str, int]:
    bare = on_meta(model).train(mode == "train")
    return export_check.counts_of(bare, lambda m: only_first(m, run_batch(case, BATCH, "meta")))


def train_step(case: Case, model: nn.Module, batch: Any, optimizer: torch.optim.Optimizer, phases: export_shadow.Phases) -> None:
    optimizer.zero_grad()
    phases.end("start")
    out = model(batch[0])
    phases.end("forward")
    loss = case.loss(model, out, batch)
    phases.end("loss")
    loss.backward()
    phases.end("backward")
    del out, loss
    optimizer.step()
    phases.end("optimizer")


def measured(case: Case, model: nn.Module, mode: str) -> Dict[str, Dict[str, int]]:
    phases = export_shadow.Phases()
    if mode == "infer":
        export_shadow.infer(model, torch.zeros((BATCH,) + case.size, device="cuda"), phases)
        return phases.steps[-1]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = run_batch(case, BATCH, "cuda")
    for _ in range(3):
        train_step(case, model.train(), batch, optimizer, phases)
    return phases.steps[-1]


def compare(gpuplan: str, name: str, mode: str, spec: str, scratch: str) -> None:
    case = CASES[name]
    model = constructed(case.make)
    plan = plan_of(gpuplan, spec, mode, scratch)
    expected = counted(case, model, mode)
    found = {"parameters": plan["model"]["parameters"], "buffers": plan["model"]["buffers"], "macs": plan["compute"]["forward_macs"]}
    wrong = [f"{k} {found[k]:,}, PyTorch {v:,}" for k, v in expected.items() if found[k] != v]
    phases = {p["phase"]: p for p in plan["phases"] if p["step"] == "steady"}
    steps = measured(case, model.to_empty(device="cuda"), mode) if torch.cuda.is_available() else {}
    differing, count = export_shadow.differences(steps, phases)
    wrong += differing
    said = f"{count - len(differing)} of {count} figures equal" if steps else "counts alone, without a GPU"
    print(f"{'FAIL' if wrong else 'ok  '}  {name} {mode}: {said}", *wrong, sep="\n      ", flush=True)
    if wrong:
        raise ValueError(f"{len(wrong)} figures differ")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpuplan", required=True)
    parser.add_argument("--scratch", default="full", choices=("full", "no-cudnn"), help="as gpuplan shadow was told")
    parser.add_argument("--specs", type=Path, help="where to keep what was written")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    gc.disable()
    results: List[bool] = []
    with tempfile.TemporaryDirectory() as temporary:
        for name in options.names or CASES:
            case = CASES[name]
            spec = str((options.specs or Path(temporary)) / f"{name}.yaml")
            try:
                exporter.export(constructed(case.make), run_batch(case, 2, "meta"), spec, forward=only_first, loss=case.loss)
                for mode in ("train", "infer"):
                    results.append(export_record.in_own_process(compare, options.gpuplan, name, mode, spec, options.scratch))
            except Exception as e:
                print(f"FAIL  {name}: {type(e).__name__}: {e}", flush=True)
                results.append(False)
    print(f"{sum(results)} of {len(results)} runs equal")
    return int(not all(results))


if __name__ == "__main__":
    sys.exit(main())

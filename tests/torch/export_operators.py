#!/usr/bin/env python3
"""Small models of one operator each: a step as PyTorch runs it, beside the plan of the exported spec, to the byte:

    gpuplan shadow --gpu h200 -q -- python export_operators.py --gpuplan build/gpuplan [NAME...]

Compared are requested, allocated and reserved bytes and their peaks after each phase of the third training step and of
an inference, as in export_shadow.py; the loss is the output's sum. Exits with 1 where a figure differs.
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
from typing import Callable, Dict, List, Tuple

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent))
import export_shadow  # noqa: E402
import gpuplan as exporter  # noqa: E402

BATCH = 8
Operator = Callable[["Net", torch.Tensor], torch.Tensor]


class Net(torch.nn.Module):
    """The operator between two products with weights, so that its operand has a gradient and its result is read."""

    def __init__(self, operator: Operator, size: Tuple[int, ...]):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(size))
        self.table = torch.nn.Parameter(torch.ones(31, 41, 8))
        self.gain = torch.nn.Parameter(torch.ones(size[0]))
        self.slopes = torch.nn.PReLU(size[0])
        self.mixer = torch.nn.Parameter(torch.ones(20, 24))
        self.factor = torch.nn.Parameter(torch.ones(()))
        self.none = torch.nn.Parameter(torch.ones(1, 0, *size[1:]))
        self.register_buffer("least", torch.zeros(()))
        self.register_buffer("most", torch.ones(()))
        self.register_buffer("slots", torch.zeros(24))
        self.register_buffer("rows", torch.zeros(20, 30, dtype=torch.int64))
        self.register_buffer("positions", torch.zeros(30, dtype=torch.int64))
        self.operator = operator

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.operator(self, x * self.scale) * self.factor


def add_to_part(net: Net, x: torch.Tensor) -> torch.Tensor:
    y = x * net.scale
    y[:, :, 1:] += x[:, :, 1:]
    return y


def sum_by_name(net: Net, x: torch.Tensor) -> torch.Tensor:
    wide = torch.float32
    return x * x.sum(-1, keepdim=True, dtype=wide).to(x.dtype)


def set_part(net: Net, x: torch.Tensor) -> torch.Tensor:
    y = x * net.scale
    y[:, :, 1:, 2:] = x[:, :, 1:, 2:] * 3
    return y


def zero_part(net: Net, x: torch.Tensor) -> torch.Tensor:
    y = x * net.scale
    y[:, 16:32].zero_()
    return y


def grid(net: Net, x: torch.Tensor) -> torch.Tensor:
    lines = [torch.arange(n, device=x.device, dtype=torch.float32) / n for n in x.shape[2:]]
    return x + torch.stack(torch.meshgrid(lines, indexing="ij"), dim=-1).sum(-1)


def normalized_response(net: Net, x: torch.Tensor) -> torch.Tensor:
    norm = x.norm(p=2, dim=(2, 3), keepdim=True)
    shape = (1, -1, 1, 1)
    return x + torch.addcmul(net.gain.view(shape), net.gain.view(shape), x * (norm / (norm.mean(1, True) + 1e-6)))


def batch_norm_of_weights(net: Net, x: torch.Tensor) -> torch.Tensor:
    flat = x.reshape(1, x.shape[1], -1)
    return F.batch_norm(flat, None, None, weight=net.gain * 2, training=True, momentum=0.0)


def float_weight(net: Net, x: torch.Tensor) -> torch.Tensor:
    """As the norms of Gemma and Qwen3-Next are written."""
    y = x.float()
    y = y * torch.rsqrt(y.pow(2).mean(1, keepdim=True) + 1e-6)
    return (y * (1.0 + net.gain.float()).view(1, -1, 1, 1)).to(x.dtype)


def type_by_name(net: Net, x: torch.Tensor) -> torch.Tensor:
    """A copy whose original goes, and a type that a name keeps."""
    y = x * 2
    given = y.dtype
    y = y.to(torch.float32)
    y = y * y.mean(1, keepdim=True)
    return y.to(given)


def folded(net: Net, x: torch.Tensor) -> torch.Tensor:
    return F.fold(F.unfold(x, 3, padding=1) * 2, (20, 24), 3, padding=1)


def without_prefix(net: Net, x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x[:, :, :0], x[:, :, 0:] * 2], dim=2)


def attention(net: Net, x: torch.Tensor) -> torch.Tensor:
    heads = x.reshape(x.shape[0], 8, 160, 24)
    key = heads.mean(1, keepdim=True)
    return F.scaled_dot_product_attention(heads, key, key)


def windowed_attention(net: Net, x: torch.Tensor) -> torch.Tensor:
    heads = x.reshape(x.shape[0], 2, 4, 160, 24)
    return F.scaled_dot_product_attention(heads, heads * 2, heads * 3)


def saved_for_nothing(net: Net, x: torch.Tensor) -> torch.Tensor:
    pooled = F.max_pool2d(x, 2)  # nothing reads it, and its indices live with it
    y = x.exp() * 3
    return y if pooled.dim() == 4 else pooled


def checked(net: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    torch._check_tensor_all_with(ValueError, x > -9, "too small")
    return x * 3


def grouped_mm(rows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Of transformers' experts."""
    return F.grouped_mm(rows.reshape(-1, rows.shape[-1]), weights, offs=torch.zeros(64, dtype=torch.int32, device=rows.device)) * 3


SIZE = (64, 20, 24)


OPERATORS: Dict[str, Operator] = {
    "index_rows": lambda net, x: x.mean() * net.table[:, 0][net.positions],
    "index_columns": lambda net, x: x.mean() * net.table[0].t()[:, net.rows],
    "index_two": lambda net, x: x.mean() * net.table[net.rows, net.rows],
    "index_crossed": lambda net, x: x.mean() * net.table[net.positions[:, None], net.positions[None]],
    "index_inner": lambda net, x: x[:, :, net.positions] * 2,
    "index_permuted": lambda net, x: x[:, net.positions].permute(0, 2, 3, 1).contiguous(),
    "index_list": lambda net, x: x[:, :, [0, 3, 5]],
    "add_to_part": add_to_part,
    "set_part": set_part,
    "zero_part": zero_part,
    "grid": grid,
    "amax": lambda net, x: x.amax(dim=1, keepdim=True),
    "amax_two": lambda net, x: x.amax(dim=(2, 3)),
    "max": lambda net, x: x.max(2)[0],
    "prelu": lambda net, x: net.slopes(x),
    "argmax": lambda net, x: x * x.argmax(1, keepdim=True),
    "argmin_all": lambda net, x: x * x.argmin(),
    "gather_of_product": lambda net, x: (x * 2).gather(1, x.argmax(1, keepdim=True)) * 3,
    "index_select": lambda net, x: (x * 2).index_select(2, net.positions[:7]),
    "sorted": lambda net, x: (x * 2).sort(dim=1)[0],
    "argsort": lambda net, x: x * x.detach().argsort(dim=2),
    "drawn_in_place": lambda net, x: x * torch.empty_like(x).uniform_(-1, 1).exp(),
    "masked_copy": lambda net, x: (x * 2).transpose(1, 3).masked_fill(x.detach().transpose(1, 3) > 0, 0),
    "no_tokens": lambda net, x: torch.cat([x, net.none.expand(x.shape[0], -1, -1, -1)], dim=1),
    "topk": lambda net, x: x.topk(3, dim=2)[0],
    "tile": lambda net, x: x.tile((1, 1, 2, 2)),
    "repeat_new": lambda net, x: x.repeat(2, 1, 1, 1, 1),
    "repeat_interleave": lambda net, x: x.repeat_interleave(3, dim=1),
    "flip": lambda net, x: x.flip(-1),
    "normalized_response": normalized_response,
    "batch_norm_of_weights": batch_norm_of_weights,
    "adaptive_avg_pool1d": lambda net, x: F.adaptive_avg_pool1d(x.flatten(2), 1),
    "adaptive_avg_pool1d_several": lambda net, x: F.adaptive_avg_pool1d(x.flatten(2), 5),
    "max_pool1d": lambda net, x: F.max_pool1d(x.flatten(2), 3, 2, 1),
    "max_pool1d_dilated": lambda net, x: F.max_pool1d(x.flatten(2), 3, dilation=2),
    "rows_of_batch": lambda net, x: x[torch.arange(x.shape[0], device=x.device), torch.ones(x.shape[0], dtype=torch.int64, device=x.device)],
    "drop_path": lambda net, x: x.div(0.9) * (0.9 + torch.rand((x.shape[0], 1, 1, 1), dtype=x.dtype, device=x.device)).floor_(),
    "drop_path_floor": lambda net, x: x.div(0.9) * (0.9 + torch.rand((x.shape[0], 1, 1, 1), dtype=x.dtype, device=x.device)).floor(),
    "avg_pool1d": lambda net, x: F.avg_pool1d(x.flatten(2), 4, 4),
    "bicubic": lambda net, x: F.interpolate(x, size=(14, 30), mode="bicubic", align_corners=False),
    "bicubic_permuted": lambda net, x: F.interpolate(x.permute(0, 2, 3, 1), size=(14, 30), mode="bicubic").permute(0, 3, 1, 2).contiguous(),
    "bilinear_antialiased": lambda net, x: F.interpolate(x, size=(14, 30), mode="bilinear", antialias=True),
    "linear": lambda net, x: F.interpolate(x.flatten(2), size=(97,), mode="linear"),
    "unfold_dimensions": lambda net, x: x.unfold(2, 12, 8).unfold(3, 12, 6).contiguous(),
    "unfold": lambda net, x: F.unfold(x, 3, padding=1, stride=2),
    "unfold_permuted": lambda net, x: F.unfold(x.transpose(2, 3), 3, padding=1).transpose(1, 2).contiguous(),
    "fold": folded,
    "reflection_pad": lambda net, x: F.pad(x, (1, 2, 1, 2), mode="reflect"),
    "reflection_pad_permuted": lambda net, x: F.pad(x.transpose(2, 3), (1, 2, 1, 2), mode="reflect").transpose(2, 3).contiguous(),
    "adaptive_max_pool": lambda net, x: F.adaptive_max_pool2d(x, (7, 7)),
    "without_prefix": without_prefix,
    "attention_of_one_key_head": attention,
    "attention_of_five_dimensions": windowed_attention,
    "cumsum": lambda net, x: x * torch.zeros(x.shape[2:], dtype=torch.bool, device=x.device).logical_not().cumsum(1, dtype=torch.float32),
    "cumsum_of_integers": lambda net, x: x * (x > 0).int().cumsum(1, dtype=torch.int32),
    "grouped_mm": lambda net, x: grouped_mm((x * 2)[..., :16, 0].contiguous(), net.scale[:, :16]),
    "grouped_mm_transposed": lambda net, x: grouped_mm((x * 2)[:, :, 0].contiguous(), net.scale[:, :16].transpose(1, 2).contiguous()),
    "arange_of_rows": lambda net, x: x.flatten(0, 1) * torch.arange(x.shape[0] * x.shape[1], device=x.device)[:, None, None],
    "mean_in_float": lambda net, x: x * x.mean(-1, keepdim=True, dtype=torch.float32).to(x.dtype),
    "sum_in_float": lambda net, x: x * x.sum((2, 3), keepdim=True, dtype=torch.float32).type_as(x),
    "softmax_in_float": lambda net, x: F.softmax(x, dim=-1, dtype=torch.float32).to(x.dtype),
    "log_softmax_in_float": lambda net, x: x.log_softmax(-1, dtype=torch.float32),
    "softmax_positional": lambda net, x: torch.softmax(x, -1, torch.float32).to(x.dtype),
    "softmax_in_its_type": lambda net, x: F.softmax(x, dim=-1, dtype=x.dtype),
    "sum_in_its_type": lambda net, x: x * x.sum(-1, keepdim=True, dtype=net.scale.dtype),
    "apart_from_meta": lambda net, x: x.exp() * 2 if x.device.type != "meta" else x,
    "mean_by_axis": lambda net, x: x * torch.mean(x, axis=1, keepdims=True),
    "sum_by_name": sum_by_name,
    "sum_of_booleans": lambda net, x: x * (x.detach() > 0).sum(1, keepdim=True),
    "all_booleans": lambda net, x: x * (x.detach() > 0).sum(),
    "repeat_for_the_batch": lambda net, x: x + net.gain.view(1, -1, 1, 1).repeat(x.shape[0], 1, 1, 1),
    "frequencies": lambda net, x: x * (10000 ** (2 * (torch.arange(24, device=x.device) // 2) / 24)),
    "float_weight": float_weight,
    "type_by_name": type_by_name,
    "larger": lambda net, x: torch.max(x, net.gain.view(-1, 1, 1)),
    "larger_of_number": lambda net, x: torch.max(x, torch.tensor(-1.0, device=x.device)),
    "smaller": lambda net, x: torch.minimum(net.gain.view(-1, 1, 1), x),
    "clamp_to_one": lambda net, x: torch.clamp(x, net.least, net.most),
    "clamp_to_many": lambda net, x: x.clamp(min=net.slots * 2, max=net.slots * 3),
    "clamp_to_least": lambda net, x: x.clamp(min=net.gain.view(-1, 1, 1)),
    "clamp_to_most": lambda net, x: x.clamp(max=net.gain.view(-1, 1, 1)),
    "clamp_integers": lambda net, x: x * x.argmax(1, keepdim=True).clamp(min=net.positions[:24]),
    "all_of_columns": lambda net, x: x * (x.detach() > 0).all(dim=1, keepdim=True),
    "any_of_all": lambda net, x: x * (x.detach() > 0).any(),
    "all_of_rows": lambda net, x: x * (x.detach() != 0).all(-1, keepdim=True),
    "one_hot": lambda net, x: x.mean() * F.one_hot(net.rows, 48).to(x.dtype),
    "matrix_of_weights": lambda net, x: net.mixer.t() @ x,
    "matrix_by_weights": lambda net, x: x.transpose(1, 2) @ net.mixer[2:12].t(),
    "softmax_of_transposed": lambda net, x: F.softmax(x, dim=-1).transpose(2, 3).contiguous() * 2,
    "log_softmax_of_transposed": lambda net, x: F.log_softmax(x, dim=-1).transpose(2, 3).contiguous() * 2,
    "columns_by_rows": lambda net, x: torch.bmm(x[:, :, 0, :1], x[:, :1, 0]),
    "repeated_rows": lambda net, x: net.gain.expand(x.shape[0], -1) @ x.mean(0).reshape(64, -1),
    "padded_permuted": lambda net, x: F.pad(x.permute(0, 3, 1, 2), (0, 1, 0, 1)).permute(0, 2, 3, 1).contiguous(),
    "cut_permuted": lambda net, x: F.pad(x.permute(0, 3, 1, 2), (0, -1, -1, 0)).permute(0, 2, 3, 1).contiguous(),
    "saved_for_nothing": saved_for_nothing,
    "pixel_shuffle": lambda net, x: F.pixel_shuffle(x * 2, 4) * 3,
    "pixel_unshuffle": lambda net, x: F.pixel_unshuffle(x * 2, 2) * 3,
    "channel_shuffle": lambda net, x: F.channel_shuffle(x * 2, 8) * 3,
    "adaptive_max_pool1d": lambda net, x: F.adaptive_max_pool1d(x.flatten(2), 5),
    "softmin": lambda net, x: F.softmin(x, dim=-1) * 2,
    "tanhshrink": lambda net, x: F.tanhshrink(x) * 2,
    "einsum_of_one": lambda net, x: torch.einsum("bchw->bhwc", x * 2) * 3,
    "checked": checked,
    "einsum_by_letter": lambda net, x: torch.einsum("bcnd,hnd->bch", x * 2, net.scale),
    "rms_norm_permuted": lambda net, x: F.rms_norm(x.transpose(1, 3), (64,), net.gain, 1e-5),
}


# What runs otherwise in half precision, and is compared in bf16 too.
IN_HALF = ("grouped_mm", "grouped_mm_transposed", "float_weight", "type_by_name", "mean_in_float", "sum_in_float", "softmax_in_float", "log_softmax_in_float",
           "softmax_positional", "softmax_in_its_type", "sum_in_its_type", "sum_by_name")


def planned(gpuplan: str, case: Tuple[torch.nn.Module, torch.Tensor], infer: bool, half: bool) -> Dict[str, Dict[str, int]]:
    model, batch = case
    with tempfile.TemporaryDirectory() as folder:
        spec = str(Path(folder) / "model.yaml")
        loss = None if infer else (lambda model, out, batch: out.sum())
        exporter.export(model, batch, spec, loss=loss)
        command = [gpuplan, spec, "--batch", str(BATCH), "--gpu", "h200", "--format", "json"]
        command += ["--mode", "infer"] if infer else ["--opt", "sgd", "--loop", "function"]
        command += ["--precision", "bf16"] if half else []
        done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        raise RuntimeError(done.stderr)
    return {p["phase"]: p for p in json.loads(done.stdout)["phases"] if p["step"] == "steady"}


def train_step(model: torch.nn.Module, batch: torch.Tensor, optimizer: torch.optim.Optimizer,
               phases: export_shadow.Phases) -> None:
    optimizer.zero_grad()
    phases.end("start")
    out = model(batch)
    phases.end("forward")
    loss = out.sum()
    phases.end("loss")
    loss.backward()
    phases.end("backward")
    del out, loss
    optimizer.step()
    phases.end("optimizer")


def measured(model: torch.nn.Module, batch: torch.Tensor, infer: bool) -> Dict[str, Dict[str, int]]:
    phases = export_shadow.Phases()
    if infer:
        export_shadow.infer(model, batch, phases)
        return phases.steps[-1]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        train_step(model, batch, optimizer, phases)
    return phases.steps[-1]


def compare(gpuplan: str, name: str, infer: bool, half: bool) -> bool:
    wanted = planned(gpuplan, (Net(OPERATORS[name], SIZE), torch.empty((2,) + SIZE)), infer, half)
    torch.cuda.empty_cache()
    dtype = torch.bfloat16 if half else torch.float32
    model = Net(OPERATORS[name], SIZE).to(dtype).cuda()
    found = measured(model, torch.zeros((BATCH,) + SIZE, dtype=dtype, device="cuda"), infer)
    wrong, count = export_shadow.differences(found, wanted)
    print(f"{'FAIL' if wrong else 'ok  '}  {name}{' infer' if infer else ''}{' bf16' if half else ''}: {count - len(wrong)} of {count} figures equal")
    for text in wrong:
        print("  " + text)
    return not wrong


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpuplan", required=True)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    gc.disable()
    results: List[bool] = []
    for name in options.names or OPERATORS:
        for half, infer in [(h, i) for h in (False, True)[:1 + (name in IN_HALF)] for i in (False, True)]:
            try:
                results.append(compare(options.gpuplan, name, infer, half))
            except Exception as e:
                print(f"FAIL  {name}: {type(e).__name__}: {e}")
                results.append(False)
            gc.collect()
    print(f"{sum(results)} of {len(results)} runs equal")
    return int(not all(results))


if __name__ == "__main__":
    sys.exit(main())

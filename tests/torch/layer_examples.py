#!/usr/bin/env python3
"""The worked example of every layer beside PyTorch: parameters, output shape, saved bytes and multiply-adds.

    gpuplan_layer_examples > examples.json
    gpuplan shadow --gpu h200 -q -- python layer_examples.py examples.json

What autograd saves is PyTorch's CUDA code's; torch.autograd.graph.saved_tensors_hooks sees each tensor, and a storage
counts once, parameters, buffers and targets left out. Multiply-adds are those that FlopCounterMode counts of the same
code on the CPU, where attention and recurrent layers run as products. Exits with 1 where a figure differs, or a layer
has neither a counterpart nor a reason.
"""
from __future__ import annotations

import argparse
import ast
import json
import sys
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).resolve().parent))
import layer_models  # noqa: E402

Example = Dict[str, Any]
DTYPES = {"fp32": torch.float32, "int64": torch.int64, "bool": torch.bool}


def read_call(text: str) -> Tuple[str, List[Any], Dict[str, Any]]:
    """Conv1d(16, 32, 5, padding=2); a word is a string."""
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name), text

    def value(node: ast.expr) -> Any:
        return node.id if isinstance(node, ast.Name) else ast.literal_eval(node)
    return call.func.id, [value(a) for a in call.args], {str(k.arg): value(k.value) for k in call.keywords}


class Layer:
    """One on a device, ready to run."""

    def __init__(self, example: Example, device: str):
        name, arguments, keywords = read_call(example["call"])
        self.module = nn.Module()
        self.inputs = [self.input(shape, DTYPES[example["input_dtype"]], device) for shape in example["input_shapes"]]
        self.targets: List[torch.Tensor] = []
        if example["loss"]:
            shapes = layer_models.TARGETS.get(name)
            self.targets = [layer_models.labels(shape, torch.device(device)) for shape in
                            shapes(*example["input_shapes"])] if shapes is not None else [torch.zeros_like(self.inputs[0])]
        self.call: Callable[[], Any]
        if name in layer_models.FUNCTIONS:
            self.call = lambda: layer_models.FUNCTIONS[name](*self.inputs, *self.targets, *arguments, **keywords)
        elif name in layer_models.FACTORIES:
            self.call = lambda: layer_models.FACTORIES[name](*arguments, device=device, **keywords)
        else:
            made_here = {**layer_models.MODULES, "MixtureOfExperts": layer_models.experts_on(device), **layer_models.chosen_experts_on(device)}
            make = made_here.get(name) or getattr(nn, name)
            self.module = make(*arguments, **keywords).train().to(device)
            self.call = lambda: self.module(*self.inputs, *self.targets)

    @staticmethod
    def input(shape: List[int], dtype: torch.dtype, device: str) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype, device=device, requires_grad=dtype.is_floating_point)

    def parameters(self) -> int:
        return sum(p.numel() for p in self.module.parameters())


def first_tensor(out: Any) -> torch.Tensor:
    while not isinstance(out, torch.Tensor):
        out = out[0]
    return out


def key_of(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def run_saving(layer: Layer) -> Tuple[List[int], int]:
    """The output's shape, and the bytes that autograd keeps."""
    kept: Dict[int, torch.Tensor] = {}
    weights = {key_of(t) for t in [*layer.module.parameters(), *layer.module.buffers(), *layer.targets]}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_cuda and tensor.numel() > 0 and key_of(tensor) not in weights:
            kept[key_of(tensor)] = tensor  # alive, so that its address is not used again
        return tensor
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = first_tensor(layer.call())
    return list(out.shape), sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


def count_macs(layer: Layer) -> Tuple[int, int]:
    """Of forward and of backward, with attention as two products."""
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH), torch.backends.mkldnn.flags(enabled=False):
        with FlopCounterMode(display=False) as forward:
            out = first_tensor(layer.call())
        with FlopCounterMode(display=False) as backward:
            if out.requires_grad and not out.is_leaf:
                out.backward(torch.ones_like(out))
    return forward.get_total_flops() // 2, backward.get_total_flops() // 2


def measure(example: Example) -> Dict[str, Any]:
    layer = Layer(example, "cuda")
    shape, saved = run_saving(layer)
    forward, backward = count_macs(Layer(example, "cpu"))
    return {"parameters": layer.parameters(), "output_shape": shape, "saved_bytes": saved, "forward_macs": forward,
            "backward_macs": backward}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("examples", type=Path)
    parser.add_argument("layers", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    examples = [e for e in json.loads(options.examples.read_text()) if not options.layers or e["layer"] in options.layers]
    equal = different = 0
    for example in examples:
        name = example["layer"]
        if name in layer_models.WITHOUT:
            print(f"none  {name}: {layer_models.WITHOUT[name]}")
            continue
        try:
            measured = measure(example)
        except ImportError as e:
            print(f"skip  {name}: {e}")
            continue
        except Exception as e:
            measured = {"PyTorch": f"{type(e).__name__}: {e}"}
        wrong = [f"{key} {example.get(key)}, PyTorch {value}" for key, value in measured.items()
                 if example.get(key) != value]
        different += bool(wrong)
        equal += not wrong
        if wrong:
            print(f"FAIL  {example['call']}: {'; '.join(wrong)}")
    for name in set(layer_models.WITHOUT) - {example["layer"] for example in examples} if not options.layers else ():
        different += 1
        print(f"FAIL  {name} is said to have no counterpart, and there is no such layer")
    print(f"{equal} layers equal, {different} not, of {len(examples)}")
    return 1 if different or equal == 0 else 0


if __name__ == "__main__":
    sys.exit(main())

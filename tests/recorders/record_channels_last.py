"""Records what layers allocate between convolutions with channels last: python record_channels_last.py > ../shadow/channels_last.GPU.torchVERSION.tsv

Columns as record_layers.py's. Each of its layers that takes an image, and each activation, stands behind a convolution, and where
it hands on an image once more between two: a result, or a gradient, that does not lie in channels last shows as the copy that the
convolution makes of it. Images, weights and the targets of losses lie in channels last. Recorded without cuDNN workspaces.
"""
import gc
import sys

import torch
from torchvision.models.convnext import LayerNorm2d

import memory_trace
import record_layers
from record_layers import IMAGE, Functional, Loss, trace

NN = torch.nn
F = NN.functional


def more_layers():
    """(call, what torch runs) of layers of an image that record_layers.py does not have."""
    for call in ("ReLU()", "ReLU(inplace=True)", "ReLU6()", "LeakyReLU()", "ELU()", "Sigmoid()", "Tanh()", "GELU()", "SiLU()",
                 "SiLU(inplace=True)", "Hardswish()", "Hardsigmoid()", "PReLU(8)", "BatchNorm2d(8)",
                 "ReflectionPad2d(1)", "Unfold(3, padding=1)"):
        yield call, eval("NN." + call)
    yield "LayerNorm2d(8)", LayerNorm2d(8)
    yield "Pad([1, 2, 1, 2])", Functional(lambda x: F.pad(x, (1, 2, 1, 2)))
    yield "Roll([3, 3], [2, 3])", Functional(lambda x: x.roll((3, 3), (2, 3)))
    yield "Flip(-1)", Functional(lambda x: x.flip(-1))
    yield "Pow(2)", Functional(lambda x: x.pow(2))
    yield "Rsqrt()", Functional(torch.rsqrt)
    yield "Cumsum(1)", Functional(lambda x: x.cumsum(1))
    yield "Repeat(1, 1, 2, 2)", Functional(lambda x: x.repeat(1, 1, 2, 2))
    yield "VectorNorm(dim=[2, 3], keepdim=True)", Functional(lambda x: torch.linalg.vector_norm(x, dim=[2, 3], keepdim=True))
    for call in ("CrossEntropyLoss()", "NLLLoss()"):
        yield call, Loss(eval("NN." + call), IMAGE, True)


def cases():
    """(calls, what torch runs)"""
    seen = set()
    layers = [(call, module) for call, shapes, module in record_layers.cases() if shapes == [IMAGE]]
    for call, module in layers + list(more_layers()):
        if call in seen:
            continue
        seen.add(call)
        image = torch.zeros(IMAGE)
        result = module(image.clone())
        yield ["Conv2d(8, 8, 3, padding=1)", call], NN.Sequential(NN.Conv2d(8, 8, 3, padding=1), module)
        if torch.is_tensor(result) and result.dim() == 4 and result.dtype == torch.float32:
            channels = result.shape[1]
            yield ["Conv2d(8, 8, 3, padding=1)", call, f"Conv2d({channels}, 8, 1)"], NN.Sequential(
                NN.Conv2d(8, 8, 3, padding=1), module, NN.Conv2d(channels, 8, 1))


def run(model):
    """(forward events, backward events)"""
    model.zero_grad(set_to_none=True)
    x = torch.zeros(IMAGE, device="cuda").to(memory_format=torch.channels_last).requires_grad_()
    gc.collect()
    out, forward = trace(lambda: model(x))
    first = out[0] if isinstance(out, (tuple, list)) else out
    gradient = torch.ones_like(first, memory_format=torch.contiguous_format)
    _, backward = trace(lambda: first.backward(gradient))
    return forward, backward


def main():
    gc.disable()
    print("call\tinput shapes\tmode\tforward\tbackward")
    for calls, model in cases():
        model = model.to("cuda").to(memory_format=torch.channels_last).train()
        if isinstance(model[-1], Loss):
            model[-1].target = model[-1].target.to("cuda")
            if model[-1].target.dim() == 4:
                model[-1].target = model[-1].target.to(memory_format=torch.channels_last)
        try:
            run(model)
            forward, backward = run(model)
        except RuntimeError as error:  # PyTorch itself refuses the layout
            print(" > ".join(calls), error, file=sys.stderr)
            continue
        print(" > ".join(calls), "x".join(map(str, IMAGE)), "train", memory_trace.text(forward), memory_trace.text(backward), sep="\t")


if __name__ == "__main__":
    main()

"""Records what layers allocate: python record_layers.py > ../shadow/layers.GPU.torchVERSION.tsv

Columns: call (gpuplan's spelling; "A > B" is B(A(x))), input shapes, mode; what the forward and the backward allocate
(+bytes) and free (-bytes) in order, unrounded; bytes of the distinct storages that autograd saves, parameters and targets left out
and inputs counted.

Inputs and parameters want a gradient, which they keep as leaves do; integer inputs are rows of a table. Inputs, outputs and the
gradient given to the (first) output are held by the recorder, so what frees in the backward are saved tensors and
temporaries. Recorded without cuDNN workspaces.
"""
import gc
import math

import torch
import torchvision

import memory_trace


class Functional(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


class Loss(torch.nn.Module):
    """Calls `loss` with a target made beforehand: of the input's shape, or class indices."""

    def __init__(self, loss, shape, classes):
        super().__init__()
        self.loss = loss
        self.target = torch.zeros(shape[:1] + shape[2:] if classes else shape, dtype=torch.int64 if classes else torch.float32)

    def forward(self, x):
        return self.loss(x, self.target)


class Attending(torch.nn.Module):
    """A module of self-attention behind a transposition, which leaves the numbers of a token, or its samples, apart."""

    def __init__(self, module, dims=None):
        super().__init__()
        self.module, self.dims = module, dims

    def forward(self, x):
        x = x if self.dims is None else x.transpose(*self.dims)
        return self.module(x, x, x, need_weights=False)[0] if isinstance(self.module, torch.nn.MultiheadAttention) else self.module(x)


class Cell(torch.nn.Module):
    """A cell given its states, as one tuple where it has two; of the states that it returns the first."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x, *states):
        result = self.cell(x, states if len(states) > 1 else states[0] if states else None)
        return result[0] if isinstance(result, tuple) else result


def add_in_place(x, y):
    x += y
    return x


def mul_in_place(x, y):
    x *= y
    return x


NN = torch.nn
IMAGE = (4, 8, 14, 14)
BIG = (32, 64, 28, 28)


def cases():
    """(call, input shapes, what torch runs)"""
    yield "ConvTranspose2d(8, 16, 2, stride=2)", [IMAGE], NN.ConvTranspose2d(8, 16, 2, stride=2)
    yield "ConvTranspose2d(8, 16, 3, stride=2, padding=1, output_padding=1, bias=False)", [IMAGE], NN.ConvTranspose2d(
        8, 16, 3, stride=2, padding=1, output_padding=1, bias=False)
    yield "ConvTranspose2d(8, 16, 3, groups=4, dilation=2)", [IMAGE], NN.ConvTranspose2d(8, 16, 3, groups=4, dilation=2)
    yield "ConvTranspose2d(8, 8, 3, groups=8)", [IMAGE], NN.ConvTranspose2d(8, 8, 3, groups=8)
    yield "ConvTranspose1d(8, 16, 4, stride=2)", [(4, 8, 50)], NN.ConvTranspose1d(8, 16, 4, stride=2)
    for p in ("Softmax(dim=1)", "LogSoftmax(dim=1)", "Softmax(dim=-1)", "LogSoftmax(dim=-1)"):
        yield p, [IMAGE], eval("NN." + p)
    for p in ("Dropout()", "Dropout(0.2)", "Dropout(0)", "Dropout(1.0)", "Dropout(inplace=True)", "Dropout(0, inplace=True)",
              "Dropout2d(0.2)", "Dropout2d(0.2, inplace=True)"):
        yield p, [IMAGE], eval("NN." + p)
    yield 'StochasticDepth(0.2, "row")', [IMAGE], torchvision.ops.StochasticDepth(0.2, "row")
    yield 'StochasticDepth(0.2, "batch")', [IMAGE], torchvision.ops.StochasticDepth(0.2, "batch")
    yield 'StochasticDepth(0.0, "row")', [IMAGE], torchvision.ops.StochasticDepth(0.0, "row")
    yield 'StochasticDepth(1.0, "row")', [IMAGE], torchvision.ops.StochasticDepth(1.0, "row")
    for p in ("MaxPool2d(2)", "MaxPool2d(3, stride=2, padding=1)", "MaxPool2d(3, stride=2, ceil_mode=True)",
              "MaxPool2d(2, stride=1, dilation=2)", "AvgPool2d(2)", "AvgPool2d(3, stride=2, padding=1, ceil_mode=True)",
              "AvgPool2d(3, stride=1, padding=1, count_include_pad=False)", "AdaptiveAvgPool2d(1)", "AdaptiveAvgPool2d((1, 1))",
              "AdaptiveAvgPool2d(7)", "AdaptiveAvgPool2d((4, 5))"):
        yield p, [IMAGE], eval("NN." + p)
    yield "AdaptiveAvgPool2d(1)", [BIG], NN.AdaptiveAvgPool2d(1)
    for p in ("MaxPool1d(2)", "MaxPool1d(3, stride=2, padding=1)", "AvgPool1d(2)", "AvgPool1d(3, stride=2, padding=1, ceil_mode=True)",
              "AdaptiveAvgPool1d(1)", "AdaptiveAvgPool1d(7)", "AdaptiveMaxPool1d(7)"):
        yield p, [(4, 8, 196)], eval("NN." + p)
    for p in ("Conv3d(8, 16, 3, padding=1)", "Conv3d(8, 8, (1, 3, 3), stride=2, bias=False, groups=8)", "Conv3d(8, 16, 2, dilation=2)", "MaxPool3d(2)",
              "MaxPool3d(3, stride=2, padding=1)", "AvgPool3d(2)", "AdaptiveAvgPool3d(1)", "AdaptiveAvgPool3d(4)", "AdaptiveMaxPool3d((2, 4, 4))"):
        yield p, [(4, 8, 10, 12, 14)], eval("NN." + p)
    yield "GridSample()", [IMAGE, (4, 9, 11, 2)], Functional(lambda x, grid: NN.functional.grid_sample(x, grid, align_corners=False))
    yield "CosineSimilarity(1)", [IMAGE, IMAGE], NN.CosineSimilarity(1)
    yield "CosineSimilarity(-1)", [(64, 128), (64, 128)], NN.CosineSimilarity(-1)
    for p in ("MultiheadAttention(32, 4, batch_first=True", "TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0",
              "TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0, norm_first=True"):
        call = p + (", need_weights=False)" if "Multi" in p else ")")
        yield call, [(4, 10, 32)], Attending(eval(f"NN.{p})"))
        yield f"Transpose(1, 2) > {call}", [(4, 32, 10)], Attending(eval(f"NN.{p})"), (1, 2))
        yield f"Transpose(0, 1) > {call}", [(10, 4, 32)], Attending(eval(f"NN.{p})"), (0, 1))
    yield "Flatten()", [IMAGE], NN.Flatten()
    yield "Flatten(2)", [IMAGE], NN.Flatten(2)
    yield "Identity()", [IMAGE], NN.Identity()
    views = {
        "View(-1, 2, 4, 196)": lambda x: x.view(-1, 2, 4, 196),
        "Reshape(-1, 1568)": lambda x: x.reshape(-1, 1568),
        "Transpose(1, 2)": lambda x: x.transpose(1, 2),
        "Permute(0, 2, 3, 1)": lambda x: x.permute(0, 2, 3, 1),
        "Contiguous()": lambda x: x.contiguous(),
    }
    for call, f in views.items():
        yield call, [IMAGE], Functional(f)
    yield "Transpose(1, 2) > Contiguous()", [IMAGE], Functional(lambda x: x.transpose(1, 2).contiguous())
    yield "Transpose(1, 2) > Reshape(-1, 1568)", [IMAGE], Functional(lambda x: x.transpose(1, 2).reshape(-1, 1568))
    yield "Transpose(1, 2) > Flatten()", [IMAGE], Functional(lambda x: x.transpose(1, 2).flatten(1))
    yield "ReLU() > Mean(dim=[2, 3])", [IMAGE], Functional(lambda x: x.relu().mean([2, 3]))
    yield "ReLU() > Sum(dim=1)", [IMAGE], Functional(lambda x: x.relu().sum(1))
    yield "Softmax(dim=-1) > Chunk(2, dim=1)", [IMAGE], Functional(lambda x: x.softmax(-1).chunk(2, 1))
    yield "Unflatten(1, (2, -1))", [IMAGE], NN.Unflatten(1, (2, -1))
    yield "Chunk(2, dim=1)", [IMAGE], Functional(lambda x: x.chunk(2, 1))
    yield "Chunk(3, dim=2)", [IMAGE], Functional(lambda x: x.chunk(3, 2))
    yield "Split(2, dim=1)", [IMAGE], Functional(lambda x: x.split(2, 1))
    yield "Split([2, 6], dim=1)", [IMAGE], Functional(lambda x: x.split([2, 6], 1))
    pairs = [[IMAGE, IMAGE], [IMAGE, (4, 8, 1, 1)], [(4, 8, 1, 1), IMAGE], [IMAGE, (8, 1, 1)], [IMAGE, (4, 1, 1, 1)],
             [(8, 1, 14), (8, 14, 1)], [BIG, (64, 1, 1)], [BIG, (32, 64, 1, 1)]]
    for shapes in pairs:
        yield "Add()", shapes, Functional(lambda x, y: x + y)
        yield "Sub()", shapes, Functional(lambda x, y: x - y)
        yield "Mul()", shapes, Functional(lambda x, y: x * y)
        yield "Div()", shapes, Functional(lambda x, y: x / y)
    for shapes in ([IMAGE, IMAGE], [IMAGE, (4, 8, 1, 1)]):
        yield "Add(inplace=True)", shapes, Functional(add_in_place)
        yield "Mul(inplace=True)", shapes, Functional(mul_in_place)
    yield "Add(other=1.0)", [IMAGE], Functional(lambda x: x + 1.0)
    yield "Sub(other=1.0)", [IMAGE], Functional(lambda x: x - 1.0)
    yield "Mul(other=2.0)", [IMAGE], Functional(lambda x: x * 2.0)
    yield "Div(other=2.0)", [IMAGE], Functional(lambda x: x / 2.0)
    yield "Cat(dim=1)", [IMAGE, IMAGE], Functional(lambda *x: torch.cat(x, 1))
    yield "Cat(dim=1)", [IMAGE, (4, 4, 14, 14), (4, 2, 14, 14)], Functional(lambda *x: torch.cat(x, 1))
    yield "Cat(dim=0)", [IMAGE, IMAGE], Functional(lambda *x: torch.cat(x, 0))
    yield "Cat(dim=1)", [IMAGE], Functional(lambda *x: torch.cat(x, 1))
    means = {
        "dim=[2, 3]": dict(dim=[2, 3]), "dim=1": dict(dim=1), "dim=[-2, -1], keepdim=True": dict(dim=[-2, -1], keepdim=True), "": {},
        "dim=-1": dict(dim=-1), "dim=0": dict(dim=0),
    }
    for text, options in means.items():
        yield f"Mean({text})", [IMAGE], Functional(lambda x, o=options: x.mean(**o))
        yield f"Sum({text})", [IMAGE], Functional(lambda x, o=options: x.sum(**o))
    yield "Mean()", [BIG], Functional(lambda x: x.mean())
    yield "Upsample(scale_factor=2)", [IMAGE], NN.Upsample(scale_factor=2)
    yield "Upsample(size=[20, 21])", [IMAGE], NN.Upsample(size=[20, 21])
    yield 'Upsample(scale_factor=2, mode="bilinear")', [IMAGE], NN.Upsample(scale_factor=2, mode="bilinear")
    yield 'Upsample(size=28, mode="bilinear", align_corners=True)', [IMAGE], NN.Upsample(size=28, mode="bilinear", align_corners=True)
    yield "Upsample(size=28)", [IMAGE], NN.Upsample(size=28)
    yield "Upsample(size=14)", [IMAGE], NN.Upsample(size=14)
    yield "Upsample(scale_factor=1.5)", [IMAGE], NN.Upsample(scale_factor=1.5)
    yield "Embedding(1000, 32)", ["int64", (64, 100)], NN.Embedding(1000, 32)
    yield "Embedding(1000, 32)", ["int64", (4, 10)], NN.Embedding(1000, 32)
    yield "Embedding(1000, 32, padding_idx=0)", ["int64", (4, 10)], NN.Embedding(1000, 32, padding_idx=0)
    for p in ("LayerNorm(14)", "LayerNorm([8, 14, 14])", "LayerNorm(14, bias=False)", "LayerNorm(14, elementwise_affine=False)",
              "RMSNorm(14)", "RMSNorm(14, elementwise_affine=False)", "GroupNorm(4, 8)", "GroupNorm(4, 8, affine=False)",
              "GroupNorm(4, 8, bias=False)",
              "InstanceNorm2d(8)", "InstanceNorm2d(8, affine=True)"):
        yield p, [IMAGE], eval("NN." + p)
    yield "LayerNorm(96)", [(70000, 96)], NN.LayerNorm(96)
    yield "GroupNorm(4, 8)", [(4, 8)], NN.GroupNorm(4, 8)
    yield "Permute(0, 2, 3, 1) > LayerNorm(8)", [IMAGE], NN.Sequential(Functional(lambda x: x.permute(0, 2, 3, 1)), NN.LayerNorm(8))
    yield "Permute(0, 3, 1, 2) > GroupNorm(2, 14)", [IMAGE], NN.Sequential(Functional(lambda x: x.permute(0, 3, 1, 2)), NN.GroupNorm(2, 14))
    for options in ("", ", affine=False", ", bias=False"):
        yield f"Transpose(1, 2) > GroupNorm(2, 14{options})", [IMAGE], NN.Sequential(
            Functional(lambda x: x.transpose(1, 2)), eval(f"NN.GroupNorm(2, 14{options})"))
    yield "NewGELU()", [IMAGE], Functional(
        lambda x: 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0)))))
    yield "MatMul()", [IMAGE, (4, 8, 14, 20)], Functional(torch.matmul)
    yield "MatMul()", [IMAGE, (14, 20)], Functional(torch.matmul)
    yield "MatMul()", [IMAGE, (1, 14, 20)], Functional(torch.matmul)
    yield "Slice(1, 2, -1)", [IMAGE], Functional(lambda x: x.narrow(1, 2, 5))
    yield "Select(1, 0)", [IMAGE], Functional(lambda x: x.select(1, 0))
    yield "Stack(dim=1)", [IMAGE, IMAGE], Functional(lambda *x: torch.stack(x, 1))
    yield "Expand(4, 8, -1)", [(1, 8, 14)], Functional(lambda x: x.expand(4, 8, -1))
    for shape in ((8, 10), (8, 10, 5), (8, 10, 14, 14), (4096, 1000)):
        for call in ("CrossEntropyLoss()", 'CrossEntropyLoss(reduction="sum")', "CrossEntropyLoss(label_smoothing=0.1)", 'CrossEntropyLoss(reduction="sum", label_smoothing=0.1)', "NLLLoss()",
                     'NLLLoss(reduction="sum")', 'NLLLoss(reduction="none")', 'CrossEntropyLoss(reduction="none")',
                     'CrossEntropyLoss(reduction="none", label_smoothing=0.1)'):
            yield call, [shape], Loss(eval("NN." + call), shape, True)
    for shape in (IMAGE, (32, 1), BIG):
        for name in ("MSELoss", "BCEWithLogitsLoss", "L1Loss", "SmoothL1Loss", "HuberLoss"):
            for reduction in ("", 'reduction="sum"', 'reduction="none"'):
                call = f"{name}({reduction})"
                yield call, [shape], Loss(eval("NN." + call), shape, False)
    for call in ("CrossEntropyLoss", "MSELoss"):
        each = eval(f'NN.{call}(reduction="none")')
        yield f'{call}(reduction="none") > Mean()', [(8, 10, 5)], Loss(
            lambda x, target, each=each: each(x, target).mean(), (8, 10, 5), call == "CrossEntropyLoss")
    yield "mean()", [IMAGE], Functional(lambda x: x.mean())
    functions = {
        "Exp()": torch.exp, "Log()": torch.log, "Sqrt()": torch.sqrt, "Abs()": torch.abs, "Neg()": torch.neg,
        "Reciprocal()": torch.reciprocal, "RSub(1)": lambda x: 1 - x, "Sin()": torch.sin, "Cos()": torch.cos, "Erf()": torch.erf, "LogSigmoid()": NN.functional.logsigmoid,
        "Softsign()": NN.functional.softsign,
        "Sigmoid(inplace=True)": torch.sigmoid_, "Tanh(inplace=True)": torch.tanh_,
        "Softplus()": NN.functional.softplus, "Mish()": NN.functional.mish, "Clamp(max=4.6)": lambda x: x.clamp(max=4.6),
        "Clamp(min=0.1)": lambda x: x.clamp(min=0.1), "Clamp(min=0, max=1)": lambda x: x.clamp(0, 1),
        "Normalize(dim=-1)": lambda x: NN.functional.normalize(x, dim=-1),
        "VectorNorm(dim=[2, 3], keepdim=True)": lambda x: x.norm(dim=(2, 3), keepdim=True),
        "VectorNorm(1)": lambda x: torch.linalg.vector_norm(x, dim=1), "VectorNorm()": torch.linalg.vector_norm,
        "Normalize()": lambda x: NN.functional.normalize(x), "Clone()": torch.clone, "To(float16)": lambda x: x.half(),
        "Slice(2, 0, 14, 2)": lambda x: x[:, :, ::2], "Slice(3, 1, 14, 3)": lambda x: x[..., 1::3],
    }
    for call, f in functions.items():
        yield call, [IMAGE], Functional(f)
    yield "Exp()", [BIG], Functional(torch.exp)
    yield "Normalize(dim=-1)", [BIG], Functional(lambda x: NN.functional.normalize(x, dim=-1))
    for shapes in ([IMAGE, IMAGE], [IMAGE, (8, 1, 1)], [(8, 1, 1), IMAGE]):
        yield "Maximum()", shapes, Functional(torch.maximum)
        yield "Minimum()", shapes, Functional(torch.minimum)
    for shapes in ([IMAGE, IMAGE], [IMAGE, (8, 1, 1)]):
        yield "ClampTensor()", shapes, Functional(lambda x, low: x.clamp(min=low))
        yield 'ClampTensor(bound="max")', shapes, Functional(lambda x, high: x.clamp(max=high))
    yield "Conv2d(8, 16, 3)", [IMAGE, (16, 8, 3, 3)], Functional(NN.functional.conv2d)
    yield "Conv2d(8, 16, 3, padding=1)", [IMAGE, (16, 8, 3, 3), (16,)], Functional(lambda x, w, b: NN.functional.conv2d(x, w, b, padding=1))


    for cell in ("LSTMCell", "GRUCell", "RNNCell"):
        for options in ("48, 80", "48, 80, bias=False"):
            states = [(32, 80)] * (2 if cell == "LSTMCell" else 1)
            yield f"{cell}({options})", [(32, 48), *states], Cell(eval(f"NN.{cell}({options})"))
            yield f"{cell}({options})", [(32, 48)], Cell(eval(f"NN.{cell}({options})"))
    yield 'RNNCell(48, 80, nonlinearity="relu")', [(32, 48)], NN.RNNCell(48, 80, nonlinearity="relu")
    for mode in ("sum", "mean", "max"):
        yield f'EmbeddingBag(1000, 64, mode="{mode}")', ["int64", (32, 20)], NN.EmbeddingBag(1000, 64, mode=mode)
    yield "EmbeddingBag(1000, 64)", ["int64", (64, 100)], NN.EmbeddingBag(1000, 64)
    for shapes, dim in (([(80, 48), (80, 1)], 0), ([(80, 48), (1, 48)], 1), ([(80, 48, 3, 3), (80, 1, 1, 1)], 0)):
        yield f"WeightNorm({dim or ''})", shapes, Functional(lambda v, g, d=dim: torch._weight_norm(v, g, d))
    yield "Triu(1)", [IMAGE], Functional(lambda x: x.triu(1))
    yield "Tril()", [IMAGE], Functional(torch.tril)
    yield "LayerNorm(14)", [IMAGE, (14,), (14,)], Functional(lambda x, w, b: NN.functional.layer_norm(x, (14,), w, b))
    yield "RMSNorm(14)", [IMAGE, (14,)], Functional(lambda x, w: NN.functional.rms_norm(x, (14,), w))
    yield "GroupNorm(4, 8)", [IMAGE, (8,)], Functional(lambda x, w: NN.functional.group_norm(x, 4, w))
    yield "GroupNorm(4, 8)", [IMAGE, (8,), (8,)], Functional(lambda x, w, b: NN.functional.group_norm(x, 4, w, b))


def trace(fn):
    """What fn returns, and its allocations."""
    torch.cuda.memory._record_memory_history(context=None)
    kept = fn()
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    sign = {"alloc": 1, "free_requested": -1}
    return kept, [sign[e["action"]] * e["size"] for e in events if e["action"] in sign]


def make_inputs(shapes, train, in_place):
    """Leaves; for layers that write into their input copies of them, whose gradient is handed on to the leaf."""
    if shapes[0] == "int64":
        return [torch.zeros(shapes[1], dtype=torch.int64, device="cuda")]
    leaves = [torch.zeros(s, device="cuda").requires_grad_(train) for s in shapes]
    return [leaf.clone() for leaf in leaves] if in_place else leaves


def saved_bytes(module, shapes, in_place):
    saved = {}

    def pack(t):
        storage = t.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes() if t.is_cuda else 0  # numbers stay on the host
        return t

    inputs = make_inputs(shapes, True, in_place)
    not_counted = {p.untyped_storage().data_ptr() for p in module.parameters()}
    if isinstance(module, Loss):
        not_counted.add(module.target.untyped_storage().data_ptr())
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        kept = module(*inputs)
    del kept
    return sum(b for p, b in saved.items() if p not in not_counted)


def run(module, shapes, train, in_place):
    """(forward events, backward events, saved bytes)"""
    module = module.to("cuda").train(train)
    module.zero_grad(set_to_none=True)
    if isinstance(module, Loss):
        module.target = module.target.to("cuda")
    inputs = make_inputs(shapes, train, in_place)
    gc.collect()
    with torch.set_grad_enabled(train):
        out, forward = trace(lambda: module(*inputs))
        if not train:
            return forward, [], 0
        first = out[0] if isinstance(out, (tuple, list)) else out
        gradient = torch.ones_like(first, memory_format=torch.contiguous_format)
        _, backward = trace(lambda: first.backward(gradient))
        return forward, backward, saved_bytes(module, shapes, in_place)


def main():
    gc.disable()  # a collection would free what an earlier case left, in the middle of a trace
    print("call\tinput shapes\tmode\tforward\tbackward\tsaved bytes")
    for call, shapes, module in cases():
        for train in (True,) if isinstance(module, Loss) else (True, False):  # inference has no loss
            in_place = "inplace" in call
            run(module, shapes, train, in_place)  # cuDNN, cuBLAS and the kernels have what they keep
            forward, backward, saved = run(module, shapes, train, in_place)
            written = ";".join("x".join(map(str, s)) for s in shapes if s != "int64")
            print(call, written, "train" if train else "infer", memory_trace.text(forward), memory_trace.text(backward),
                  saved, sep="\t")


if __name__ == "__main__":
    main()

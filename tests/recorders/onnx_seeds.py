"""Small ONNX files, one for each family of operators that the importer knows: seeds of tests/fuzz/fuzz_onnx.cpp.

  python3 tests/recorders/onnx_seeds.py tests/fuzz/corpus/onnx     writes a file of less than 1 KiB for each name in SEEDS

A seed is a list of nodes, written as the calls that they are: `y = Op(x, w, key=value)`. Weights have no data, only sizes;
numbers that sizes follow from are written out. Each of the files imports without an error, which the replay of the corpus
does not ask for: `for f in tests/fuzz/corpus/onnx/*.onnx; do gpuplan import $f; done`. Needs onnx.
"""
import re
import sys
from pathlib import Path

import onnx
from onnx import TensorProto, helper

IMAGE = [4, 8, 8]
# By name: the input's sizes without the batch, weights, integers, and the nodes. "y" is the result.
SEEDS = {
    "conv": (IMAGE, {"c.weight": [6, 2, 3, 3], "c.bias": [6]}, {}, """
        a = Conv(x, c.weight, c.bias, group=2, strides=[2, 2], pads=[1, 1, 1, 1], dilations=[1, 1])
        y = Relu(a)"""),
    "conv_same": (IMAGE, {"c.weight": [6, 4, 3, 3]}, {}, """
        y = Conv(x, c.weight, auto_pad='SAME_UPPER', strides=[2, 2])"""),
    "conv_1d": ([4, 16], {"c.weight": [6, 4, 3]}, {}, """
        y = Conv(x, c.weight, pads=[2, 0])"""),
    "conv_transpose": (IMAGE, {"u.weight": [4, 3, 2, 2]}, {}, """
        y = ConvTranspose(x, u.weight, strides=[2, 2], output_padding=[1, 1])"""),
    "max_pool": (IMAGE, {}, {}, """
        y = MaxPool(x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)"""),
    "average_pool": (IMAGE, {}, {}, """
        a = AveragePool(x, kernel_shape=[2, 2], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1)
        b = GlobalAveragePool(a)
        c = GlobalMaxPool(a)
        y = Add(b, c)"""),
    "pool_1d": ([4, 16], {}, {}, """
        y = MaxPool(x, kernel_shape=[2], strides=[2])"""),
    "gemm": ([8], {"fc.weight": [4, 8], "fc.bias": [4]}, {}, """
        y = Gemm(x, fc.weight, fc.bias, transB=1)"""),
    "linear": ([3, 8], {"onnx::MatMul_5": [8, 4], "fc.bias": [4]}, {}, """
        a = MatMul(x, onnx::MatMul_5)
        y = Add(fc.bias, a)"""),
    "einsum": ([3, 8], {"w": [8, 5]}, {}, """
        a = Einsum(x, w, equation='bti,io->bto')
        y = Einsum(a, a, equation='bto,bso->bts')"""),
    "embedding": ([5], {"e.weight": [10, 8], "onnx::MatMul_9": [8, 10]}, {}, """
        b = Gather(e.weight, x)
        y = MatMul(b, onnx::MatMul_9)""", 7),
    "batch_norm": (IMAGE, {"n.weight": [4], "n.bias": [4], "n.mean": [4], "n.var": [4]}, {}, """
        y = BatchNormalization(x, n.weight, n.bias, n.mean, n.var, epsilon=0.001)"""),
    "layer_norm": ([3, 8], {"n.weight": [8], "n.bias": [8]}, {}, """
        y = LayerNormalization(x, n.weight, n.bias, axis=-1)"""),
    "instance_norm": (IMAGE, {"n.weight": [4], "n.bias": [4]}, {}, """
        y = InstanceNormalization(x, n.weight, n.bias)"""),
    "group_norm": (IMAGE, {"g.weight": [2], "g.bias": [2], "n.weight": [4, 1, 1], "n.bias": [4, 1, 1]},
                   {"groups": [0, 2, -1], "whole": [-1, 4, 8, 8]}, """
        a = Reshape(x, groups)
        b = InstanceNormalization(a, g.weight, g.bias)
        c = Reshape(b, whole)
        d = Mul(c, n.weight)
        y = Add(d, n.bias)"""),
    "rms_norm": ([3, 8], {"n.weight": [8]}, {"last": [-1]}, """
        two = Constant(value_float=2.0)
        eps = Constant(value_float=0.000001)
        a = Pow(x, two)
        b = ReduceMean(a, axes=[-1])
        c = Add(b, eps)
        d = Sqrt(c)
        e = Div(x, d)
        y = Mul(n.weight, e)"""),
    "response_norm": (IMAGE, {}, {}, """
        y = LRN(x, size=3, alpha=0.0001, beta=0.75, bias=1.0)"""),
    "lstm": ([3, 8], {"W": [2, 16, 8], "R": [2, 16, 4], "B": [2, 32]}, {"flat": [0, 0, -1]}, """
        a = Transpose(x, perm=[1, 0, 2])
        b, h, c = LSTM(a, W, R, B, hidden_size=4, direction='bidirectional')
        d = Transpose(b, perm=[0, 2, 1, 3])
        e = Reshape(d, flat)
        y = Transpose(e, perm=[1, 0, 2])"""),
    "rnn": ([3, 8], {"W": [1, 4, 8], "R": [1, 4, 4]}, {"one": [1]}, """
        a = Transpose(x, perm=[1, 0, 2])
        b, h = RNN(a, W, R, hidden_size=4, activations=['Relu'])
        y = Squeeze(b, one)"""),
    "activations": ([8], {"p.weight": [8]}, {}, """
        a = LeakyRelu(x, alpha=0.2)
        b = Elu(a)
        c = HardSigmoid(b, alpha=0.16666667)
        d = HardSwish(c)
        e = PRelu(d, p.weight)
        f = Mish(e)
        g = Softplus(f)
        y = LogSoftmax(g, axis=1)"""),
    "gelu": ([8], {}, {}, """
        root = Constant(value_float=1.41421356)
        whole = Constant(value_float=1.0)
        half = Constant(value_float=0.5)
        a = Div(x, root)
        b = Erf(a)
        c = Add(b, whole)
        d = Mul(x, c)
        y = Mul(d, half)"""),
    "gate": ([8], {}, {}, """
        a = Sigmoid(x)
        b = Mul(x, a)
        low = Constant(value_float=0.0)
        high = Constant(value_float=6.0)
        c = Clip(b, low, high)
        y = Dropout(c)"""),
    "attention": ([2, 4, 8], {}, {}, """
        s = Constant(value_float=0.59)
        a = Mul(x, s)
        b = Transpose(x, perm=[0, 1, 3, 2])
        c = Mul(b, s)
        d = MatMul(a, c)
        e = Softmax(d, axis=-1)
        y = MatMul(e, x)"""),
    "arithmetic": ([8], {}, {}, """
        two = Constant(value_float=2.0)
        a = Sub(two, x)
        b = Div(two, a)
        c = Pow(b, two)
        d = Neg(c)
        e = Abs(d)
        f = Exp(e)
        g = Max(f, x)
        h = Min(g, two)
        i = Sum(h, x, a)
        y = Mean(i, x)"""),
    "comparisons": ([8], {}, {}, """
        low = Constant(value_float=0.0)
        a = Less(x, low)
        b = Equal(x, low)
        c = Not(b)
        d = Or(a, c)
        e = GreaterOrEqual(x, low)
        f = And(d, e)
        g = Xor(f, a)
        y = Where(g, low, x)"""),
    "integers": ([8], {"e.weight": [10, 4]}, {"three": 3}, """
        a = Mod(x, three)
        b = Div(a, three)
        c = CumSum(b, at)
        y = Gather(e.weight, c)""", 7),
    "casts": ([8], {}, {}, """
        a = Cast(x, to=10)
        b = Cast(a, to=7)
        y = CastLike(b, x)"""),
    "reductions": (IMAGE, {}, {"last": [3]}, """
        a = ReduceMean(x, axes=[2], keepdims=0)
        b = ReduceMax(a, axes=[1])
        c = ReduceSum(x, last)
        d = ReduceMin(c, axes=[1, 2, 3], keepdims=0)
        e = ReduceL2(b, axes=[1, 2], keepdims=0)
        y = Add(d, e)"""),
    "largest": ([8, 6], {}, {"k": [2]}, """
        v, i = TopK(x, k, axis=-1)
        m = ReduceMax(x, axes=[1], keepdims=0)
        j = ArgMax(x, axis=1, keepdims=0)
        n = ArgMin(x, axis=1, keepdims=0)
        f = Add(j, n)
        g = Cast(f, to=1)
        h = Add(m, g)
        l = ReduceMean(h, axes=[1])
        o = Unsqueeze(l, one)
        y = Add(v, o)"""),
    "views": (IMAGE, {}, {"axis": [1], "flat": [0, -1], "whole": [-1, 1, 16, 16]}, """
        a = Unsqueeze(x, axis)
        b = Squeeze(a, axis)
        c = Transpose(b, perm=[0, 2, 3, 1])
        d = Reshape(c, whole)
        y = Flatten(d, axis=1)"""),
    "sizes": ([4, 6], {}, {"one": [1], "rest": [-1], "axis": [0]}, """
        a = Shape(x)
        b = Gather(a, one)
        c = ConstantOfShape(one)
        d = Slice(a, axis, one)
        e = Concat(d, rest, axis=0)
        f = Size(b)
        y = Reshape(x, e)"""),
    "ranges": ([4], {}, {"flat": [1, 4], "one": [1, 1]}, """
        from = Constant(value_int=0)
        to = Constant(value_int=4)
        step = Constant(value_int=1)
        a = Range(from, to, step)
        b = Expand(a, flat)
        c = Tile(b, one)
        d = NonZero(c)
        e = Cast(c, to=1)
        y = Mul(x, e)"""),
    "joins": ([4, 6], {"t": [1, 1, 6]}, {"sizes": [2, 2]}, """
        a, b = Split(x, sizes, axis=1)
        c = Concat(b, a, axis=1)
        y = Add(c, t)"""),
    "cuts": ([4, 6], {}, {"starts": [-1, 1], "ends": [-9, 5], "axes": [1, 2], "steps": [-1, 2]}, """
        y = Slice(x, starts, ends, axes, steps)"""),
    "class_token": ([4, 6], {"cls_token": [1, 1, 6]}, {"end": [1]}, """
        a = Shape(x)
        b = Slice(a, axis, end)
        c = Concat(b, end, rest, axis=0)
        d = Expand(cls_token, c)
        y = Concat(d, x, axis=1)"""),
    "look_ups": ([4, 6], {"t.table": [7, 5]}, {"places": [[0, 3], [1, 1]], "rows": [2, 0]}, """
        a = Gather(x, rows, axis=1)
        b = GatherND(t.table, places)
        c = Gather(t.table, rows)
        d = ReduceSum(c)
        e = ReduceSum(b)
        f = Add(a, d)
        y = Add(f, e)"""),
    "one_hot": ([4], {}, {"depth": [10], "values": [0, 1]}, """
        a = OneHot(x, depth, values, axis=-1)
        y = Cast(a, to=1)""", 7),
    "paddings": (IMAGE, {}, {"pads": [0, 0, 1, 1, 0, 0, 1, 2]}, """
        a = Pad(x, pads, mode='reflect')
        y = Pad(a, pads)"""),
    "resize": (IMAGE, {}, {"side": [16, 16]}, """
        s = Shape(x, end=2)
        t = Concat(s, side, axis=0)
        a = Resize(x, , , t, mode='linear', coordinate_transformation_mode='half_pixel')
        b = Resize(a, , scales, mode='nearest')
        c = DepthToSpace(b, blocksize=2, mode='CRD')
        y = SpaceToDepth(c, blocksize=2)"""),
    "noise": ([8], {}, {}, """
        p = Constant(value_float=0.9)
        a = RandomUniformLike(x)
        b = Less(a, p)
        c = Cast(b, to=1)
        d = Div(c, p)
        y = Mul(x, d)"""),
    "quantized": ([8], {}, {}, """
        scale = Constant(value_float=0.1)
        q = QuantizeLinear(x, scale)
        d = DequantizeLinear(q, scale)
        y = Relu(d)"""),
    "fused_products": ([3, 8], {"w": [8, 8], "b": [8], "n.weight": [8], "n.bias": [8]}, {}, """
        a = com.microsoft.FusedMatMul(x, w, alpha=0.5, transB=1)
        c = com.microsoft.BiasGelu(a, b)
        d = com.microsoft.QuickGelu(c)
        y = com.microsoft.SkipLayerNormalization(d, x, n.weight, n.bias)"""),
    "fused_attention": ([3, 8], {"w": [8, 24], "b": [24]}, {}, """
        a = com.microsoft.Attention(x, w, b, num_heads=2, unidirectional=1)
        y = com.microsoft.MultiHeadAttention(a, a, x, num_heads=4)"""),
    "fused_conv": (IMAGE, {"c.weight": [4, 4, 1, 1], "c.bias": [4]}, {}, """
        y = com.microsoft.FusedConv(x, c.weight, c.bias, x, activation='Relu')"""),
}
COMMON = {"zero": 0, "at": 1, "one": [1], "rest": [6], "axis": [0]}


def node(line):
    results, operator, arguments = re.fullmatch(r"\s*(.+?) = ([\w.]+)\((.*)\)", line).groups()
    domain, _, name = operator.rpartition(".")
    parts = re.split(r", (?![^\[]*\])(?=\w+=)", arguments)
    inputs = [] if "=" in parts[0] else [i.strip() for i in parts.pop(0).split(",")]
    keys = {k: eval(v) for k, _, v in (p.partition("=") for p in parts if p)}  # of this file
    outputs = [r.strip() for r in results.split(",")]
    return helper.make_node(name, inputs, outputs, domain=domain, **keys)


def integers(name, numbers):
    shape = []
    flat = numbers if isinstance(numbers, list) else [numbers]
    if isinstance(numbers, list):
        shape = [len(numbers)]
        if numbers and isinstance(numbers[0], list):
            shape.append(len(numbers[0]))
            flat = [n for row in numbers for n in row]
    return helper.make_tensor(name, TensorProto.INT64, shape, flat)


def seed(name):
    sizes, weights, numbers, calls, *rest = SEEDS[name]
    kind = rest[0] if rest else TensorProto.FLOAT
    nodes = [node(line) for line in calls.strip().splitlines()]
    read = {i for n in nodes for i in n.input}
    initializers = [integers(k, v) for k, v in {**COMMON, **numbers}.items() if k in read]
    for weight, dims in weights.items():
        initializers.append(TensorProto(name=weight, dims=dims, data_type=TensorProto.FLOAT))
    if "scales" in read:
        initializers.append(helper.make_tensor("scales", TensorProto.FLOAT, [4], [1, 1, 2, 2]))
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info("x", kind, ["batch", *sizes])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], initializers)
    # Axes of a mean are an attribute before 18.
    domains = {"": 17, **{n.domain: 1 for n in nodes if n.domain}}
    opsets = [helper.make_opsetid(d, v) for d, v in domains.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


if __name__ == "__main__":
    for name in SEEDS:
        data = seed(name)
        assert len(data) < 1024, name
        (Path(sys.argv[1]) / f"{name}.onnx").write_bytes(data)

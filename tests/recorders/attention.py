"""Records scaled_dot_product_attention: python attention.py [STEP] > ../shadow/attention.GPU.torchVERSION.tsv

STEP: every how many-th call of the grid (1).

Columns: memory layout of q, k, v (which dimension is outermost; "packed" is a slice of one [batch, length, 3, heads, size] tensor, "mixed" has
q as blhd, k and v as bhld); batch, heads, key heads, queries, keys, head size, value head size; dtype; dropout; causal; mask as shape.kind
(kind bool, float, or grad: a float that requires one; an x after the shape: expanded from the one with 1 in its place); whether q, k, v require
gradients; layout of the output's gradient; the backend asked for ("auto": none); then the backend that ran, strides of the output, strides of the
gradients, allocations and frees of the forward call and of the backward pass.
"""
import contextlib
import gc
import itertools
import sys
import warnings

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import memory_trace

DTYPES = {"fp32": torch.float32, "fp64": torch.float64, "fp16": torch.float16, "bf16": torch.bfloat16}
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
            "math": SDPBackend.MATH}
NODES = {"Flash": "flash", "Efficient": "efficient", "Cudnn": "cudnn"}
COLUMNS = ("layout batch heads kv_heads queries keys size value_size dtype dropout causal mask grad grad_out force").split()
DEFAULTS = dict(layout="blhd", batch=2, heads=4, kv_heads=0, queries=128, keys=0, size=64, value_size=0, dtype="bf16", dropout=0.0, causal=0,
                mask="-", grad=1, grad_out="blhd", force="auto")


def row(**call):
    r = {**DEFAULTS, **call}
    r["kv_heads"] = r["kv_heads"] or r["heads"]
    r["keys"] = r["keys"] or r["queries"]
    r["value_size"] = r["value_size"] or r["size"]
    return tuple(r[c] for c in COLUMNS)


def rows():
    half, other = ("bf16", "fp16") if torch.cuda.get_device_capability() >= (8, 0) else ("fp16", "bf16")
    every = ("fp32", half)
    for dtype, d, grad, mask in itertools.product((other, "fp64"), (63, 64, 128, 160), (1, 0), ("-", "b1ls.bool")):
        yield row(dtype=dtype, size=d, grad=grad, mask=mask, queries=100)
    # Layouts of inputs and of the gradient.
    for dtype, layout, grad_out, p in itertools.product(every, ("bhld", "blhd", "lbhd", "packed", "mixed"), ("bhld", "blhd", "lbhd", "expanded"), (0.0, 0.1)):
        yield row(dtype=dtype, layout=layout, grad_out=grad_out, dropout=p, queries=100)
    # Head sizes, sequence lengths, dropout.
    for dtype, d, n, p in itertools.product(every, (4, 8, 16, 32, 40, 48, 63, 64, 72, 80, 96, 100, 112, 128, 144, 160, 192, 224, 256), (64, 197), (0.0, 0.1)):
        yield row(dtype=dtype, size=d, queries=n, dropout=p)
    for dtype, d, n, p in itertools.product(every, (288, 320, 512), (64, 197), (0.0, 0.1)):
        yield row(dtype=dtype, size=d, queries=n, dropout=p)
    for dtype, d in itertools.product((half,), (32, 63, 96, 112, 128, 160, 192, 224, 256)):
        yield row(dtype=dtype, size=d, queries=197, grad=0)
        yield row(dtype=dtype, size=d, queries=197, grad=0, dropout=0.1)
    # Sizes of models.
    for dtype, (b, h, n, d), p, causal in itertools.product(every, ((1, 12, 1024, 64), (8, 12, 197, 64), (32, 12, 197, 64), (4, 32, 2048, 128), (1, 16, 4096, 80), (8, 16, 577, 88), (1, 1, 17, 64),
                                                                   (1, 8, 8192, 128), (1, 2, 8192, 64), (3, 5, 333, 256), (200, 3, 49, 32), (1, 1, 1, 64), (64, 16, 1, 64)), (0.0, 0.1), (0, 1)):
        if not (causal and n == 197):
            yield row(dtype=dtype, batch=b, heads=h, queries=n, size=d, dropout=p, causal=causal)
    for dtype, (b, h, n, d) in itertools.product(every, ((1, 12, 1024, 64), (1, 8, 8192, 128), (8, 12, 197, 64), (1, 1, 17, 64))):
        yield row(dtype=dtype, batch=b, heads=h, queries=n, size=d, grad=0)
    # Cross attention; lengths of one; value heads of another size.
    for dtype, (n, s), p, causal, grad in itertools.product(every, ((100, 77), (77, 100), (1, 77), (77, 1), (1, 1), (4096, 77), (128, 4097)), (0.0, 0.1), (0, 1), (1, 0)):
        if p == 0.0 or grad:
            yield row(dtype=dtype, queries=n, keys=s, dropout=p, causal=causal, grad=grad)
    for dtype, (d, dv), p in itertools.product(every, ((64, 32), (32, 64), (192, 128), (128, 192), (64, 40), (40, 160)), (0.0, 0.1)):
        yield row(dtype=dtype, size=d, value_size=dv, dropout=p)
    # Grouped queries.
    for dtype, (h, hk), layout, p, grad in itertools.product(every, ((8, 2), (8, 1), (32, 4), (6, 3)), ("bhld", "blhd", "mixed"), (0.0, 0.1), (1, 0)):
        if layout == "blhd" or (dtype == half and (h, hk) == (8, 2)):
            yield row(dtype=dtype, heads=h, kv_heads=hk, layout=layout, dropout=p, grad=grad, causal=1)
    for dtype in every:
        yield row(dtype=dtype, heads=32, kv_heads=4, queries=2048, batch=2, causal=1)
        yield row(dtype=dtype, heads=8, kv_heads=2, queries=1, keys=77, grad=0)
        yield row(dtype=dtype, heads=8, kv_heads=2, queries=1, keys=77)
        yield row(dtype=dtype, heads=8, kv_heads=2, queries=1, keys=1000, grad=0)
        yield row(dtype=dtype, heads=8, kv_heads=2, size=20, grad=1)
        yield row(dtype=dtype, heads=8, kv_heads=2, mask="b1ls.bool")
        yield row(dtype=dtype, heads=8, kv_heads=2, mask="b1ls.grad")
        yield row(dtype=dtype, heads=8, kv_heads=2, mask="bhls.float", queries=100)
    # Masks.
    for dtype, (n, s), shape, kind, grad in itertools.product(every, ((128, 128), (128, 100), (128, 104), (100, 1), (1, 77)), ("ls", "11ls", "b11s", "b1ls", "b1lsx", "bhls", "bhlsx"), ("bool", "float", "grad"), (1, 0)):
        if (grad or (s == 100 and kind == "bool")) and not ("x" in shape and kind == "grad"):
            yield row(dtype=dtype, queries=n, keys=s, mask=shape + "." + kind, grad=grad)
    for dtype, mask in itertools.product(every, ("b1ls.bool", "bhls.grad", "11ls.grad")):
        yield row(dtype=dtype, queries=100, mask=mask, dropout=0.1)
        yield row(dtype=dtype, queries=100, mask=mask, size=160)
        yield row(dtype=dtype, queries=100, mask=mask, size=63)
        yield row(dtype=dtype, queries=100, mask=mask, layout="bhld")
        yield row(dtype=dtype, queries=100, mask=mask, grad_out="bhld")
        yield row(dtype=dtype, queries=100, mask=mask, grad=0)
    # A backend by name.
    for force, dtype, d, p, causal in itertools.product(BACKENDS, every, (64, 63, 128, 160), (0.0, 0.1), (0, 1)):
        yield row(force=force, dtype=dtype, size=d, dropout=p, causal=causal, queries=100)
        if p == 0.0:
            yield row(force=force, dtype=dtype, size=d, causal=causal, queries=100, grad=0)
    for force, layout, grad_out in itertools.product(BACKENDS, ("bhld", "blhd", "lbhd", "packed"), ("bhld", "blhd", "expanded")):
        if force != "flash":
            yield row(force=force, dtype=half, layout=layout, grad_out=grad_out, queries=100)
    for force, dtype, mask, grad in itertools.product(BACKENDS, every, ("b1ls.bool", "b1ls.float", "11ls.grad", "ls.bool"), (1, 0)):
        yield row(force=force, dtype=dtype, mask=mask, grad=grad, queries=100, keys=77)
    for force, dtype, grad in itertools.product(BACKENDS, every, (1, 0)):
        yield row(force=force, dtype=dtype, heads=8, kv_heads=2, grad=grad)
        yield row(force=force, dtype=dtype, size=64, value_size=32, grad=grad)
        yield row(force=force, dtype=dtype, queries=77, keys=1, grad=grad)
        yield row(force=force, dtype=dtype, queries=1, keys=77, grad=grad)
    for p in (0.0625, 0.5):
        yield row(dtype=half, dropout=p)
        yield row(dtype=half, dropout=p, force="cudnn")
    for dtype in every:
        yield row(dtype=dtype, batch=1, heads=1, queries=1, size=64, force="math")
        yield row(dtype=dtype, batch=2, heads=12, queries=197, size=64, force="math", layout="lbhd", grad_out="lbhd")
    for d, dv, grad in itertools.product((192, 256), (128, 256), (1, 0)):
        yield row(dtype=half, size=d, value_size=dv, grad=grad, force="cudnn")


def tensor(layout, b, h, n, d, dtype, grad):
    sizes = dict(b=b, h=h, l=n, d=d)
    t = torch.empty([sizes[c] for c in layout], dtype=dtype, device="cuda", requires_grad=grad)
    return t.permute([layout.index(c) for c in "bhld"])


def inputs(r):
    b, h, hk, n, s, d, dv, dtype, grad = r["batch"], r["heads"], r["kv_heads"], r["queries"], r["keys"], r["size"], r["value_size"], DTYPES[r["dtype"]], bool(r["grad"])
    if r["layout"] == "packed":
        packed = torch.empty(b, n, 3, h, d, dtype=dtype, device="cuda", requires_grad=grad)
        return [packed[:, :, i].transpose(1, 2) for i in range(3)]
    kv = "bhld" if r["layout"] == "mixed" else r["layout"]
    return [tensor("blhd" if r["layout"] == "mixed" else kv, b, h, n, d, dtype, grad), tensor(kv, b, hk, s, d, dtype, grad), tensor(kv, b, hk, s, dv, dtype, grad)]


def attention_mask(r):
    if r["mask"] == "-":
        return None
    shape, kind = r["mask"].split(".")
    full = {"b": r["batch"], "h": r["heads"], "l": r["queries"], "s": r["keys"], "1": 1}
    made = {"b1lsx": "b11s", "bhlsx": "b1ls"}.get(shape, shape)
    mask = torch.empty([full[c] for c in made], dtype=torch.bool if kind == "bool" else DTYPES[r["dtype"]], device="cuda", requires_grad=kind == "grad")
    return mask.expand([full[c] for c in shape[:-1]]) if made != shape else mask


def events(fn):
    """What fn allocates and frees; the autograd thread may still be dropping the results of an earlier run when the recording starts."""
    found = memory_trace.allocations(fn)
    return memory_trace.text(found[next((i for i, e in enumerate(found) if e > 0), len(found)):])


def strides(t):
    return ",".join(map(str, t.stride()))


def backend(out, args, kwargs):
    if out.grad_fn is None:
        return SDPBackend(torch._fused_sdp_choice(*args, **kwargs)).name.split("_")[0].lower()
    node, depth = out.grad_fn, 0
    while node is not None and depth < 3:
        for word, name in NODES.items():
            if word + "Attention" in type(node).__name__:
                return name
        node, depth = node.next_functions[0][0], depth + 1
    return "math"


def record(r):
    q, k, v = inputs(r)
    mask = attention_mask(r)
    kwargs = dict(is_causal=bool(r["causal"]), enable_gqa=r["heads"] != r["kv_heads"])
    call = lambda: F.scaled_dot_product_attention(q, k, v, mask, r["dropout"], **kwargs)
    with sdpa_kernel(BACKENDS[r["force"]]) if r["force"] != "auto" else contextlib.nullcontext():
        try:
            out = call()
        except RuntimeError:
            return "none", "-", "-", "-", "-"
        name = backend(out, (q, k, v, mask, r["dropout"]), kwargs)
        forward = events(call)
        if out.grad_fn is None:
            return name, strides(out), "-", forward, "-"
        wanted = [t for t in (q, k, v, mask) if t is not None and t.requires_grad]
        if r["grad_out"] == "expanded":
            gradient = torch.empty((), dtype=out.dtype, device="cuda").expand(out.shape)
        else:
            gradient = tensor(r["grad_out"], *out.shape, out.dtype, False)
        back = lambda: torch.autograd.grad(out, wanted, gradient, retain_graph=True)
        try:
            backward = events(back)
        except RuntimeError:  # of cuDNN, which refuses here what it took forward
            torch.cuda.memory._record_memory_history(enabled=None)
            return "none", "-", "-", "-", "-"
        return name, strides(out), ";".join(map(strides, back())), forward, backward


def main():
    warnings.filterwarnings("ignore")
    gc.disable()
    print(*COLUMNS, "backend", "out", "gradients", "forward", "backward", sep="\t")
    for call in list(dict.fromkeys(rows()))[::int(sys.argv[1]) if len(sys.argv) > 1 else 1]:
        r = dict(zip(COLUMNS, call))
        if r["mask"] != "-" and (r["causal"] or (r["mask"].endswith("grad") and not r["grad"])):
            continue
        print(*call, *record(r), sep="\t")
        gc.collect()


if __name__ == "__main__":
    main()

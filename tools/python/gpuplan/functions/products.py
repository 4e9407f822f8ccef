"""Products of matrices, einsum and attention."""
from __future__ import annotations

from typing import Any, Dict, Iterable, List, Tuple

from gpuplan.errors import Unsupported
from gpuplan.functions.arguments import inferred_shape
from gpuplan.writer import Writer, handles
from gpuplan.values import Batch, Value, flat_values


@handles("matmul", "__matmul__", "bmm", "mm")
def write_matmul(w: Writer) -> None:
    w.emit("MatMul", [], [w.x, w.argument(1, "other", w.kwargs.get("mat2"))])


@handles("grouped_mm", "_grouped_mm")
def write_grouped_mm(w: Writer) -> None:
    ends = w.argument(2, "offs")
    if len(w.x.shape) != 2 or not isinstance(ends, Value):
        raise Unsupported("of groups of another kind")
    w.emit("GroupedMM", [], [w.x, w.argument(1, "mat_b", w.kwargs.get("mat2")), ends])


@handles("baddbmm")
def write_baddbmm(w: Writer) -> None:
    """Attention's scores on a mask: the product's result holds the mask before."""
    mask = w.x
    if w.lowering.has_gradient(mask) or w.kwargs.get("beta", 1) != 1 or w.kwargs.get("alpha", 1) != 1:
        raise Unsupported("of a tensor with a gradient, or with factors")
    w.emit("MatMul", [], [w.argument(1, "batch1"), w.argument(2, "batch2")])


@handles("scaled_dot_product_attention")
def write_attention(w: Writer) -> None:
    arguments: List[Tuple[str, Any]] = []
    p, causal, gqa = w.argument(4, "dropout_p", 0.0), w.argument(5, "is_causal", False), w.kwargs.get("enable_gqa", False)
    arguments += [("dropout_p", p)] if p else []
    arguments += [("is_causal", True)] if causal else []
    arguments += [("enable_gqa", True)] if gqa else []
    mask = w.argument(3, "attn_mask")
    w.emit("ScaledDotProductAttention", arguments,
           [w.x if w.x is not None else w.kwargs["query"], w.argument(1, "key"), w.argument(2, "value")] + ([mask] if mask else []))


@handles("einsum")
def write_einsum(w: Writer) -> None:
    """As torch runs it (aten/src/ATen/native/Linear.cpp, sumproduct_pair): one batched product of reshaped operands."""
    equation, operands = str(w.argument(0, "equation")).replace(" ", ""), flat_values(w.args[1:])
    given, _, wanted = equation.partition("->")
    letters = given.split(",")
    sizes = {c: n for part, x in zip(letters, operands) for c, n in zip(part, x.shape)}
    if len(operands) == 1 and sorted(letters[0]) == sorted(wanted) and len(sizes) == len(wanted):
        return w.emit("Permute", [("", letters[0].index(c)) for c in wanted], operands, view=True)
    if len(operands) != 2 or "." in equation or not wanted or any(len(set(p)) != len(p) for p in letters + [wanted]):
        raise Unsupported(equation)
    left, right = letters
    if any((c in left) + (c in right) + (c in wanted) < 2 for c in sizes):
        raise Unsupported(equation)
    both = [c for c in wanted if c in left and c in right]
    only_left, only_right = [c for c in wanted if c not in right], [c for c in wanted if c not in left]
    summed = sorted(c for c in left if c not in wanted)  # those of the result come first, the others by letter
    product = w.results()[0]
    # Autocast gives einsum its operands (autocast_mode.h), before any is reshaped.
    cast = [w.inner(list(x.shape), x) for x in operands]
    for k in (0, 1):
        w.emit("AutocastType", [], [operands[k]], [cast[k]], view=True)
    a = einsum_operand(w, cast[0], left, [both, only_left, summed], sizes)
    b = einsum_operand(w, cast[1], right, [both, summed, only_right], sizes)
    order = both + only_left + only_right
    shape = w.inner([sizes[c] for c in order], product)
    matrices = w.inner([times_all(sizes[c] for c in part) for part in (both, only_left, only_right)], product)
    w.emit("MatMul", [], [a, b], [matrices])
    permuted = order != list(wanted)
    w.emit("View", [("", n) for n in inferred_shape([sizes[c] for c in order])], [matrices], [shape if permuted else product], view=True)
    if permuted:
        w.emit("Permute", [("", order.index(c)) for c in wanted], [shape], [product], view=True)


def einsum_operand(w: Writer, x: Value, letters: str, parts: List[List[str]], sizes: Dict[str, Any]) -> Value:
    """The operand as a batch of matrices."""
    order = [c for part in parts for c in part]
    if order != list(letters):
        y = w.inner([sizes[c] for c in order], x)
        w.emit("Permute", [("", letters.index(c)) for c in order], [x], [y], view=True)
        x = y
    y = w.inner([times_all(sizes[c] for c in part) for part in parts], x)
    w.emit("Reshape", [("", n) for n in inferred_shape(y.shape)], [x], [y], view=True)
    return y


def times_all(sizes: Iterable[Any]) -> Any:
    total, batched = 1, False
    for n in sizes:
        batched = batched or isinstance(n, Batch)
        total *= n.times if isinstance(n, Batch) else n
    return Batch(total) if batched else total

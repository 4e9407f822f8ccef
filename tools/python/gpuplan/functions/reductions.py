"""Sums, maxima, norms and places over dimensions."""
from __future__ import annotations

from typing import Any, List, Tuple

from gpuplan.errors import Unsupported
from gpuplan.functions.arguments import number, type_asked
from gpuplan.functions.elementwise import write_larger
from gpuplan.writer import Writer, handles
from gpuplan.values import Value


@handles("mean", "sum")
def write_reduce(w: Writer) -> None:
    dim, keep = w.argument(1, "dim"), w.argument(2, "keepdim", False)
    arguments: List[Tuple[str, Any]] = []
    if isinstance(dim, (int, tuple, list)) and not isinstance(dim, bool):
        arguments.append(("dim", list(dim) if isinstance(dim, (tuple, list)) else dim))
    w.emit("Mean" if w.call.name == "mean" else "Sum", arguments + ([("keepdim", True)] if keep else []) + type_asked(w), [w.x])


@handles("amax", "amin")
def write_extremum(w: Writer) -> None:
    dim, keep = w.argument(1, "dim", ()), w.argument(2, "keepdim", False)
    dims = [("dim", list(dim) if isinstance(dim, (tuple, list)) else dim)] if dim != () else []
    w.emit("AMax" if w.call.name == "amax" else "AMin", dims + ([("keepdim", True)] if keep else []), [w.x])


@handles("max", "min")
def write_max(w: Writer) -> None:
    dim, keep = w.argument(1, "dim"), w.argument(2, "keepdim", False)
    if isinstance(w.argument(1, "other"), Value):
        return write_larger(w)
    if dim is None and not w.lowering.has_gradient(w.x):
        return w.emit("AMax" if w.call.name == "max" else "AMin", [], [w.x]) and None
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise Unsupported("of everything, with a gradient" if dim is None else "of several dimensions")
    if w.call.name == "min":
        raise Unsupported("of a dimension")
    w.emit("Max", [("", dim)] + ([("keepdim", True)] if keep else []), [w.x])


@handles("all", "any", "_is_all_true")
def write_all(w: Writer) -> None:
    dim, keep = w.argument(1, "dim"), w.argument(2, "keepdim", False)
    dims = [("", list(dim) if isinstance(dim, (tuple, list)) else dim)] if dim is not None else []
    w.emit("Any" if w.call.name == "any" else "All", dims + ([("keepdim", True)] if keep else []), [w.x])


@handles("argmax", "argmin")
def write_place(w: Writer) -> None:
    dim, keep = w.argument(1, "dim"), w.argument(2, "keepdim", False)
    w.emit("ArgMax" if w.call.name == "argmax" else "ArgMin",
           ([] if dim is None else [("", dim)]) + ([("keepdim", True)] if keep else []), [w.x])


@handles("topk")
def write_top_k(w: Writer) -> None:
    w.emit("TopK", [("", w.argument(1, "k")), ("dim", w.argument(2, "dim", -1))], [w.x])


@handles("sort", "argsort")
def write_sort(w: Writer) -> None:
    if w.kwargs.get("stable"):
        raise Unsupported("a stable one")
    dim = w.argument(1, "dim", -1)
    results = w.results() if w.call.name == "sort" else [w.inner(w.x.shape), *w.results()]
    w.emit("Sort", [("", dim)] if dim != -1 else [], [w.x], results)


@handles("norm", "linalg_norm", "linalg_vector_norm", "vector_norm")
def write_norm(w: Writer) -> None:
    order = w.argument(1, "ord" if w.call.name != "norm" else "p", 2)
    dim, keep = w.argument(2, "dim"), w.argument(3, "keepdim", False)
    if w.call.name == "linalg_norm":  # of a matrix, where it is told an order and not one dimension
        order = 2 if order is None or order == 2 and isinstance(dim, int) else "of a matrix"
    if order not in (2, "fro") or w.kwargs.get("dtype") is not None:
        raise Unsupported("another norm than 2, or of another type")
    dims = [] if dim is None else [("dim", list(dim) if isinstance(dim, (tuple, list)) else dim)]
    w.emit("VectorNorm", dims + ([("keepdim", True)] if keep else []), [w.x])


@handles("normalize")
def write_normalize(w: Writer) -> None:
    if w.argument(1, "p", 2.0) != 2:
        raise Unsupported("another norm than 2")
    if not number(w.argument(2, "dim", 1)):
        raise Unsupported("over several dimensions")
    w.emit("Normalize", [("dim", w.argument(2, "dim", 1))], [w.x])


@handles("histc")
def write_histc(w: Writer) -> None:
    bins, least, most = w.argument(1, "bins", 100), w.argument(2, "min", 0), w.argument(3, "max", 0)
    if least == most:
        raise Unsupported("between the least and the greatest element")
    w.emit("Histc", [("", bins), ("min", least), ("max", most)], [w.x])


@handles("cumsum")
def write_cumsum(w: Writer) -> None:
    w.emit("Cumsum", [("", w.argument(1, "dim"))] + type_asked(w), [w.x])

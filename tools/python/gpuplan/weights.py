"""The spec's weights: their order in memory, ties, and those that no call reads."""
from __future__ import annotations

from typing import Dict, Iterator, List, Optional

from torch import nn

from gpuplan.complex_numbers import PART, in_pairs
from gpuplan.entries import Body, Entry, all_bodies, relative
from gpuplan.lowering import Lowering
from gpuplan.stored import parts
from gpuplan.values import dtype_name


def construction_order(body: Body, ranks: Dict[str, int]) -> List[str]:
    """The names of the entries with weights by their ranks, where that is not the order of their run. Those that begin with the
    same weight have it tied: what ran first stays first."""
    owned = [(ranks.get(e.path, -1), e.name) for e in body.entries
             if e.name and e.path in ranks and not e.tie and (e.has_weights or (e.body is not None and holds_weights(e.body)))]
    ordered = sorted(owned, key=lambda rank_and_name: rank_and_name[0])
    return [] if owned == ordered else [name for _, name in ordered]


def holds_weights(body: Body) -> bool:
    return any(e.has_weights or (e.body is not None and holds_weights(e.body)) for e in body.entries)


def name_apart(top: Body) -> None:
    """A module that another one's frame calls, as `self.blocks[0].emb(x)`, has the path of its own entry within `blocks.0`: another name."""
    for body in all_bodies(top):
        for entry in body.entries:
            if "." in entry.name and any(has_path(e.body, entry.name[len(e.name) + 1:]) for e in body.entries
                                         if e.body is not None and entry.name.startswith(e.name + ".")):
                entry.name = body.fresh_name(entry.name.replace(".", "_"))


def has_path(body: Optional[Body], path: str) -> bool:
    return body is not None and any(e.name == path or path.startswith(e.name + ".") and has_path(e.body, path[len(e.name) + 1:])
                                    for e in body.entries if e.name)


def name_ties(top: Body) -> None:
    """A tie names the entry that had the weights first by its path in the spec: a module that is called from another
    one's frame is written there."""
    paths: Dict[str, str] = {}
    tied: List[Entry] = []

    def visit(body: Body, prefix: str) -> None:
        for entry in body.entries:
            path = prefix + entry.name
            if entry.tie:
                tied.append(entry)
            elif entry.has_weights:
                paths.setdefault(entry.path, path)
                paths.setdefault(entry.owner, path)
            if entry.body is not None:
                visit(entry.body, path + ".")

    visit(top, "")
    for entry in tied:
        entry.tie = paths.get(entry.tie, entry.tie)


def entries_of_weights(top: Body) -> Dict[str, str]:
    """Of each weight, the path in the spec of the entry that has it."""
    found: Dict[str, str] = {}
    tied: Dict[str, str] = {}

    def visit(body: Body, prefix: str) -> None:
        for entry in body.entries:
            for weight in entry.weights if entry.has_weights else ():
                (tied if entry.tie else found)[weight] = prefix + entry.name
                if entry.op.startswith("BatchNorm"):  # F.batch_norm is not given its count
                    found[weight.rpartition(".")[0] + ".num_batches_tracked"] = prefix + entry.name
            if entry.body is not None:
                visit(entry.body, prefix + entry.name + ".")

    visit(top, "")
    return {**tied, **found}  # an entry that shares some of its weights has the others itself


def put_first(body: Body, entries: List[Entry]) -> None:
    body.entries[:0] = entries
    body.holds = {i + len(entries): values for i, values in body.holds.items()}
    if body.loss_from is not None:
        body.loss_from += len(entries)


def add_replaced_tables(top: Body, lowering: Lowering) -> None:
    """Tables that no call reads, of which others have become the same parameter: each of those modules was constructed
    with one of its own (T5's `shared`)."""
    modules = dict(lowering.model.named_modules())
    called = {e.owner or e.path for body in all_bodies(top) for e in body.entries if e.weights}
    for name, _ in list(lowering.model.named_parameters()):
        path = name.rpartition(".")[0]
        sharing = [n for n, first in lowering.names_of_tied.items() if first == name and n != name]
        if not isinstance(modules[path], nn.Embedding) or not sharing or any(c == path or c.startswith(path + ".") for c in called):
            continue
        table = modules[path]
        entry = Entry("SharedEmbedding", [("", table.num_embeddings), ("", table.embedding_dim)], [], [])
        entry.view = True
        entry.name, owners = top.fresh_name(path), {lowering.used.get(name)}
        lowering.used.pop(name, None)
        lowering.own(entry, [name], path)
        for body in all_bodies(top):
            for other in body.entries:
                if name in other.weights or other.tie and other.tie in owners:
                    other.tie = path
        put_first(top, [entry])


def add_unused_weights(top: Body, lowering: Lowering) -> None:
    """Weights that no call reads take memory all the same."""
    unused: Dict[int, List[Entry]] = {}
    model = lowering.model
    bodies: Dict[str, Body] = {}
    for body in all_bodies(top):
        if not isinstance(body.frame.module, nn.Sequential):
            bodies.setdefault(body.frame.path, body)
    for kind, named in (("Parameter", model.named_parameters()), ("Buffer", model.named_buffers())):
        for name, tensor in named:
            if name in lowering.used or lowering.names_of_tied.get(name, name) != name or not tensor.numel() or parts(tensor):
                continue
            sizes = list(in_pairs(tensor.shape, tensor.dtype))
            arguments = [("shape", sizes)] + ([("dtype", dtype_name(PART.get(tensor.dtype, tensor.dtype)))] if kind == "Buffer" else [])
            entry = Entry(kind, arguments, [], [])
            body = next(bodies[path] for path in outward(name) if path in bodies)
            entry.name = body.fresh_name(relative(name, body.frame.path) or name)
            entry.view = entry.has_weights = True
            entry.weights = [name]
            entry.path = name
            entry.frozen = kind == "Parameter" and not tensor.requires_grad
            unused.setdefault(id(body), []).append(entry)
    for body in bodies.values():
        put_first(body, unused.get(id(body), []))


def outward(path: str) -> Iterator[str]:
    """Those of the modules that it is in, from within."""
    while path:
        path = path.rpartition(".")[0]
        yield path

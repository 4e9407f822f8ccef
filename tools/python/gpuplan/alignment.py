"""Which entries of a run in train mode and of one in eval mode are the same."""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

from gpuplan.entries import DECLARING, Entry
from gpuplan.folding import template_of


def alignment_key(entry: Entry) -> Any:
    """Equal for what one mode runs and for its like in the other. Attention is told its dropout by the mode."""
    if entry.body is not None:
        return ("", entry.body.frame.kind, entry.path, len(entry.outputs) > 0)
    if entry.op in DECLARING:
        return (entry.op, entry.path)
    told = ("dropout_p", "dropout")
    bare = Entry(entry.op, [(n, v) for n, v in entry.arguments if n not in told], [], [])
    template = template_of(bare)
    return (template.text, tuple(template.values), entry.path, len(entry.outputs))


def common_subsequence(a: Sequence[Any], b: Sequence[Any]) -> List[Tuple[int, int]]:
    """The positions of a longest common subsequence."""
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    rows, columns = len(a) - start - end, len(b) - start - end
    length = [[0] * (columns + 1) for _ in range(rows + 1)]
    for i in reversed(range(rows)):
        for j in reversed(range(columns)):
            length[i][j] = 1 + length[i + 1][j + 1] if a[start + i] == b[start + j] else \
                max(length[i + 1][j], length[i][j + 1])
    pairs = [(i, i) for i in range(start)]
    i = j = 0
    while i < rows and j < columns:
        if a[start + i] == b[start + j]:
            pairs.append((start + i, start + j))
            i, j = i + 1, j + 1
        elif length[i + 1][j] >= length[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs + [(len(a) - k, len(b) - k) for k in range(end, 0, -1)]


Pair = Tuple[Optional[Entry], Optional[Entry]]


def aligned(a: List[Entry], b: List[Entry]) -> List[Pair]:
    """The entries of both in one order; where neither has the other's, those of `a` first. Declared weights pair up
    wherever they stand, before the first one that reads them."""
    declared_a, declared_b = ({alignment_key(e): e for e in entries if e.op in DECLARING} for entries in (a, b))
    rest_a, rest_b = ([e for e in entries if e.op not in DECLARING] for entries in (a, b))
    done: set = set()
    pairs: List[Pair] = []

    def declare(entries: List[Entry], before: Optional[Entry]) -> None:
        while entries and entries[0] is not before:
            entry = entries.pop(0)
            key = alignment_key(entry)
            if entry.op in DECLARING and key not in done:
                done.add(key)
                pairs.append((declared_a.get(key), declared_b.get(key)))

    left_a, left_b = list(a), list(b)
    at_a = at_b = 0
    keys_a, keys_b = [alignment_key(e) for e in rest_a], [alignment_key(e) for e in rest_b]
    for i, j in common_subsequence(keys_a, keys_b) + [(len(rest_a), len(rest_b))]:
        alone: List[Pair] = [(e, None) for e in rest_a[at_a:i]] + [(None, e) for e in rest_b[at_b:j]]
        both: List[Pair] = [(rest_a[i], rest_b[j])] if i < len(rest_a) else []
        for x, y in alone + both:
            if x is not None:
                declare(left_a, x)
            if y is not None:
                declare(left_b, y)
            pairs.append((x, y))
        at_a, at_b = i + 1, j + 1
    declare(left_a, None)
    declare(left_b, None)
    return pairs

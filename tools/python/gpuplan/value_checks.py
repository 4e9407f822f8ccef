"""Questions about values that a healthy run answers in one way: the run without data takes that way, and the spec says which they are.

`if not torch.isfinite(x).all()`, `assert lengths.max() <= n`, `if labels.max() >= classes: raise ...` and
`torch._check_tensor_all_with(...)`."""
from __future__ import annotations

import ast
import functools
import linecache
import os
from types import FrameType
from typing import Any, List, Optional, Set, Tuple

# Tests of every element, and what they find where nothing has overflowed.
OF_ELEMENTS = {"isfinite": True, "isnan": False, "isinf": False}
KEEPING = frozenset("all any clone to bool".split())
INVERTING = frozenset("logical_not bitwise_not __invert__".split())


def found_of(name: str, given: List[Optional[bool]]) -> Optional[bool]:
    """What a call finds in all elements, of what is known of its operands."""
    if name in OF_ELEMENTS:
        return OF_ELEMENTS[name]
    if len(given) != 1 or given[0] is None:
        return None
    return given[0] if name in KEEPING else not given[0] if name in INVERTING else None


class Passing:
    """A number of which only a check is known: whether it holds."""

    def __init__(self, holds: bool):
        self.holds = holds

    def _compare(self, _: Any) -> bool:
        return self.holds

    def _same(self, *_: Any) -> "Passing":
        return self

    def __bool__(self) -> bool:
        return self.holds

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _compare  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = __abs__ = _same


def passes(frame: Optional[FrameType]) -> Optional[bool]:
    """What a condition that a frame tests finds in a run that goes on: an assertion holds, and what raises does not. None of any other."""
    if frame is None:
        return None
    for first, last, holds in checks_of(frame.f_code.co_filename):
        if first <= frame.f_lineno <= last:
            return holds
    return None


@functools.lru_cache(maxsize=256)
def checks_of(file: str) -> Tuple[Tuple[int, int, bool], ...]:
    """The lines of each such condition in a file."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return ()
    found: List[Tuple[int, int, bool]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            holds = parts_of(node.test, True)
        elif isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise):
            holds = parts_of(node.test, False)
        elif isinstance(node, ast.Expr) and is_check_of_torch(node.value):
            found.append((node.lineno, node.end_lineno or node.lineno, True))
            continue
        else:
            continue
        if len(holds) == 1:  # else which part asks is not told by its line
            found.append((node.test.lineno, node.test.end_lineno or node.test.lineno, holds.pop()))
    return tuple(found)


def is_check_of_torch(value: ast.expr) -> bool:
    """torch._check_tensor_all_with(ValueError, cond, message)"""
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr.startswith("_check")


def parts_of(test: ast.expr, holds: bool) -> Set[bool]:
    """What the parts of a condition are where all of it holds, or does not: `not` turns them over."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return parts_of(test.operand, not holds)
    if isinstance(test, ast.BoolOp):
        return {part for value in test.values for part in parts_of(value, holds)}
    return {holds}


def place_of(frame: FrameType) -> str:
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"

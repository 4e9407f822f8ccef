"""Attributes of classes and modules that are others for a while."""
from __future__ import annotations

from typing import Any, Callable, List


class Replacements:
    """Attributes that are others while a model runs."""

    def __init__(self) -> None:
        self.undo: List[Callable[[], None]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        if name in vars(owner):
            was = vars(owner)[name]
            self.undo.append(lambda: setattr(owner, name, was))
        else:  # inherited
            self.undo.append(lambda: delattr(owner, name))
        setattr(owner, name, value)

    def restore(self) -> None:
        for step in reversed(self.undo):
            step()

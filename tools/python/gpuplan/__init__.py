"""Writes a gpuplan spec of a PyTorch model: gpuplan.export(model, batch, output="m.yaml", loss=...). Needs torch alone,
1.13 to 2.15 (tests/torch/EXPORT.md says which releases it was tried with, and with what). ExportError lists every call
that the catalog has no layer for, with the line of source that made it."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuplan.errors import ExportError

if TYPE_CHECKING:
    from gpuplan.spec import export

__all__ = ["ExportError", "export"]


def __getattr__(name: str) -> Any:
    """export, which loads torch, is there when it is first asked for."""
    if name == "export":
        from gpuplan.spec import export

        return export
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

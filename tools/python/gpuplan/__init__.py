"""The GPU memory, FLOPs and time of a PyTorch step, without a GPU.

    import gpuplan
    plan = gpuplan.estimate("zoo:resnet50", batch=64, optimizer="adam", gpu="l4")
    plan = gpuplan.estimate(model, (images, labels), loss=lambda out, batch: criterion(out, batch[1]), optimizer="adamw", gpu="l4")
    plan.peak_bytes, plan.fits

estimate(), max_batch(), sweep(), diff(), estimate_memory() and shadow() run the gpuplan program. export() writes the spec of a
torch.nn.Module; it needs torch, 1.13 to 2.15 (tests/torch/EXPORT.md says which releases it was tried with, and with what)."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuplan.errors import ExportError, GpuplanError, need_torch
from gpuplan.estimates import diff, estimate, estimate_memory, max_batch, sweep
from gpuplan.plans import MemoryEstimate, Plan
from gpuplan.shadowed import Run, shadow

if TYPE_CHECKING:
    from gpuplan.spec import export

__all__ = ["ExportError", "GpuplanError", "MemoryEstimate", "Plan", "Run", "diff", "estimate", "estimate_memory", "export", "max_batch",
           "shadow", "sweep"]


def __getattr__(name: str) -> Any:
    """export, which loads torch, is there when it is first asked for."""
    if name == "export":
        need_torch()
        from gpuplan.spec import export

        return export
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

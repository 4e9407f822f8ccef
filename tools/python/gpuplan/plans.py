"""What a plan says, as values: bytes are int, times float seconds."""
from __future__ import annotations

import html
from typing import Any, Callable, Dict, List, Optional, Union

from gpuplan.errors import GpuplanError


def amount(size: int) -> str:
    """"5.48 GiB"; as the program writes amounts."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            value = size / unit
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {name}"
    return f"{size} B"


class Plan:
    """A step's memory, FLOPs and time. `to_dict()` has everything that `gpuplan --format json` writes, whose schema
    `gpuplan schema plan` prints."""

    def __init__(self, report: Dict[str, Any]) -> None:
        self._report = report

    @property
    def peak_bytes(self) -> int:
        """The highest torch.cuda.max_memory_allocated() of the step."""
        return self._report["peak"]["allocated_bytes"]

    @property
    def requested_bytes(self) -> int:
        """The same without the allocator's rounding: requested_bytes.all.peak of torch.cuda.memory_stats()."""
        return self._report["peak"]["requested_bytes"]

    @property
    def reserved_bytes(self) -> int:
        """torch.cuda.max_memory_reserved()."""
        return self._report["peak"]["reserved_bytes"]

    @property
    def device_bytes(self) -> int:
        """What nvidia-smi shows: reserved memory and the CUDA context."""
        return self._report["peak"]["device_bytes"]

    @property
    def at_most_bytes(self) -> int:
        """device_bytes where everything that is estimated takes the most that it may."""
        return self._report["at_most"]["device_bytes"]

    @property
    def fits(self) -> Optional[bool]:
        """Whether device_bytes fits the GPU; None without one."""
        return self._report["fits"]

    @property
    def step_seconds(self) -> Optional[float]:
        """None where the GPU's speed is not known."""
        return (self._report["time"] or {}).get("step_seconds")

    @property
    def step_flops(self) -> int:
        return self._report["compute"]["step_flops"]

    @property
    def by_category(self) -> Dict[str, int]:
        """{"activations": bytes, ...} at the peak."""
        sizes: Dict[str, int] = {}
        for part in self._report["peak"]["parts"]:
            sizes[part["category"]] = sizes.get(part["category"], 0) + part["bytes"]
        return sizes

    @property
    def by_module(self) -> Dict[str, int]:
        """{"layer1": bytes, ...} at the peak."""
        return {module["name"]: module["bytes"] for module in self._report["peak"]["modules"]}

    @property
    def timeline(self) -> List[Dict[str, Any]]:
        """The phases of the first and of a steady step, in order, each with bytes at its end and its peak."""
        return self._report["phases"]

    @property
    def suggestions(self) -> List[Dict[str, Any]]:
        """What would make a step fit that does not."""
        return self._report.get("suggestions") or []

    @property
    def warnings(self) -> List[Any]:
        return self._report["warnings"]

    @property
    def assumptions(self) -> List[str]:
        return [assumption["text"] for assumption in self._report["assumptions"]]

    def to_dict(self) -> Dict[str, Any]:
        return self._report

    def to_pandas(self) -> Any:
        """The layers, a row each. Needs pandas."""
        import pandas

        return pandas.DataFrame(self._report["layers"])

    def __repr__(self) -> str:
        where = f" on {self._report['run']['gpu']}" if self._report["run"].get("gpu") else ""
        verdict = {True: ", fits", False: ", does not fit", None: ""}[self.fits]
        return f"<gpuplan.Plan {self._report['model']['name']}{where}: peak {amount(self.peak_bytes)}, reserved " \
               f"{amount(self.reserved_bytes)}{verdict}>"

    def _repr_html_(self) -> str:
        rows = [("Peak", amount(self.peak_bytes)), ("Reserved", amount(self.reserved_bytes)), ("Device", amount(self.device_bytes))]
        rows += [(name.capitalize(), amount(size)) for name, size in self.by_category.items()]
        body = "".join(f"<tr><th>{html.escape(name)}</th><td>{size}</td></tr>" for name, size in rows)
        return f"<table><caption>{html.escape(repr(self)[1:-1])}</caption>{body}</table>"


class MemoryEstimate:
    """The interface that https://github.com/pytorch/rfcs/issues/108 asks for; `plan` has the rest. MB are 2**20 bytes, as
    everywhere in PyTorch."""

    def __init__(self, plan: Plan, plan_on: Callable[[str], Plan]) -> None:
        self.plan, self._plan_on = plan, plan_on

    @property
    def total_mb(self) -> float:
        """Reserved memory and the CUDA context."""
        return self.plan.device_bytes / (1 << 20)

    @property
    def params_mb(self) -> float:
        return self.plan.to_dict()["bytes"]["parameters"] / (1 << 20)

    @property
    def optimizer_mb(self) -> float:
        return self.plan.to_dict()["bytes"]["optimizer_state"] / (1 << 20)

    @property
    def activations_mb(self) -> float:
        """What the forward pass saves for the backward pass."""
        return self.plan.to_dict()["bytes"]["saved_for_backward"] / (1 << 20)

    def fits(self, device: Union[int, str] = 0) -> bool:
        """device: a GPU of this machine by its number, or any by its name ("l4", "22 GiB")."""
        return bool(self._plan_on(device if isinstance(device, str) else name_of_device(device)).fits)

    def __repr__(self) -> str:
        return repr(self.plan).replace("gpuplan.Plan", "gpuplan.MemoryEstimate", 1)


def name_of_device(number: int) -> str:
    import torch

    if not torch.cuda.is_available() or number >= torch.cuda.device_count():
        raise GpuplanError(f"this machine has no CUDA device {number}", help='name a GPU: fits(device="l4"); gpuplan gpus lists them')
    return torch.cuda.get_device_name(number)

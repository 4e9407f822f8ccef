"""How a model was made: without data, and in which order its weights got their memory."""
from __future__ import annotations

import contextlib
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch
from torch import nn


def moving_ranks(model: nn.Module) -> Dict[str, int]:
    """When each module's weights get their memory, by path, as model.to("cuda") moves them: a module's children first,
    then its own (torch.nn.Module._apply)."""
    ranks: Dict[str, int] = {}

    def visit(module: nn.Module, path: str) -> None:
        prefix = path + "." if path else ""
        first = len(ranks)
        for name, child in module.named_children():
            visit(child, prefix + name)
        for name, tensor in list(module._parameters.items()) + list(module._buffers.items()):
            if tensor is not None:
                ranks[prefix + name] = len(ranks)
        if len(ranks) > first:
            ranks[path] = first

    visit(model, "")
    return ranks


class Construction:
    """What a model's constructors did, which nothing in the model tells: the order of its weights, and which of them were
    drawn by nn.init.trunc_normal_, whose masks leave segments in the allocator's cache."""

    def __init__(self) -> None:
        self.registered: List[Tuple[nn.Module, str]] = []
        self.truncated: List[torch.Tensor] = []

    def ranks(self, model: nn.Module) -> Dict[str, int]:
        """When each module's weights got their memory, by path, where it is made on the GPU."""
        paths = {id(module): path for path, module in model.named_modules()}
        ranks: Dict[str, int] = {}
        for i, (module, name) in enumerate(self.registered):
            path = paths.get(id(module))
            if path is None:
                continue  # of a module that the model did not keep
            parts = (path.split(".") if path else []) + [name]
            for n in range(len(parts) + 1):
                ranks.setdefault(".".join(parts[:n]), i)
        return ranks

    def initialization(self, model: nn.Module) -> List[str]:
        """The layer that stands for the draws; of types of which only some weights are drawn nothing is known."""
        drawn = {id(t) for t in self.truncated}
        flags = {}
        for flag, kind in (("linear", nn.Linear), ("conv", nn.Conv2d)):
            weights = [id(m.weight) in drawn for m in model.modules() if isinstance(m, kind)]
            flags[flag] = bool(weights) and all(weights)
        arguments = ([] if flags["linear"] else ["linear=False"]) + (["conv=True"] if flags["conv"] else [])
        return [f"  - {{name: init, op: \"TruncNormalInit({', '.join(arguments)})\"}}"] if any(flags.values()) else []


def constructed(make: Callable[[], nn.Module], construction: Optional[Construction] = None) -> nn.Module:
    """A model whose parameters have no data, unless its constructor runs it. construction: where to note what the
    constructors did."""
    try:
        with weights_without_data(construction if construction is not None else Construction()):
            return make()
    except (NotImplementedError, RuntimeError):
        return make()


@contextlib.contextmanager
def weights_without_data(construction: Construction) -> Iterator[None]:
    """Modules that are made here have their parameters on the meta device, and all else where it is made: constructors
    may compute with values, and a model of any size takes no memory and no time to initialize."""
    original = nn.Module.register_parameter
    register_buffer, trunc_normal_ = nn.Module.register_buffer, nn.init.trunc_normal_

    def register(module: nn.Module, name: str, parameter: Optional[nn.Parameter]) -> None:
        if parameter is not None and parameter.device.type != "meta":
            parameter = nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad)
        if parameter is not None:
            construction.registered.append((module, name))
        original(module, name, parameter)

    def buffer(module: nn.Module, name: str, tensor: Optional[torch.Tensor], persistent: bool = True) -> None:
        if tensor is not None:
            construction.registered.append((module, name))
        register_buffer(module, name, tensor, persistent)

    def draw(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        construction.truncated.append(tensor)
        return trunc_normal_(tensor, *args, **kwargs)

    nn.Module.register_parameter = register  # type: ignore[assignment]
    nn.Module.register_buffer = buffer  # type: ignore[assignment]
    nn.init.trunc_normal_ = draw
    # transformers keeps torch's functions in a table of its own.
    kept: Dict[str, Any] = getattr(sys.modules.get("transformers.initialization"), "TORCH_INIT_FUNCTIONS", {})
    if "trunc_normal_" in kept:
        kept["trunc_normal_"] = draw
    try:
        yield
    finally:
        if "trunc_normal_" in kept:
            kept["trunc_normal_"] = trunc_normal_
        nn.Module.register_parameter = original  # type: ignore[assignment]
        nn.Module.register_buffer = register_buffer  # type: ignore[assignment]
        nn.init.trunc_normal_ = trunc_normal_

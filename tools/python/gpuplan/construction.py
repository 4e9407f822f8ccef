"""How a model was made: without data, and in which order its weights got their memory."""
from __future__ import annotations

import contextlib
import sys
import textwrap
import weakref
from typing import Any, Callable, ContextManager, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from gpuplan.torch_calls import storage, storage_address
from gpuplan.source_lines import names_the_host
from gpuplan.values import flat_tensors


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


class Place(NamedTuple):
    """Where a parameter or buffer was registered. The module may be gone."""
    module: "weakref.ref[nn.Module]"
    name: str

    def path(self, paths: Dict[int, str]) -> Optional[str]:
        """paths: of the modules of the model, by their ids."""
        module = self.module()
        at = None if module is None else paths.get(id(module))
        return None if at is None else f"{at}.{self.name}" if at else self.name


class Construction:
    """What a model's constructors did, which nothing in the model tells: which tensors they made on the GPU, in which order, and
    which of these they let go."""

    def __init__(self) -> None:
        self.events: List[Tuple[str, int]] = []  # "+" or "-", and the number of a storage
        self.sizes: List[int] = []  # of storages, in bytes
        self.registered: List[Tuple[int, Place]] = []
        self.of_host: Set[int] = set()  # storages that the code puts into the host's memory
        self.held: Dict[int, List[Place]] = {}  # storages of parameters and buffers, and whose they are
        self.paused = False  # what is made is not the constructors'
        self.at: Dict[int, int] = {}  # storages by their address, as long as no other one has it
        self.alive: Dict[int, int] = {}  # tensors of each storage

    def forget(self) -> None:
        """Of a model whose constructor does not run so nothing is noted, nor what is let go of it later."""
        self.__dict__.update(Construction().__dict__)

    # --- while constructors run

    def see(self, tensor: torch.Tensor, host: bool) -> None:
        """A tensor that a call returned; host: one in the host's memory."""
        address = storage_address(tensor)
        number = self.at.get(address)
        if number is None or not self.alive[number]:
            number = self.allocate(0 if host else storage(tensor).nbytes())
            self.at[address] = number
            if host:
                self.of_host.add(number)
        self.hold(number, tensor)

    def is_of_host(self, tensor: torch.Tensor) -> bool:
        return self.at.get(storage_address(tensor)) in self.of_host

    def allocate(self, size: int) -> int:
        self.sizes.append(size)
        self.alive[len(self.sizes) - 1] = 0
        self.events.append(("+", len(self.sizes) - 1))
        return len(self.sizes) - 1

    def hold(self, number: int, owner: Any) -> None:
        """The storage lives as long as the owner."""
        self.alive[number] += 1
        weakref.finalize(owner, self.let_go, number, self.alive).atexit = False

    def let_go(self, number: int, alive: Dict[int, int]) -> None:
        if alive is not self.alive:
            return  # forgotten
        self.alive[number] -= 1
        if self.alive[number] == 0:
            self.events.append(("-", number))

    def register(self, module: nn.Module, name: str, made: torch.Tensor, kept: torch.Tensor) -> None:
        """A parameter or buffer, and what stands for it from here on."""
        number = self.at.get(storage_address(made))
        if number is not None and not self.alive[number] and ("-", number) in self.events[-4:]:
            self.events.remove(("-", number))  # Parameter(data) has it, which no call returned
        elif number is None or not self.alive[number]:
            number = self.allocate(storage(made).nbytes())
        place = Place(weakref.ref(module), name)
        self.held.setdefault(number, []).append(place)
        self.registered.append((number, place))
        if kept is not made or not self.alive[number]:
            self.at.pop(storage_address(made), None)
            self.at[storage_address(kept)] = number
            self.hold(number, kept)

    def draw(self, tensor: torch.Tensor) -> None:
        """The masks of nn.init.trunc_normal_, which draws nothing of a tensor without data (torch/nn/init.py, from PyTorch 2.9 on):
        (result < lo) | (result > hi), and whether it has any."""
        masks = [self.allocate(tensor.numel()) for _ in range(3)]
        self.events += [("-", masks[0]), ("-", masks[1])]
        self.events += [("-", self.allocate(1)), ("-", masks[2])]

    # --- of the model that they made

    def ranks(self, model: nn.Module) -> Dict[str, int]:
        """When each module's weights got their memory, by path, where it is made on the GPU."""
        paths = {id(module): path for path, module in model.named_modules()}
        ranks: Dict[str, int] = {}
        for i, place in sorted(self.registered, key=lambda r: r[0]):
            path = place.path(paths)
            if path is None:
                continue  # of a module that the model did not keep
            parts = path.split(".")
            for n in range(len(parts) + 1):
                ranks.setdefault(".".join(parts[:n]), i)
        return ranks

    def steps(self, model: nn.Module, entries: Dict[str, str]) -> List[str]:
        """The spec's `construction:`. entries: of each weight of the spec, the entry that has it."""
        if not self.registered:
            return []
        paths = {id(module): path for path, module in model.named_modules()}
        weights: Dict[int, str] = {}
        for number, places in self.held.items():
            known = [entries[path] for path in (p.path(paths) for p in places) if path in entries]
            if known and self.alive[number]:
                weights[number] = known[0]
        runs: List[Tuple[str, List[Tuple[str, int]]]] = [("", [])]
        for sign, number in self.events:
            if number in weights:
                if sign == "+" and runs[-1][0] != weights[number]:
                    runs.append((weights[number], []))
            elif self.sizes[number]:  # PyTorch allocates nothing for no bytes
                runs[-1][1].append((sign, number))
        return written(runs, self.sizes)


MOST_TEXT = 4000  # bytes: a text of a spec has 4,096 at most


def written(runs: List[Tuple[str, List[Tuple[str, int]]]], sizes: List[int]) -> List[str]:
    """The lines of the steps that are not empty."""
    lines: List[str] = []
    numbers: Dict[int, int] = {}
    for after, events in runs:
        words = []
        for sign, number in without_repetition(events, sizes):
            if sign == "+":
                numbers[number] = len(numbers)
            words.append(f"+{sizes[number]}" if sign == "+" else f"-{numbers[number]}")
        for run in textwrap.wrap(" ".join(words), MOST_TEXT):
            lines.append("  - {" + (f"after: {after}, " if after else "") + f'run: "{run}"}}')
    return ["construction:"] + lines if lines else ["construction: []"]


def without_repetition(events: List[Tuple[str, int]], sizes: List[int]) -> List[Tuple[str, int]]:
    """Without what was done before in the same way since the last weight: the cache that it left has all that it needs."""
    kept: List[Tuple[str, int]] = []
    seen: Set[Tuple[Any, ...]] = set()
    group: List[Tuple[str, int]] = []
    begun: Dict[int, int] = {}
    for event in events:
        sign, number = event
        if sign == "-" and number not in begun:  # made before
            kept += group + [event]
            group, begun = [], {}
            continue
        group.append(event)
        if sign == "+":
            begun[number] = len(begun)
        if sum(1 if s == "+" else -1 for s, _ in group) == 0:
            shape = tuple((s, sizes[n], begun[n]) for s, n in group)
            kept += [] if shape in seen else group
            seen.add(shape)
            group, begun = [], {}
    return kept + group


class NamesHost(TorchFunctionMode):
    """Whether the code that runs puts a tensor into the host's memory, as torch.arange(4, device="cpu") does."""

    def __init__(self) -> None:
        super().__init__()
        self.now = False

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: Optional[dict] = None) -> Any:
        before, self.now = self.now, str((kwargs or {}).get("device")) == "cpu" and names_the_host()
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.now = before


class Watching(TorchDispatchMode):
    """Notes the tensors that calls make."""

    def __init__(self, construction: Construction, host: NamesHost):
        super().__init__()
        self.construction, self.host = construction, host

    def __torch_dispatch__(self, func: Callable, types: Any, args: tuple = (), kwargs: Optional[dict] = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if self.construction.paused:
            return result
        given = flat_tensors((args, kwargs))
        host = self.host.now or bool(given) and all(self.construction.is_of_host(t) for t in given)
        for tensor in flat_tensors(result):
            if tensor.layout == torch.strided and not any(tensor is t for t in given):
                self.construction.see(tensor, host)
        return result


def constructed(make: Callable[[], nn.Module], construction: Optional[Construction] = None) -> nn.Module:
    """A model whose parameters have no data, unless its constructor runs it. construction: where to note what the
    constructors did."""
    noted = construction if construction is not None else Construction()
    try:
        with weights_without_data(noted):
            return make()
    except (NotImplementedError, RuntimeError):
        noted.forget()
        with noting(noted, data=True):
            return make()


def weights_without_data(construction: Construction) -> ContextManager[None]:
    """Modules that are made here have their parameters on the meta device, and all else where it is made: constructors
    may compute with values, and a model of any size takes no memory and no time to initialize."""
    return noting(construction, data=False)


@contextlib.contextmanager
def noting(construction: Construction, data: bool) -> Iterator[None]:
    """Notes what constructors do. data: parameters stay where they are made."""
    original = nn.Module.register_parameter
    register_buffer, trunc_normal_ = nn.Module.register_buffer, nn.init.trunc_normal_

    def register(module: nn.Module, name: str, parameter: Optional[nn.Parameter]) -> None:
        made = parameter
        if parameter is not None and not data and parameter.device.type != "meta":
            construction.paused = True
            parameter = nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad) if type(parameter) is nn.Parameter \
                else parameter.to("meta")  # of a library's class
            construction.paused = False
        if parameter is not None and made is not None:
            construction.register(module, name, made, parameter)
        original(module, name, parameter)

    def buffer(module: nn.Module, name: str, tensor: Optional[torch.Tensor], persistent: bool = True) -> None:
        if tensor is not None:
            construction.register(module, name, tensor, tensor)
        register_buffer(module, name, tensor, persistent)

    def draw(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if tensor.device.type == "meta":
            construction.draw(tensor)
        return trunc_normal_(tensor, *args, **kwargs)

    nn.Module.register_parameter = register  # type: ignore[assignment]
    nn.Module.register_buffer = buffer  # type: ignore[assignment]
    nn.init.trunc_normal_ = draw
    # transformers keeps torch's functions in a table of its own.
    kept: Dict[str, Any] = getattr(sys.modules.get("transformers.initialization"), "TORCH_INIT_FUNCTIONS", {})
    if "trunc_normal_" in kept:
        kept["trunc_normal_"] = draw
    try:
        with NamesHost() as host, Watching(construction, host):
            yield
    finally:
        if "trunc_normal_" in kept:
            kept["trunc_normal_"] = trunc_normal_
        nn.Module.register_parameter = original  # type: ignore[assignment]
        nn.Module.register_buffer = register_buffer  # type: ignore[assignment]
        nn.init.trunc_normal_ = trunc_normal_

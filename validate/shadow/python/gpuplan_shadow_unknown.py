"""What is said of results whose arguments are unknown floats: within their function's range, finite, and which of them
is the greatest is drawn."""

from gpuplan_shadow_arguments import on_host, parts
from gpuplan_shadow_value_rules import (
    ALL_TRUE,
    BOUNDS,
    CHOICES,
    COMPARE,
    DIVISIONS,
    FINITE,
    KEEP_BOUNDS,
    SAME_AS_ITSELF,
    SCALER,
)

LARGEST_CHOICE = 1 << 20  # elements to choose among
# A router chooses among experts; most choices else are among more (a vocabulary's words, anchors), or of one row.
MOST_EXPERTS = 1024
ROUTERS = frozenset(("topk", "argmax", "max", "sort", "argsort"))


class Unknown:
    def __init__(self, torch, known, generator, routing="drawn"):
        self.torch = torch
        self.known = known
        self.generator = generator
        self.routing = routing
        self.yes, self.no = torch.tensor(True, device="cpu"), torch.tensor(False, device="cpu")

    def after(self, name, args, kwargs, tensors, entries, result):
        known, first = self.known, tensors[0]
        if name == SCALER:
            known.learn_same(args[1], self.no)
        elif name in ALL_TRUE:
            if first.dtype == self.torch.bool and result.dim() == 0:
                known.learn(result, self.yes, drawn=True)
        elif not first.is_floating_point():
            return
        elif name in CHOICES:
            self._choose(name, args, kwargs, first, result)
        elif name in FINITE:
            known.learn_same(result, self.yes if name == "isfinite" else self.no)
        elif name in SAME_AS_ITSELF:
            if len(args) > 1 and args[0] is args[1]:
                known.learn_same(result, self.yes if "eq" in name else self.no)
        elif name in BOUNDS:
            known.learn_bounds(result, BOUNDS[name], sums=name == "softmax")
        elif entries[0] is not None and entries[0].bounds is not None:
            self._after_bounds(name, args, kwargs, entries, result)

    def _after_bounds(self, name, args, kwargs, entries, result):
        entry = entries[0]
        by_one = name in DIVISIONS and len(entries) == 2 and self._is_one(args[1], entries[1])
        if by_one or (name in KEEP_BOUNDS and self.known.entry(result) is None):
            self.known.learn_bounds(result, entry.bounds, entry.sums)
        elif name == "sum" and entry.sums and (args[1:] or (kwargs.get("dim"),))[0] in (-1, args[0].dim() - 1):
            self.known.learn_same(result, self.torch.tensor(1.0, dtype=result.dtype, device="cpu"))
        elif name in COMPARE and len(args) == 2 and isinstance(args[1], (int, float)):
            low, high = entry.bounds
            above, below = COMPARE[name]
            if args[1] <= low or args[1] >= high:
                self.known.learn_same(result, self.yes if (above if args[1] <= low else below) else self.no)

    def _is_one(self, tensor, entry):
        if entry is None or entry.bounds is not None:
            return False
        return bool((self.known.copy(tensor, entry) == 1).all()) if entry.values is not None else bool(entry.same == 1)

    def _numbers(self, name, args, kwargs, first):
        """What the function is to choose among."""
        torch = self.torch
        if self.routing == "drawn" or name not in ROUTERS or first.dim() < 2 or first.shape[-1] > MOST_EXPERTS:
            return torch.rand(first.shape, generator=self.generator, device="cpu")
        experts = first.shape[-1]
        ranks = torch.arange(experts, device="cpu")
        if self.routing == "worst":
            return (-ranks.float()).expand(first.shape)
        # Row r takes up where the row before has ended.
        chosen = kwargs.get("k", args[1] if name == "topk" and len(args) > 1 else 1)
        rows = torch.arange(first.numel() // max(experts, 1), device="cpu")[:, None]
        return (-((ranks - rows * chosen) % experts).float()).reshape(first.shape)

    def _choose(self, name, args, kwargs, first, result):
        """The indices that the function returns of random numbers of the same shape."""
        if first.numel() > LARGEST_CHOICE or args[:1] != (first,) and args[0] is not first:
            return
        numbers = self._numbers(name, args, kwargs, first)
        rest = on_host(args[1:], kwargs)
        function = getattr(self.torch, name)
        if name == "multinomial":
            rest[1]["generator"] = self.generator
        value = function(numbers, *rest[0], **rest[1])
        for part, chosen in zip(parts(result), parts(value)):
            integers = isinstance(chosen, self.torch.Tensor) and not chosen.is_floating_point()
            if integers and part.shape == chosen.shape:
                self.known.learn(part, chosen, drawn=True)

"""Large tensors whose elements are all the same: what a function makes of them is what it makes of one element."""

from gpuplan_shadow_arguments import swapped
from gpuplan_shadow_value_rules import SAME


class Uniform:
    def __init__(self, torch, known):
        self.torch = torch
        self.known = known

    def filled(self, name, args, kwargs):
        """The element of what zeros, ones, full or fill_ make."""
        return self.torch.as_tensor(SAME[name](args, kwargs), device="cpu")

    def element(self, function, args, kwargs, tensors, entries):
        """The element of what an elementwise function makes; None where that is not known."""
        copies = [self._one(tensor, entry) for tensor, entry in zip(tensors, entries)]
        if any(copy is None for copy in copies):
            return None
        args, kwargs = swapped(args, kwargs, copies, self.torch)
        result = function(*args, **kwargs)
        return result if isinstance(result, self.torch.Tensor) and result.dim() == 0 else None

    def _one(self, tensor, entry):
        """The element that all of the tensor's are; None where they differ."""
        if entry is None or entry.bounds is not None:
            return None
        if entry.same is not None:
            return entry.same if entry.same.dtype == tensor.dtype else None
        return self.known.copy(tensor, entry).reshape(()) if tensor.numel() == 1 else None

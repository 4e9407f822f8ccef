"""The values of a call's result, and what the host reads of it (gpuplan_shadow_values.py says when)."""

from gpuplan_shadow_arguments import changes, parts, swapped
from gpuplan_shadow_decided import Decided
from gpuplan_shadow_uniform import Uniform
from gpuplan_shadow_unknown import Unknown
from gpuplan_shadow_value_rules import (
    BOUNDS,
    BY_MASK,
    CHECKS,
    DRAWN,
    ELEMENTWISE,
    EMPTY,
    OVERWRITE,
    RANDOM,
    READS,
    SAID_OF_UNKNOWN,
    SAME,
    is_mask,
)

LARGEST_FLOATS = 4096  # elements: indices and masks are what sizes depend on, and floats cost as much as they


class Values:
    def __init__(self, torch, known, runtime, seed, routing="drawn"):
        self.torch = torch
        self.known = known
        self.runtime = runtime
        self.generator = torch.Generator().manual_seed(seed)
        self.unknown = Unknown(torch, known, self.generator, routing)
        self.decided = Decided(torch)
        self.uniform = Uniform(torch, known)
        self.substituted = False  # what the host read was answered

    # --- a call

    def call(self, function, name, args, kwargs):
        """Calls one of torch's functions, and sees to what is known of its result."""
        kwargs = kwargs or {}
        on_gpu, tensors = self._tensors(args, kwargs)
        if not on_gpu:
            return self._made(function, name, args, kwargs)
        if name == "type" and len(args) == 1 and not kwargs:  # the name of its type, which says where it is
            return function(*args)
        if name in ("__getitem__", "__setitem__"):
            args = self._with_numbers_in_slices(args)
        entries, held = self._entries(tensors, name in OVERWRITE)
        self.substituted = False
        before = self.runtime.guesses(0)
        checks = CHECKS.get(name)
        if checks:
            self.runtime.give(checks)
        result = self._result(function, name, args, kwargs, tensors, entries)
        if checks:
            self.runtime.give(())
        # A kernel that reads may be taken for one that writes, and what its arguments hold beside addresses for one.
        lost = self.runtime.lost()
        for tensor, entry in held:
            self.known.put(tensor, entry)
        if lost:
            self.known.restore(lost, tensors)
        since = self.runtime.guesses(0) - before
        if since:
            self.decided.seen += since
            if not self.substituted:
                self.decided.unknown(name)
        return result

    def begins_unknown(self, name, args):
        """Whether of the first argument, or of a part of it, nothing is known that the function would make use of."""
        first, tensor = args[0] if args else None, self.torch.Tensor
        if type(first) in (tuple, list):
            return any(isinstance(part, tensor) and self._is_unknown(name, part) for part in first)
        return isinstance(first, tensor) and self._is_unknown(name, first)

    def _is_unknown(self, name, tensor):
        entry = self.known.entry(tensor)
        return entry is None or (entry.bounds is not None and name not in SAID_OF_UNKNOWN)

    def of_unknown(self, name, result):
        """A function has returned `result` whose values lie within known bounds."""
        if isinstance(result, self.torch.Tensor) and result.is_cuda and result.is_floating_point():
            try:
                self.known.learn_bounds(result, BOUNDS[name], name == "softmax")
            except Exception:  # a tensor without a storage
                pass

    def forget(self):
        """What launches can have written over since the last call that we saw."""
        lost = self.runtime.lost()
        if lost:
            self.known.forget_at(lost)

    def restore(self):
        """After a call that wrote over nothing that is known."""
        self.known.restore(self.runtime.lost(), ())

    def _made(self, function, name, args, kwargs):
        """A call without tensors on the GPU, which may make one."""
        result = function(*args, **kwargs)
        if not isinstance(result, self.torch.Tensor) or not result.is_cuda or result.numel() == 0:
            return result
        if name in RANDOM:
            self._emptied(name, result)
            return result
        if name in SAME:
            self._safely(self.known.learn_same, result, self._safely(self.uniform.filled, name, args, kwargs))
        elif self._is_small(result):
            value = self._safely(self._on_host, function, name, args, kwargs, ())
            if value is not None:
                self._learned(result, value, name, name in DRAWN)
        return result

    def _entries(self, tensors, overwrites):
        """What is known of each, up to the first of which nothing is; and all those with their entries whose values are
        known one by one, or by one."""
        entries, held, whole = [], [], True
        for tensor in tensors:
            if not whole and tensor.is_floating_point():
                continue
            entry = self.known.entry(tensor)
            if whole:
                entries.append(entry)
            if entry is None:
                whole = whole and overwrites and len(entries) == 1
            elif entry.bounds is None:
                held.append((tensor, entry))
                if tensor.numel() == 1:  # a function may take it for a number, and PyTorch reads it from the GPU itself
                    self.known.put(tensor, entry)
        return entries, held

    def _with_numbers_in_slices(self, args):
        """x[:, :n] reads a tensor n from the GPU: where it is known, the number stands in its place."""

        def number(bound):
            if isinstance(bound, self.torch.Tensor) and bound.is_cuda:
                entry = self.known.entry(bound)
                copy = self._safely(self.known.copy, bound, entry) if entry is not None else None
                return bound if copy is None else int(copy)
            return bound

        def plain(part):
            if not isinstance(part, slice):
                return part
            return slice(number(part.start), number(part.stop), number(part.step))

        index = args[1]
        index = tuple(plain(part) for part in index) if isinstance(index, tuple) else plain(index)
        return (args[0], index, *args[2:])

    def _tensors(self, args, kwargs):
        """(whether one of the arguments is on the GPU, those that are)."""
        found = []
        tensor = self.torch.Tensor
        for argument in (*args, *kwargs.values()) if kwargs else args:
            if isinstance(argument, tensor):
                if argument.is_cuda:
                    found.append(argument)
            elif isinstance(argument, (tuple, list)):
                found.extend(part for part in argument if isinstance(part, tensor) and part.is_cuda)
        return bool(found), found

    def _result(self, function, name, args, kwargs, tensors, entries):
        overwrites = name in OVERWRITE and entries and entries[0] is None
        unknown = any(entry is None or entry.bounds is not None for entry in entries[1 if overwrites else 0 :])
        if name in RANDOM or (unknown and name not in SAME):
            if name in BY_MASK and len(args) > 1:
                result = self._selected(function, name, args, kwargs)
            else:
                result = function(*args, **kwargs)
            self._emptied(name, result)
            if name in SAID_OF_UNKNOWN and tensors:
                self._safely(self.unknown.after, name, args, kwargs, tensors, entries, result)
            elif tensors and changes(name, kwargs) and tensors[0].is_inference():  # which has no version
                self._safely(self.known.forget, tensors[0])
            return result
        large = any(entry is not None and entry.same is not None for entry in entries)
        part = changes(name, kwargs) and entries[:1] and entries[0] is not None and entries[0].values is not None
        if large or (name in SAME and not (part and not self.known.is_whole(tensors[0]))):
            return self._same(function, name, args, kwargs, tensors, entries)
        return self._small(function, name, args, kwargs, tensors, entries, overwrites)

    def _selected(self, function, name, args, kwargs):
        """A selection by masks of what is not known."""
        counts = self._safely(self._counts_of_masks, name, args)
        if counts:
            self.runtime.give(counts)
        result = function(*args, **kwargs)
        self.runtime.give(())
        self._again_in_backward(name, args, result, counts)
        return result

    def _again_in_backward(self, name, args, result, counts):
        """The backward pass of a selection by masks counts them again, of an assignment twice."""
        node = getattr(args[0] if result is None else result, "grad_fn", None)
        if counts and node is not None and name in BY_MASK:
            give = self.runtime.give
            node.register_prehook(lambda gradients: give(counts * 2))
            node.register_hook(lambda inputs, outputs: give(()))

    def _counts_of_masks(self, name, args):
        """How many elements each mask selects, as PyTorch reads it, of a tensor that need not be known; None where that
        of one is not."""
        counts, index = [], args[1]
        if name == "masked_select":
            index = index.expand(self.torch.broadcast_shapes(args[0].shape, index.shape))
        for part in index if isinstance(index, (tuple, list)) else (index,):
            if not is_mask(part):
                continue
            entry = self.known.entry(part)
            if entry is None or entry.bounds is not None:
                return None
            same = entry.same is not None
            counts.append(part.numel() * bool(entry.same) if same else int(self.known.copy(part, entry).count_nonzero()))
            if entry.drawn:
                self.decided.drawn(name)
        return counts

    def _emptied(self, name, result):
        if name in EMPTY and not result.is_floating_point() and 0 < result.numel() <= self.known.limit:
            self._safely(self.known.learn_same, result, self.torch.zeros((), dtype=result.dtype, device="cpu"))

    def _safely(self, rule, *arguments):
        """What goes wrong on the host leaves values unknown, and nothing else."""
        if self.torch._C._len_torch_dispatch_stack():
            return None  # a mode that would take our calls for the script's: fake tensors, counters
        try:
            with self.torch._C.DisableTorchFunction(), self.torch.no_grad():
                return rule(*arguments)
        except Exception:
            return None

    # --- small tensors, one by one

    def _small(self, function, name, args, kwargs, tensors, entries, overwrites):
        copies = self._safely(self._copies, tensors, entries, overwrites)
        drawn = name in DRAWN or any(entry is not None and entry.drawn for entry in entries)
        if changes(name, kwargs):
            return self._written(function, name, args, kwargs, tensors, entries, copies, drawn)
        if copies is None:
            return function(*args, **kwargs)
        if name in READS:  # the result's size depends on values
            value = self._safely(self._on_host, function, name, args, kwargs, copies)
            answers = self._answer(name, args, kwargs, copies, value) if value is not None else None
            if answers and drawn:
                self.decided.drawn(name)
            result = function(*args, **kwargs)
            self.runtime.give(())
            self._again_in_backward(name, args, result, answers)
        else:
            result = function(*args, **kwargs)
            if not self._is_small(result):
                return result
            value = self._safely(self._on_host, function, name, args, kwargs, copies)
        return result if value is None else self._learned(result, value, name, drawn)

    def _written(self, function, name, args, kwargs, tensors, entries, copies, drawn):
        """The function writes into its arguments, and into their copies."""
        answers = self._answer(name, args, kwargs, copies, None) if name in READS and copies is not None else None
        result = function(*args, **kwargs)
        self.runtime.give(())
        self._again_in_backward(name, args, result, answers)
        done = copies and self._safely(lambda: (self._on_host(function, name, args, kwargs, copies),))
        for tensor, entry, copy in zip(tensors, entries, copies or tensors):
            if not done:
                self._safely(self.known.forget, tensor)
            elif entry is not None:
                entry.drawn = entry.drawn or drawn
                self.known.changed(tensor, entry)
            else:
                self._safely(self.known.learn, tensor, copy, drawn)
        return result

    def _answer(self, name, args, kwargs, copies, value):
        """Gives the runtime what PyTorch will read while the function runs, and returns it."""
        answers = self._safely(READS[name], *swapped(args, kwargs, copies, self.torch), value)
        if answers:
            self.runtime.give(answers)
        return answers

    def _copies(self, tensors, entries, overwrites):
        def copy(tensor, entry):
            if entry is None:  # of what is overwritten
                return self.torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu") if overwrites else None
            return self.known.copy(tensor, entry)

        copies = [copy(tensor, entry) for tensor, entry in zip(tensors, entries)]
        small = all(each is not None and each.numel() <= self.known.limit for each in copies)
        return copies if small else None

    def _is_small(self, result):
        for part in parts(result):
            if isinstance(part, self.torch.Tensor) and part.is_cuda:
                most = LARGEST_FLOATS if part.is_floating_point() else self.known.limit
                if part.numel() > most:
                    return False
        return True

    def _on_host(self, function, name, args, kwargs, copies):
        args, kwargs = swapped(args, kwargs, copies, self.torch)
        if name in DRAWN:
            kwargs["generator"] = self.generator
        if name == "cuda" or (name == "to" and isinstance(args[1] if len(args) > 1 else None, int)):
            return args[0].clone()
        return function(*args, **kwargs)

    def _learned(self, result, value, name, drawn):
        """The result with its value: what the host reads of it is that."""
        torch = self.torch
        found, values = parts(result), parts(value)
        if not any(isinstance(part, torch.Tensor) for part in found):  # item(), tolist(), bool()
            if drawn:
                self.decided.drawn(name)
            self.substituted = True
            return value
        if len(found) != len(values):
            return result
        for part, known in zip(found, values):
            if not isinstance(part, torch.Tensor):
                continue
            if part.is_cuda:
                if part.shape == known.shape and part.dtype == known.dtype and self.known.entry(part) is None:
                    self._safely(self.known.learn, part, known, drawn, True)
            elif part.shape == known.shape and isinstance(known, torch.Tensor):
                if drawn:
                    self.decided.drawn(name)
                self.substituted = True
                self._safely(part.detach().copy_, known)
        return result

    # --- large ones whose elements are all the same

    def _same(self, function, name, args, kwargs, tensors, entries):
        if name in READS and len(tensors) == 1 and entries[0] is not None and entries[0].same is not None:
            self.runtime.give([tensors[0].numel() if bool(entries[0].same) else 0])
        result = function(*args, **kwargs)
        self.runtime.give(())
        if changes(name, kwargs):
            self._safely(self.known.forget, tensors[0])
        if name in SAME:
            element = self._safely(self.uniform.filled, name, args, kwargs)
        elif name in ELEMENTWISE:
            element = self._safely(self.uniform.element, function, args, kwargs, tensors, entries)
        else:
            return result
        if element is None:
            return result
        if isinstance(result, self.torch.Tensor) and result.is_cuda:
            if name == "sum" and result.numel():
                element = element * (tensors[0].numel() // result.numel())
            self._safely(self.known.learn_same, result, element.reshape(()).cpu())
        return result

    def event(self):
        """For the report: what was read and not known. None where every read was answered."""
        return self.decided.event(self.runtime.guesses(1))

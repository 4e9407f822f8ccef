"""Records the calls of torch and of modules while a model runs."""
from __future__ import annotations

import contextlib
import inspect
import weakref
from typing import AbstractSet, Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from gpuplan.asked_type import AskedType
from gpuplan.layers import (
    functions_followed, is_as_constructed, is_encoder_layer, is_self_attention, layer_of, named_tensors,
    refuse_fused_mask)
from gpuplan.source_lines import (CONVERSIONS, WITH_TYPE, asks_for_device, caller, half_only, layer_source, names_a_type, source_line,
                                  type_in_source, type_of_new)
from gpuplan.stored import HELD, Key, is_stored, key_of, named_tensors_of, taken_apart
from gpuplan.torch_calls import function_name, is_composed, stand_in, storage_address, without_gpu
from gpuplan.transformers_layers import run_function
from gpuplan.value_checks import Passing, found_of, passes, place_of
from gpuplan.values import Call, Frame, Type, Value, cache_is_windowed, flat_tensors, flat_values, is_cache, unique, with_values

# Functions that answer about a tensor, or that the interpreter calls by itself.
SILENT = frozenset("size dim stride numel is_contiguous __len__ __get__ __set__ is_floating_point data_ptr is_complex "
                   "element_size storage_offset _assert has_names __hash__ get_device __repr__ __format__ __bool__ "
                   "requires_grad_ register_hook is_same_size nelement untyped_storage set_grad_enabled "
                   "is_autocast_enabled _set_grad_enabled __iter__ broadcast_shapes result_type finfo".split())
FILLING = frozenset("zeros ones full empty rand randn new_zeros new_ones new_full new_empty zeros_like ones_like full_like empty_like "
                    "rand_like randn_like".split())
FLATTENING = frozenset(["flatten", "reshape"])
IN_PLACE_WITHOUT_RESULT = frozenset(["__setitem__"])


class Recorder(TorchFunctionMode):
    """Records calls while a model runs."""

    def __init__(self, model: nn.Module, asked: AskedType, rows: AbstractSet[int] = frozenset()):
        super().__init__()
        self.model, self.asked = model, asked
        self.paths = {id(m): name for name, m in model.named_modules()}
        self.weights = {id(t): (name, "parameter") for name, t in named_tensors(model, "_parameters")}
        for name, t in named_tensors(model, "_buffers"):
            self.weights[id(t)] = (name, "buffer")
        for path, module in model.named_modules():
            names: Dict[Key, Tuple[str, str]] = {}
            for name, t in named_tensors_of(module) if is_stored(module) else ():
                known = names.setdefault(key_of(t), self.weights.get(id(t), (f"{path}.{name}", "held")))
                self.weights.setdefault(id(t), known)
        self.values: Dict[int, Value] = {}
        self.references: Dict[int, Any] = {}
        self.storages: Dict[int, int] = {}  # of live tensors, by the address of their storage object
        self.event = 0
        self.inside = 0  # a module that is one layer runs
        self.autocast_left = 0  # contexts of torch.autocast(enabled=False)
        self.top = Frame(None, "", [])
        self.frames = [self.top]
        self.every_value: List[Value] = []
        self.alive: Dict[int, int] = {}  # Values of each storage
        self.loss_steps: List[Any] = []
        self.loss: Optional[Value] = None
        self.loss_event = 0  # of the model's own
        self.loss_in_forward = False  # which no layer is
        self.loss_of_itself = False  # which has its targets from the model, too
        self.grad = torch.is_grad_enabled()
        self.told = False  # code asked for its type, and was told the one that is asked for
        self.notes: Dict[str, Optional[str]] = {}  # what the spec leaves out, and of plans in which type alone
        self.checks: Dict[str, None] = {}  # of values, which were taken to pass
        self.caches: List[Tuple[Call, Any]] = []  # what fills a cache, and that
        self.input_names: Dict[Value, str] = {}  # where the batch names its tensors
        self.types_read: Dict[Tuple[Any, int], Value] = {}  # by code and line, whose dtype it asked for last
        self.batch: List[Value] = []  # its tensors
        self.rows = rows  # of the batch and of its images, where each is followed as all of them

    # Storages are told apart by their StorageImpl; an address is another storage's once the first has died, which its
    # last Value's death says.
    def storage_of(self, tensor: torch.Tensor) -> int:
        address = storage_address(tensor)
        if address not in self.storages:
            self.storages[address] = len(self.every_value)
        return self.storages[address]

    def value_of(self, tensor: torch.Tensor) -> Value:
        known = self.values.get(id(tensor))
        if known is not None:
            return known
        self.inside += 1  # what it is asked for is no call of the model's, though PyTorch 1.13 tells the mode
        value = Value(tensor, self.storage_of(tensor))
        self.inside -= 1
        value.weight, value.kind = self.weights.get(id(tensor), (None, "activation"))
        self.every_value.append(value)
        self.follow(tensor, value)
        return value

    def follow(self, tensor: torch.Tensor, value: Value) -> None:
        """The tensor is this Value, until it dies."""
        key, address = id(tensor), storage_address(tensor)
        self.values[key] = value
        self.alive[value.storage] = self.alive.get(value.storage, 0) + 1

        def died(_: Any) -> None:
            value.died = self.event
            self.values.pop(key, None)
            self.references.pop(key, None)
            self.alive[value.storage] -= 1
            if self.alive[value.storage] == 0:
                self.storages.pop(address, None)

        self.references[key] = weakref.ref(tensor, died)

    def one_by_one(self, tensor: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        """The samples of a batch, of which there are more in another run: all of them are one Value."""
        self.inside += 1
        samples: Tuple[torch.Tensor, ...] = tensor.unbind(0)
        self.inside -= 1
        value = self.value_of(samples[0])
        value.sample_of = self.value_of(tensor)
        for sample in samples[1:]:
            self.follow(sample, value)
        return samples

    def samples_joined(self, name: str, args: tuple, kwargs: dict) -> Optional[Value]:
        """What a cat or stack puts together again, sample by sample."""
        listed = args[0] if args and isinstance(args[0], (tuple, list)) else ()
        values = {self.values.get(id(t)) for t in listed}
        whole = getattr(values.pop(), "sample_of", None) if len(values) == 1 and name in ("cat", "concat", "stack") else None
        is_whole = whole is not None and whole.shape[0] == len(listed) and [*args[1:], kwargs.get("dim", 0)][0] == 0
        return whole if is_whole else None

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: Optional[dict] = None) -> Any:
        name = function_name(func)
        func, args, kwargs = without_gpu(func, name, args, kwargs or {})
        if self.inside:
            return func(*args, **kwargs)
        asked = getattr(getattr(func, "__self__", None), "__name__", "") if name == "__get__" else ""
        if asked == "dtype":
            self.note_type_read(args[0])
        if asked == "is_cuda" or asked == "device" and asks_for_device():
            here = func(*args, **kwargs) if asked == "device" else args[0].device
            if here.type == "meta":  # what the code does without data is not what it does on a GPU
                return torch.device("cuda") if asked == "device" else True
        if name in ("__bool__", "item") and args[0].is_meta:
            answer = self.answer(args[0], name)
            if answer is not None:
                return answer
        if self.asks_for_gradient(name, func, args, kwargs):
            return args[0] if name == "requires_grad_" else None
        if name == "unbind" and args[0].dim() and args[0].shape[0] in self.rows and [*args[1:], kwargs.get("dim", 0)][0] == 0:
            return self.one_by_one(args[0])
        if name in SILENT:
            return func(*args, **kwargs)
        if is_composed(func, name):
            with functions_followed(), self:
                return func(*args, **kwargs)
        return self.call(func, name, args, kwargs)

    def asks_for_gradient(self, name: str, func: Callable, args: tuple, kwargs: dict) -> bool:
        """x.requires_grad = True of a tensor of the forward, as for checkpoints: noted, and not done, since a graph of autograd's would
        hold what Python lets go."""
        named = getattr(getattr(func, "__self__", None), "__name__", "") if name == "__set__" else name
        wanted = [*args[1:], kwargs.get("requires_grad", True)][0]
        if named not in ("requires_grad", "requires_grad_") or not args[0].is_meta or id(args[0]) in self.weights or not wanted:
            return False
        self.event += 1
        call = Call("requires_grad_", (self.value_of(args[0]),), {}, self.event, self.source())
        call.results = [self.value_of(args[0])]
        self.add(call)
        return True

    def answer(self, tensor: torch.Tensor, name: str) -> Any:
        """What a healthy run is told where it asks for a value; None where nothing says so."""
        frame = caller()
        if frame is not None and frame.f_code.co_name == "find_packed_sequence_indices":  # transformers': of positions that count up
            self.checks[place_of(frame)] = None
            return True
        found, holds = self.value_of(tensor).everywhere, passes(frame)
        if frame is None or found is None and holds is None:
            return None
        if holds is None:
            self.notes[f"what {place_of(frame)} does where values are not finite; they are assumed to be."] = None
        else:
            self.checks[place_of(frame)] = None
        return found if found is not None else holds if name == "__bool__" or tensor.dtype == torch.bool else Passing(holds is True)

    def call(self, func: Callable, name: str, args: tuple, kwargs: dict) -> Any:
        self.event += 1
        if name.startswith("masked_fill") and len(args) > 2 and isinstance(args[2], torch.Tensor) and self.on_host(args[2:3]):
            args = (*args[:2], args[2].item())  # meta tensors of PyTorch 2.1 take no number of the host's
        whole = self.samples_joined(name, args, kwargs)
        call = Call(name, with_values(args, self.value_of), with_values(kwargs, self.value_of), self.event, self.source()) if whole is None else \
            Call(name + "_samples", (whole,), {}, self.event, self.source())
        call.to = self.named_type(name, call)
        call.function = func
        self.inside += 1  # PyTorch 2.1 looks rows up by weight[indices], which its own mode would not be told
        try:
            result = func(*args, **kwargs)
        except NotImplementedError:
            result = stand_in(name, args, kwargs)
            if result is None:
                raise
        finally:
            self.inside -= 1
        if call.to is not None and result is args[0]:
            result = result.clone()  # another tensor in another type than that of this run
        if name in FLATTENING and args and args[0].dim() == 4:
            result = self.without_base(result)
        results = flat_tensors(result)
        if results and self.on_host(results) and self.on_host(flat_tensors((args, kwargs))):
            return result
        call.results = [self.value_of(t) for t in results]
        if len(results) == 1:
            call.results[0].everywhere = found_of(name, [v.everywhere for v in flat_values((call.args, call.kwargs))])
        if results or name in IN_PLACE_WITHOUT_RESULT:
            self.add(call)
        return result

    def note_type_read(self, tensor: torch.Tensor) -> None:
        frame, value = caller(), self.values.get(id(tensor))
        if frame is None or value is None:
            return
        self.types_read[frame.f_code, frame.f_lineno] = value
        for half, place in half_only(frame):
            self.told = True
            if self.asked.precision == "fp32" and self.asked.amp in ("", half):  # what it is under autocast is not followed
                self.notes[f"code at {place} that runs only in {half}; the exporter runs the model in fp32."] = half

    def named_type(self, name: str, call: Call) -> Optional[Type]:
        """What a conversion is to, in whichever type the model is planned: a type that the code names, or that of a tensor.
        Here the model has one type, and in others x.float() and y.to(x.dtype) are copies. A softmax or a sum may have a
        type, too."""
        x = call.args[0] if call.args else None
        if name in WITH_TYPE and isinstance(x, Value):
            asked = call.dtype_given()
            return Type() if asked is not None and (asked != x.dtype or names_a_type(self.types_read)) else None
        if name in FILLING:
            return type_of_new(x if isinstance(x, Value) else None, self.types_read)
        if name not in CONVERSIONS or not isinstance(x, Value) or x.host:
            return None
        if name not in ("to", "type", "type_as"):
            return Type() if x.dtype.is_floating_point else None
        other = call.args[1] if len(call.args) > 1 else call.kwargs.get("other")
        found = Type(other) if isinstance(other, Value) else type_in_source(self.types_read, self.values)
        return None if found is None or found.like is x or not (x.dtype.is_floating_point or found.like) else found

    @staticmethod
    def on_host(tensors: Sequence[torch.Tensor]) -> bool:
        """Whether the GPU has none of these: the model and its batch are on the meta device here."""
        return all(t.device.type == "cpu" for t in tensors)

    def call_function(self, original: Callable, name: str, args: tuple, kwargs: dict) -> Any:
        """Runs a function of other people's as one call, its arguments by name."""
        if self.inside:
            return original(*args, **kwargs)
        self.event += 1
        bound = inspect.signature(original).bind(*args, **kwargs).arguments
        given = {k: None if is_cache(v) else with_values(v, self.value_of) for k, v in bound.items()}
        given["cached"] = any(is_cache(v) for v in bound.values())
        del bound
        call = Call(name, (), given, self.event, source_line())
        self.inside += 1
        try:
            result = run_function(original, name, args, kwargs)
        finally:
            self.inside -= 1
        if name == "cache_update":
            given["windowed"] = cache_is_windowed(*args, **kwargs)
            self.caches.append((call, weakref.ref(args[0])))
        call.results = [self.value_of(t) for t in flat_tensors(result)]
        self.add(call)
        return result

    def layer_of(self, module: nn.Module) -> Optional[str]:
        """The layer that a module is, where it runs as it was constructed and its weights are the model's."""
        name = layer_of(module)
        known = name is not None and is_as_constructed(module)
        return name if known and all(id(t) in self.weights for t in [*module.parameters(), *module.buffers()]) else None

    def call_module(self, original: Callable, module: nn.Module, args: tuple, kwargs: dict) -> Any:
        """Runs a module's __call__ as a frame, or as one call where the catalog has it."""
        if self.inside:
            return original(module, *args, **kwargs)
        path = self.paths.get(id(module), "")
        if is_stored(module):
            return self.call_stored(original, module, path, args, kwargs)
        layer = None if module is self.model else self.layer_of(module) or ("TransformerEncoderLayer" if is_encoder_layer(module, args, kwargs) else None)
        in_parts = layer == "MultiheadAttention" and not is_self_attention(module, args, kwargs)
        if in_parts:
            refuse_fused_mask(module, self.frames[-1].module, args, kwargs)
        if layer is not None and not in_parts:
            self.event += 1
            call = Call(layer, with_values(args, self.value_of), with_values(kwargs, self.value_of),
                        self.event, layer_source(source_line(), path, layer), module, path)
            self.inside += 1
            try:
                result = original(module, *args, **kwargs)
            finally:
                self.inside -= 1
            if layer == "Flatten" and isinstance(result, torch.Tensor):
                result = self.without_base(result)
            call.results = [self.value_of(t) for t in flat_tensors(result)]
            self.add(call)
            return result
        frame = self.open_frame(Frame(module, path, self.values_in((args, kwargs))))
        with functions_followed() if in_parts else contextlib.nullcontext():
            result = original(module, *args, **kwargs)
        self.close_frame(frame, result)
        checkpointed = frame.steps[0] if len(frame.steps) == 1 else None
        if isinstance(checkpointed, Frame) and checkpointed.module is None and checkpointed.results == frame.results:
            # All that it does, as transformers' layers do: eval mode has the same frame.
            frame.steps, frame.checkpoint, frame.reentrant, frame.held = \
                checkpointed.steps, checkpointed.checkpoint, checkpointed.reentrant, checkpointed.held
        return result

    def call_stored(self, original: Callable, module: nn.Module, path: str, args: tuple, kwargs: dict) -> Any:
        """A module of a library's as one call, in a frame that has its tensors."""
        stored, tensors = taken_apart(module)  # before it runs, which may move them within it
        frame = self.open_frame(Frame(module, path, self.values_in((args, kwargs))))
        self.event += 1
        call = Call(type(module).__name__, with_values(args, self.value_of), {**with_values(kwargs, self.value_of), HELD: [self.value_of(t) for t in tensors]},
                    self.event, layer_source(source_line(), path, type(module).__name__))
        call.function = stored
        self.inside += 1
        try:
            result = original(module, *args, **kwargs)
        finally:
            self.inside -= 1
        call.results = [self.value_of(t) for t in flat_tensors(result)]
        self.add(call)
        self.close_frame(frame, result)
        return result

    def add(self, call: Call) -> None:
        call.autocast = self.autocast_left == 0
        self.frames[-1].steps.append(call)

    def without_base(self, view: torch.Tensor) -> torch.Tensor:
        """The same without the tensor that it is a view of, which PyTorch would keep: of images in channels-last it is a copy."""
        self.inside += 1
        try:
            return view if view._base is None else view.detach()
        finally:
            self.inside -= 1

    def values_in(self, structure: Any) -> List[Value]:
        return unique([self.value_of(t) for t in flat_tensors(structure)])

    def open_frame(self, frame: Frame) -> Frame:
        self.frames[-1].steps.append(frame)
        self.frames.append(frame)
        return frame

    def close_frame(self, frame: Frame, result: Any) -> None:
        self.frames.pop()
        self.event += 1
        frame.end = self.event
        frame.results = self.values_in(result)

    def close_checkpoint(self, frame: Frame, result: Any, reentrant: bool = False) -> None:
        """Where it ran one module, that module's frame is checkpointed."""
        self.close_frame(frame, result)
        inner = frame.steps[0] if len(frame.steps) == 1 else None
        if isinstance(inner, Frame) and inner.results == frame.results:
            self.frames[-1].steps[-1] = inner
            frame = inner
        frame.checkpoint, frame.reentrant = True, reentrant

    def last_frame(self) -> Frame:
        """The one that was closed last, in the frame that is open."""
        frame = self.frames[-1].steps[-1]
        assert isinstance(frame, Frame)
        return frame

    def source(self) -> str:
        """Of the call that is made: the model's line, or the module of torch's that makes it."""
        at = source_line()
        frame = self.frames[-1]
        return f"module {frame.path} ({frame.kind})" if at == "the model" and frame.path else at

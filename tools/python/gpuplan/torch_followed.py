"""What of PyTorch is no call on tensors: custom autograd functions, checkpoints, autocast and compiled code of a model
are recorded, refused or undone while it runs."""
from __future__ import annotations

import contextlib
import functools
import sys
from types import CellType
from typing import Any, Callable, Iterator, List, Optional, Tuple

import torch
import torch.utils.checkpoint
from torch import nn
from torch.overrides import TorchFunctionMode

from gpuplan.asked_type import TYPES, AskedType
from gpuplan.errors import ExportError
from gpuplan.recorder import Recorder
from gpuplan.replacements import Replacements
from gpuplan.simulated import simulated_capability
from gpuplan.source_lines import HALVES, source_line
from gpuplan.torch_calls import function_name
from gpuplan.value_checks import place_of
from gpuplan.values import Call, Frame, flat_tensors, with_values


@contextlib.contextmanager
def followed(recorder: Recorder) -> Iterator[None]:
    """Custom autograd functions, checkpoints, autocast and compiled code of the model are recorded, refused or undone."""
    replacements = Replacements()
    try:
        follow_indexing(recorder, replacements)
        follow_custom_functions(recorder, replacements)
        follow_checkpoints(recorder, replacements)
        follow_autocast(recorder, replacements)
        follow_causal_hints(recorder, replacements)
        answer_for_gpu(replacements)
        launch_nothing(replacements)
        # Of one process; its own forward wants a GPU (torch/nn/modules/batchnorm.py).
        replacements.set(nn.SyncBatchNorm, "forward", nn.modules.batchnorm._BatchNorm.forward)
        replacements.set(nn.SyncBatchNorm, "_check_input_dim", lambda module, x: None)
        with not_compiled(replacements):
            yield
    finally:
        replacements.restore()


def follow_indexing(recorder: Recorder, replacements: Replacements) -> None:
    """Before PyTorch 2.2 a mode is not told of x[0], x[a:b] and x[index] (torch/csrc/autograd/python_variable_indexing.cpp)."""
    recorder.inside += 1
    with IndexingSeen() as probe:
        _ = torch.empty(1, device="meta")[0:1]
    recorder.inside -= 1
    if probe.seen:
        return

    def indexed(name: str) -> Callable:
        original = getattr(torch.Tensor, name)

        def run(*args: Any) -> Any:
            if recorder.inside:
                return original(*args)
            recorder.inside += 1
            try:
                return recorder.call(original, name, args, {})
            finally:
                recorder.inside -= 1
        return run

    for name in ("__getitem__", "__setitem__"):
        replacements.set(torch.Tensor, name, indexed(name))


class IndexingSeen(TorchFunctionMode):
    """Whether a mode is told of indexing."""
    seen = False

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: Optional[dict] = None) -> Any:
        self.seen = self.seen or function_name(func) == "__getitem__"
        return func(*args, **(kwargs or {}))


class ValuesRead(TorchFunctionMode):
    """Numbers that a custom function reads of tensors are not there; what it runs is recorded where a GPU is simulated."""

    READ = {"item": 1, "__int__": 1, "__index__": 1, "__float__": 1.0, "__bool__": True}
    MOST = 1000  # of one call: a loop that waits for another value would not end

    def __init__(self, recorder: Recorder, function: str):
        super().__init__()
        self.recorder, self.function, self.left = recorder, function, self.MOST

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function_name(func)
        if name in self.READ and args and args[0].device.type == "meta" and self.left:
            self.left -= 1
            self.recorder.notes[f"the values of tensors that {self.function} reads; each is assumed to be 1 here, and 0 where it was recorded."] = None
            return self.READ[name]
        return func(*args, **(kwargs or {}))


def follow_custom_functions(recorder: Recorder, replacements: Replacements) -> None:
    """A torch.autograd.Function of the model's code is one call, whatever its forward runs. What it saves and its backward
    allocates only its code knows; where there is no gradient, it is what its forward runs."""
    def wrapped(original: Callable, function: Any) -> staticmethod:
        def forward(*args: Any) -> Any:
            if recorder.inside or not torch.is_grad_enabled() and not recorder.grad:
                return original(*args)
            recorder.event += 1
            call = Call("autograd.Function " + function.__name__, with_values(args[1:], recorder.value_of), {}, recorder.event, source_line())
            call.function, call.grad = function.apply, recorder.grad
            recorder.inside += 1
            try:
                with ValuesRead(recorder, function.__name__):
                    result = original(*args)
            finally:
                recorder.inside -= 1
            call.results = recorder.values_in(result)
            recorder.frames[-1].steps.append(call)
            return result
        return staticmethod(forward)

    waiting = list(torch.autograd.Function.__subclasses__())
    while waiting:
        function = waiting.pop()
        waiting += function.__subclasses__()
        forward = function.__dict__.get("forward")
        if isinstance(forward, staticmethod) and function.__module__.partition(".")[0] != "torch":
            replacements.set(function, "forward", wrapped(forward.__func__, function))


def tensors_of_function(function: Any) -> List[torch.Tensor]:
    """Those that a partial or a closure has."""
    if isinstance(function, functools.partial):
        return flat_tensors((function.args, function.keywords)) + tensors_of_function(function.func)
    if (getattr(function, "__module__", None) or "").startswith("gpuplan."):
        return []  # nn.Module's call as it is recorded
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or () if cell != CellType()]
    return [t for held in cells for t in (tensors_of_function(held) if callable(held) else flat_tensors(held))]


def follow_checkpoints(recorder: Recorder, replacements: Replacements) -> None:
    """What torch.utils.checkpoint.checkpoint runs is a frame. It calls the function between two steps of a generator
    (one function before PyTorch 2.1), and one that reenters autograd in a Function."""
    module = torch.utils.checkpoint

    def generator(*_: Any, **__: Any) -> Iterator[None]:
        given = sys._getframe(1).f_locals  # of checkpoint()
        if given.get("context_fn") is not getattr(module, "noop_context_fn", None) and torch.is_grad_enabled():
            raise ExportError(f"{source_line()}: torch.utils.checkpoint with context_fn=, which gpuplan does not plan")
        if recorder.inside:
            yield
            return
        frame = recorder.open_frame(Frame(None, recorder.frames[-1].path, recorder.values_in((given["args"], given["kwargs"]))))
        del given
        yield
        recorder.close_checkpoint(frame, sys._getframe(1).f_locals["ret"])

    def followed_run(run: Callable, args: tuple, kwargs: dict, reentrant: bool = False) -> Any:
        if recorder.inside:
            return run(*args, **kwargs)
        frame = recorder.open_frame(Frame(None, recorder.frames[-1].path, recorder.values_in((args, kwargs))))
        result = run(*args, **kwargs)
        recorder.close_checkpoint(frame, result, reentrant)
        return result

    def function(run: Callable, preserve_rng_state: bool = True, *args: Any, **kwargs: Any) -> Any:
        return followed_run(run, args, kwargs)

    def reentrant(ctx: Any, run: Callable, preserve_rng_state: bool, *args: Any) -> Any:
        held = recorder.values_in(tensors_of_function(run))
        with torch.set_grad_enabled(recorder.grad):  # what runs again in backward
            result = followed_run(run, args, {}, reentrant=True)
        if not recorder.inside:
            recorder.last_frame().held = [v for v in held if v.kind == "activation"]
        return result

    for name in ("_checkpoint_without_reentrant_generator_impl", "_checkpoint_without_reentrant_generator"):
        if name in vars(module):
            replacements.set(module, name, generator)
    if "_checkpoint_without_reentrant" in vars(module):
        replacements.set(module, "_checkpoint_without_reentrant", function)
    replacements.set(module.CheckpointFunction, "forward", staticmethod(reentrant))


def follow_autocast(recorder: Recorder, replacements: Replacements) -> None:
    """What a model runs under autocast(enabled=False) has `autocast: false` in the spec. One that turns it on by itself computes in types
    that the spec, whose precision --amp chooses, does not say, but for the one that is asked for."""
    autocast = torch.autocast
    make, enter, leave = autocast.__init__, autocast.__enter__, autocast.__exit__

    def init(self: Any, device_type: str = "cuda", *args: Any, **kwargs: Any) -> None:
        enabled = kwargs.get("enabled", args[1] if len(args) > 1 else True)
        if enabled and not recorder.inside and (recorder.autocast_left or not is_asked_for(kwargs.get("dtype", args[0] if args else None))):
            raise ExportError(f"{source_line()}: the model enables autocast itself: export it without autocast, and plan with --amp "
                              "bf16 or fp16")
        recorder.told = recorder.told or enabled and not recorder.inside
        make(self, "cpu", enabled=False)
        self.of_the_gpu = device_type != "cpu" and not enabled

    def is_asked_for(dtype: Optional[torch.dtype]) -> bool:
        amp = recorder.asked.amp
        return bool(amp) and dtype in (None, TYPES[amp])

    def entered(self: Any) -> Any:
        if not hasattr(self, "of_the_gpu"):  # a decorator's, made where no GPU was there to enable it for
            recorder.notes[f"autocast of a function at {source_line()}; --amp applies to it."] = None
        recorder.autocast_left += getattr(self, "of_the_gpu", False)
        return enter(self)

    def left(self: Any, *exception: Any) -> Any:
        recorder.autocast_left -= getattr(self, "of_the_gpu", False)
        return leave(self, *exception)

    replacements.set(autocast, "__init__", init)
    replacements.set(autocast, "__enter__", entered)
    replacements.set(autocast, "__exit__", left)
    answer_for_autocast(recorder, replacements)


def answer_for_autocast(recorder: Recorder, replacements: Replacements) -> None:
    """Code that asks whether autocast is on is told so where the model is asked for under it; where it is not, plans with --amp have a note."""
    amp = recorder.asked.amp

    def asked_by_model() -> bool:
        asking = sys._getframe(2)
        return not recorder.inside and asking.f_globals.get("__name__", "").partition(".")[0] not in ("torch", "transformers")  # which know

    def enabled(device_type: str = "cuda") -> bool:
        if device_type == "cpu" or not asked_by_model():
            return False
        recorder.told = True
        for half in HALVES if recorder.asked == AskedType() else ():
            recorder.notes[f"what {place_of(sys._getframe(1))} does under autocast to {half}; the exporter runs the model without it."] = half
        return bool(amp) and recorder.autocast_left == 0

    def type_of(original: Callable) -> Callable:
        def asked(*args: Any) -> Any:
            return TYPES[amp] if amp and args != ("cpu",) and asked_by_model() else original(*args)
        return asked

    replacements.set(torch, "is_autocast_enabled", enabled)
    for name in ("get_autocast_dtype", "get_autocast_gpu_dtype"):
        if hasattr(torch, name):
            replacements.set(torch, name, type_of(getattr(torch, name)))


def answer_for_gpu(replacements: Replacements) -> None:
    """Code that finds a tensor on the GPU asks which one it is: the simulated one."""
    def capability(device: Any = None) -> Tuple[int, int]:
        return simulated_capability()

    if not torch.cuda.is_available():
        replacements.set(torch.cuda, "get_device_capability", capability)


def launch_nothing(replacements: Replacements) -> None:
    """Triton compiles a kernel for the GPU that is there. What it computes is not needed here, and what PyTorch allocates for it
    is recorded where one is simulated."""
    jit = sys.modules.get("triton.runtime.jit")
    if jit is not None and not torch.cuda.is_available():
        replacements.set(jit.KernelInterface, "__getitem__", lambda kernel, grid: lambda *_, **__: None)


def follow_causal_hints(recorder: Recorder, replacements: Replacements) -> None:
    """nn.Transformer reads the values of a mask to know whether it is the causal one; here they are not there."""
    module = nn.modules.transformer
    original = getattr(module, "_detect_is_causal_mask", None)
    if original is None:
        return

    def detect(mask: Optional[torch.Tensor], is_causal: Optional[bool] = None, size: Optional[int] = None) -> bool:
        if is_causal is not None or mask is None:
            return is_causal is True
        square = mask.dim() == 2 and mask.shape[0] == mask.shape[1] == (size or mask.shape[0])
        if square:
            recorder.notes["whether nn.Transformer's square masks are causal; they are assumed to be."] = None
        return square

    replacements.set(module, "_detect_is_causal_mask", detect)


@contextlib.contextmanager
def not_compiled(replacements: Replacements) -> Iterator[None]:
    """torch.compile's functions run as they are written."""
    if hasattr(torch, "compile"):
        def as_written(model: Any = None, **_: Any) -> Any:
            return (lambda function: function) if model is None else model
        replacements.set(torch, "compile", as_written)
    if "torch._dynamo" not in sys.modules:
        yield
    elif hasattr(getattr(torch, "compiler", None), "set_stance"):
        with torch.compiler.set_stance("force_eager"):
            yield
    else:
        config = sys.modules["torch._dynamo"].config
        was = getattr(config, "disable", False)
        config.disable = True
        try:
            yield
        finally:
            config.disable = was

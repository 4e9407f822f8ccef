"""Computes the values of small tensors on the GPU beside the run, where all that they are made of is known, so that
code that looks at values goes the way that it goes on a GPU. A mode of torch.overrides sees every call of a function
of torch that Python makes. The GPU's operator runs as it is, so what it allocates does not change; the same function
then runs on the copies that the host has (gpuplan_shadow_known.py).

* What the host reads (item(), tolist(), bool()) of a known tensor is its value.
* Where a result's size depends on values, the function runs on the host first, and the runtime gives PyTorch the count
  when it reads it (runtime/answers.h).
* What is random is drawn from a generator of our own, and so is which of unknown floats is the greatest.
* Every other read is counted with its line: it is answered with zeros.

torch.compile does not see the mode: it leaves while a compiled function runs, in which nothing is computed.
"""

import functools
import sys

from gpuplan_shadow_evaluate import Values
from gpuplan_shadow_known import Known
from gpuplan_shadow_runtime import Runtime, make_handler


def install(torch, after_import, settings):
    """Starts the mode in this thread. Returns the Values, whose event the report has."""
    runtime = Runtime()
    values = Values(torch, Known(torch, settings.values, runtime), runtime, settings.seed, settings.routing)
    mode = _mode_of(torch)(values)
    mode.__enter__()
    _hide_from_fast_paths(torch, mode)
    _leave_optimizers(torch, mode)
    after_import("torch._dynamo.eval_frame", lambda module: _leave_compiled_code(torch, module, mode))
    after_import("torch._dynamo.aot_compile", lambda module: _leave_code_compiled_ahead(torch, module, mode))
    return values


def _mode_of(torch):
    GETTER = type(torch.Tensor.shape.__get__)

    class Mode(torch.overrides.TorchFunctionMode):
        def __init__(self, values):
            super().__init__()
            self.call = values.call
            handler = make_handler(self, values.names, GETTER, values.call, values.restore, values.forget)
            if handler is not None:
                self.__torch_function__ = handler  # does the same, and takes half as long

        def __torch_function__(self, function, types, args=(), kwargs=None):
            if type(function) is GETTER:
                return function(*args)
            return self.call(function, args, kwargs)

    return Mode


class _Paused:
    """The mode leaves, if it is the innermost, and comes back."""

    def __init__(self, torch, mode):
        self.stack = torch.overrides
        self.mode = mode
        self.left = False

    def __enter__(self):
        self.left = self.stack._get_current_function_mode() is self.mode
        if self.left:
            self.stack._pop_mode()

    def __exit__(self, *error):
        if self.left:
            self.left = False
            self.stack._push_mode(self.mode)


def _hide_from_fast_paths(torch, mode):
    """nn.TransformerEncoder and nn.MultiheadAttention leave their fast path where a mode is on."""
    original = torch.overrides.has_torch_function

    @functools.wraps(original)
    def has_torch_function(arguments):
        with _Paused(torch, mode):
            return original(arguments)

    torch.overrides.has_torch_function = has_torch_function


def _leave_compiled_code(torch, module, mode):
    context = getattr(module, "_TorchDynamoContext", None)
    if context is None:
        return
    original = context.__call__

    @functools.wraps(original)
    def wrap(self, function):
        compiled = original(self, function)
        if not callable(compiled) or isinstance(compiled, (type, torch.nn.Module)):
            return compiled

        @functools.wraps(compiled)
        def call(*args, **kwargs):
            with _Paused(torch, mode):
                return compiled(*args, **kwargs)

        return call

    context.__call__ = wrap


def _leave_code_compiled_ahead(torch, module, mode):
    """aot_compile() of a compiled function, as vLLM calls it, and what it returns."""

    def without_mode(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            with _Paused(torch, mode):
                return function(*args, **kwargs)

        return call

    for name in ("aot_compile_fullgraph", "aot_compile_module"):
        if hasattr(module, name):
            setattr(module, name, without_mode(getattr(module, name)))
    for name in ("AOTCompiledFunction", "AOTCompiledModel"):
        kind = getattr(module, name, None)
        if kind is not None:
            kind.__call__ = without_mode(kind.__call__)


def _leave_optimizers(torch, mode):
    """An optimizer's step asks each parameter for its gradient, and changes what it changes with a new version."""
    optimizer = sys.modules["torch.optim.optimizer"]
    paused = _Paused(torch, mode)
    optimizer.register_optimizer_step_pre_hook(lambda *step: paused.left or paused.__enter__())
    optimizer.register_optimizer_step_post_hook(lambda *step: paused.__exit__())

"""Computes the values of small tensors on the GPU beside the run, where all that they are made of is known, so that
code that looks at values goes the way that it goes on a GPU. The runtime stands in front of torch's own functions
(runtime/python_hooks.cpp). The GPU's operator runs as it is, so what it allocates does not change; the same function
then runs on the copies that the host has (gpuplan_shadow_known.py).

* What the host reads (item(), tolist(), bool()) of a known tensor is its value.
* Where a result's size depends on values, the function runs on the host first, and the runtime gives PyTorch the count
  when it reads it (runtime/answers.h).
* What is random is drawn from a generator of our own, and so is which of unknown floats is the greatest.
* Every other read is counted with its line: it is answered with zeros.

Only the thread that imported torch is looked at, and no compiled function while it runs. What a function of torch
calls in turn is part of it.
"""

import functools
import sys
import sysconfig

from gpuplan_shadow_evaluate import Values
from gpuplan_shadow_known import Known
from gpuplan_shadow_runtime import Hooks, Runtime
from gpuplan_shadow_value_rules import BOUNDS, PLAIN, UNHOOKED, UNSEEN

# type of a function from C -> how many bytes into the object the address of its entry in a table lies: CPython's
# Include/cpython/methodobject.h and descrobject.h, from 3.8 to 3.14, with a GIL and without Py_TRACE_REFS.
ENTRIES = {"builtin_function_or_method": 16, "method_descriptor": 40}
MAPPING = 112  # the same of a type's slots as a mapping: Include/cpython/object.h
NONE, IF_KNOWN, OF_BOUNDS, ALWAYS = range(4)  # Interest of runtime/python_hooks.cpp


def install(torch, after_import, settings, unknown):
    """Looks at the calls of this thread from now on. Returns the Values, whose event the report has; None, and says
    so by `unknown`, where that cannot be done."""
    runtime, hooks = Runtime(), Hooks()
    values = Values(torch, Known(torch, settings.values, runtime), runtime, settings.seed, settings.routing)
    asked = (values.call, values.begins_unknown, values.of_unknown, values.restore, values.forget)
    if not _is_known_python() or not hooks.look(asked, values.known.entries, torch.Tensor):
        unknown("values: none is computed, since functions of Python %s cannot be hooked" % sys.version.split()[0])
        return None
    left_out = _hook_all(torch, hooks)
    if left_out:
        unknown("values: %d functions of this PyTorch are not looked at, such as %s" % (len(left_out), left_out[0]))
    _leave_optimizers(hooks)
    after_import("torch._dynamo.eval_frame", lambda module: _leave_compiled_code(torch, module, hooks))
    after_import("torch._dynamo.aot_compile", lambda module: _leave_code_compiled_ahead(module, hooks))
    return values


def _is_known_python():
    ordinary = not sysconfig.get_config_var("Py_GIL_DISABLED") and not hasattr(sys, "getobjects")
    return sys.implementation.name == "cpython" and (3, 8) <= sys.version_info[:2] <= (3, 14) and ordinary


def _hook_all(torch, hooks):
    """Returns the names for which there was no room."""
    c, left_out = torch._C, []
    kinds = [torch.Tensor]
    for kind in kinds:  # those to come have their base's slots
        hooks.hook_subscripts(kind, MAPPING, c.TensorBase.__getitem__, c.TensorBase.__setitem__)
        kinds += [each for each in kind.__subclasses__() if each not in kinds]
    for space in (c._VariableFunctions, c.TensorBase, c._nn, c._linalg, c._fft, c._special):
        for name in dir(space):
            function = getattr(space, name)
            if type(function).__name__ in ENTRIES and name not in UNHOOKED and not _is_pythons(function, space):
                if _hook(hooks, function) < 0:
                    left_out.append(name)
    return left_out


def _is_pythons(function, space):
    """Methods that torch's types have from `object` and `type`."""
    return function.__name__.startswith("__") and getattr(function, "__objclass__", None) is not space


def _hook(hooks, function):
    kind, name = type(function).__name__, function.__name__
    interest = NONE if name in UNSEEN else OF_BOUNDS if name in BOUNDS else IF_KNOWN if name in PLAIN else ALWAYS
    return hooks.hook(function, ENTRIES[kind], name, kind == "method_descriptor", interest)


def _without(hooks, function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        with hooks:
            return function(*args, **kwargs)

    return call


def _leave_compiled_code(torch, module, hooks):
    context = getattr(module, "_TorchDynamoContext", None)
    if context is None:
        return
    original = context.__call__

    @functools.wraps(original)
    def wrap(self, function):
        compiled = original(self, function)
        if not callable(compiled) or isinstance(compiled, (type, torch.nn.Module)):
            return compiled
        return _without(hooks, compiled)

    context.__call__ = wrap


def _leave_code_compiled_ahead(module, hooks):
    """aot_compile() of a compiled function, as vLLM calls it, and what it returns."""
    for name in ("aot_compile_fullgraph", "aot_compile_module"):
        if hasattr(module, name):
            setattr(module, name, _without(hooks, getattr(module, name)))
    for name in ("AOTCompiledFunction", "AOTCompiledModel"):
        kind = getattr(module, name, None)
        if kind is not None:
            kind.__call__ = _without(hooks, kind.__call__)


def _leave_optimizers(hooks):
    """An optimizer's step changes what it changes with a new version. One that fails ends at the next."""
    optimizer = sys.modules["torch.optim.optimizer"]
    in_step = False

    def begin(*step):
        nonlocal in_step
        if not in_step:
            hooks.pause(1)
        in_step = True

    def end(*step):
        nonlocal in_step
        if in_step:
            hooks.pause(0)
        in_step = False

    optimizer.register_optimizer_step_pre_hook(begin)
    optimizer.register_optimizer_step_post_hook(end)

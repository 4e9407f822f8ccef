"""torch.compile. Compiled programs run as they are: Inductor and Triton build real kernels, which the runtime launches
like any others. Here is what the report says of them: how many graphs, and where a graph broke.
--no-compile leaves the compiler out."""

import functools
import os


def leave_out(torch):
    """torch.compile and Module.compile return what they were given. Decorated functions stay themselves."""

    @functools.wraps(torch.compile)
    def compile(model=None, *args, **kwargs):
        return (lambda function: function) if model is None else model

    torch.compile = compile
    if hasattr(torch.nn.Module, "compile"):

        @functools.wraps(torch.nn.Module.compile)
        def compile_module(self, *args, **kwargs):
            return None

        torch.nn.Module.compile = compile_module


def watch(after_import, safe, compilations):
    """Tells `compilations()`, this process's Compilations, of each graph and each break; `safe` keeps an error of ours
    out of the script."""
    began = safe(lambda: compilations().begin_graph())
    broke = safe(lambda reason: compilations().note_break(reason))

    def loaded(module):
        _before(module.OutputGraph, "call_user_compiler", began)
        _after(module.GraphCompileReason, "__post_init__", broke)

    after_import("torch._dynamo.output_graph", safe(loaded))
    after_import("torch._dynamo.trace_rules", safe(_leave_the_hook_alone))


def _leave_the_hook_alone(module):
    """Dynamo takes up every function that a compiled one calls, also those that an optimizer's step calls of ours."""
    module.SKIP_DIRS.append(os.path.dirname(os.path.abspath(__file__)) + os.sep)
    module._recompile_re()


class Compilations:
    """What a process has compiled. `say(event)` takes each compilation as it begins, so that the wait is explained."""

    def __init__(self, say):
        self.say = say
        self.graphs = 0  # that Dynamo has handed to a backend
        self.breaks = {}  # (file, line, reason) -> how often

    def begin_graph(self):
        self.graphs += 1
        self.say({"event": "compiling", "graph": self.graphs})

    def note_break(self, reason):
        if not getattr(reason, "graph_break", True):
            return
        frame = reason.user_stack[-1] if reason.user_stack else None
        text = (str(reason.reason).splitlines() or [""])[0].strip()
        key = (frame.filename, frame.lineno, text) if frame is not None else ("", 0, text)
        self.breaks[key] = self.breaks.get(key, 0) + 1

    def event(self):
        """None where nothing was compiled."""
        if not self.graphs and not self.breaks:
            return None
        places = [
            {"file": file, "line": line, "reason": reason, "times": times}
            for (file, line, reason), times in sorted(self.breaks.items(), key=lambda item: -item[1])
        ]
        return {"event": "compiled", "graphs": self.graphs, "breaks": places}


def _before(owner, name, call):
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def method(*args, **kwargs):
        call()
        return original(*args, **kwargs)

    setattr(owner, name, method)


def _after(owner, name, call):
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def method(self, *args, **kwargs):
        result = original(self, *args, **kwargs)
        call(self)
        return result

    setattr(owner, name, method)

"""torch.compile: left out (--no-compile), or, where it gets as far as Inductor with tensors on the GPU, refused in one
clear line. Inductor writes Triton kernels, and Triton builds them with the driver of a real GPU. Other backends
("eager", "aot_eager") and Inductor on the CPU go on working."""

import functools

NEEDS_TRITON = (
    "torch.compile needs Triton, which needs a GPU's driver; run it eagerly: gpuplan shadow --no-compile -- ..."
)


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


def refuse(after_import, give_up):
    """Calls give_up(NEEDS_TRITON), which does not return, at Inductor's first compilation for a GPU."""

    def loaded(module):
        original = module.compile_fx

        @functools.wraps(original)
        def compile_fx(graph, inputs, *args, **kwargs):
            if _on_a_gpu(graph, inputs):
                give_up(NEEDS_TRITON)
            return original(graph, inputs, *args, **kwargs)

        module.compile_fx = compile_fx

    after_import("torch._inductor.compile_fx", loaded)


def _on_a_gpu(graph, inputs):
    import torch

    def on_a_gpu(value):
        return isinstance(value, torch.Tensor) and value.device.type == "cuda"

    if any(on_a_gpu(value) for value in inputs if value is not None):
        return True
    for node in getattr(getattr(graph, "graph", None), "nodes", ()):  # a graph that makes its tensors itself
        if on_a_gpu(node.meta.get("example_value")) or on_a_gpu(node.meta.get("val")):
            return True
    return False

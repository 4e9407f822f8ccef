"""Lets torch.distributed's object collectives work where kernels compute nothing.

all_gather_object and its like pickle an object into a tensor, exchange sizes, and take a maximum or join sizes with
kernels on the GPU. The exchange is real under the shadow runtime; those few kernels are not. While such a function
runs, what an operator would have put into a small CUDA tensor is computed on the CPU as well and copied there. Every
operator still runs as it would, so that allocations and launches are those of the script.
"""

import functools
import sys

_LIMIT = 1 << 20  # elements; pickled objects above it are not exchanged anyway
_LEFT_ALONE = ("empty", "set_", "record_stream", "new_empty")

OBJECT_COLLECTIVES = (
    "all_gather_object",
    "gather_object",
    "broadcast_object_list",
    "scatter_object_list",
    "send_object_list",
    "recv_object_list",
)


def _host_mode(torch):
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_map

    def is_small_cuda(value):
        return isinstance(value, torch.Tensor) and value.is_cuda and value.numel() <= _LIMIT

    def to_host(value):
        if isinstance(value, torch.Tensor):
            return value.cpu() if value.is_cuda else value
        if isinstance(value, torch.device) and value.type == "cuda":
            return torch.device("cpu")
        return value

    def tensors(value):
        values = value if isinstance(value, (list, tuple)) else [value]
        return [each for each in values if isinstance(each, torch.Tensor)]

    class ComputeOnHost(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            name = func._schema.name
            computes = name.startswith("aten::") and not func.is_view
            if not computes or name[len("aten::") :].startswith(_LEFT_ALONE):
                return func(*args, **kwargs)
            host_args, host_kwargs = tree_map(to_host, (args, kwargs))  # before an in-place operator changes them
            result = func(*args, **kwargs)
            if any(is_small_cuda(each) for each in tensors(result)):
                host_result = func(*host_args, **host_kwargs)
                for each, value in zip(tensors(result), tensors(host_result)):
                    if is_small_cuda(each) and each.shape == value.shape:
                        each.copy_(value)
            return result

    return ComputeOnHost


def _wrapped(function, mode):
    @functools.wraps(function)
    def call(*args, **kwargs):
        with mode():
            return function(*args, **kwargs)

    return call


def replace(name, make):
    """Puts make(original) in the place of torch.distributed's function `name`, under both of its names."""
    import torch.distributed as distributed

    c10d = sys.modules["torch.distributed.distributed_c10d"]
    original = getattr(c10d, name, None)
    if original is None:
        return
    replacement = make(original)
    setattr(c10d, name, replacement)
    if getattr(distributed, name, None) is original:
        setattr(distributed, name, replacement)


def install(torch):
    mode = _host_mode(torch)
    for name in OBJECT_COLLECTIVES:
        replace(name, lambda original: _wrapped(original, mode))

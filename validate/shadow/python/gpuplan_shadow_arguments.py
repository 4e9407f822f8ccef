"""The arguments of a call of torch: what it does with them, and the same call on the host."""


def parts(result):
    return result if isinstance(result, (tuple, list)) else (result,)


def changes(name, kwargs):
    """Whether the function writes into its arguments: add_, __iadd__, __setitem__, out=..."""
    if name.startswith("__"):
        return name == "__setitem__" or (name.startswith("__i") and name not in ("__invert__", "__int__", "__index__"))
    return name.endswith("_") or "out" in kwargs


def swapped(args, kwargs, copies, torch):
    """The arguments with the copies in the place of the tensors on the GPU, in order, and the host as the device."""
    left = iter(copies)
    tensor = torch.Tensor

    def swap(argument):
        if isinstance(argument, tensor):
            return next(left) if argument.is_cuda else argument
        if isinstance(argument, (tuple, list)):
            swapped_parts = [next(left) if isinstance(part, tensor) and part.is_cuda else part for part in argument]
            return tuple(swapped_parts) if isinstance(argument, tuple) else swapped_parts
        return argument

    args = [swap(argument) for argument in args]
    kwargs = {key: swap(value) for key, value in kwargs.items()}
    return on_host(args, kwargs)


def on_host(args, kwargs):
    args = ["cpu" if _is_gpu(argument) else argument for argument in args]
    kwargs = {key: "cpu" if key == "device" or _is_gpu(value) else value for key, value in kwargs.items()}
    kwargs.pop("pin_memory", None)
    return args, kwargs


def _is_gpu(argument):
    return type(argument).__name__ == "device" and argument.type == "cuda" or (
        isinstance(argument, str) and argument.startswith("cuda")
    )

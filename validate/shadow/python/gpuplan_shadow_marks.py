"""Whose the memory is: addresses of parameters, gradients, optimizer state and buffers, read from the objects that hold
them. Reading an address neither copies nor keeps a tensor."""


def addresses(tensor):
    """Where the tensor's data lies; a DTensor or a quantized tensor has several parts."""
    flatten = getattr(type(tensor), "__tensor_flatten__", None)
    if flatten is not None:
        found = []
        for name in tensor.__tensor_flatten__()[0]:
            found.extend(addresses(getattr(tensor, name)))
        return found
    try:
        return [tensor.untyped_storage().data_ptr()]
    except Exception:  # sparse tensors and fake ones have no storage
        return []


def gradients(optimizer):
    """Addresses of the gradients that the optimizer's parameters have now. Called each step, so it takes the short way
    for plain tensors: an address within a block is as good as its start."""
    import torch

    plain = (torch.Tensor, torch.nn.Parameter)
    found = []
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            gradient = parameter.grad
            if gradient is None:
                continue
            if type(gradient) in plain and not gradient.is_sparse:
                found.append(gradient.data_ptr())
            else:
                found.extend(addresses(gradient))
    return found


def _tensors(value, depth=0):
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif depth < 6 and type(value) in (list, tuple):
        for part in value:
            for tensor in _tensors(part, depth + 1):
                yield tensor
    elif depth < 6 and isinstance(value, dict):
        for part in list(value.values()):
            for tensor in _tensors(part, depth + 1):
                yield tensor


def everything(optimizers):
    """(address, category) of all that is alive now: the optimizers' parameters, and those and the buffers of every
    module that the garbage collector knows."""
    import gc

    import torch

    found = []

    def add(tensor, category):
        if tensor is not None:
            found.extend((address, category) for address in addresses(tensor))

    def add_parameter(parameter):
        add(parameter, "parameters")
        if parameter is not None and parameter.is_leaf:
            add(parameter.grad, "gradients")

    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                add_parameter(parameter)
        for tensor in _tensors(dict(optimizer.state)):
            add(tensor, "optimizer state")
    for thing in gc.get_objects():
        if not issubclass(type(thing), torch.nn.Module):  # isinstance() would ask a proxy for its __class__
            continue
        for parameter in list((thing.__dict__.get("_parameters") or {}).values()):
            if parameter is not None:
                add_parameter(parameter)
        for buffer in list((thing.__dict__.get("_buffers") or {}).values()):
            add(buffer, "buffers")
    return found

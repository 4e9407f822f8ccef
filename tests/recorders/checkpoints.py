"""What a loop calls to save a checkpoint."""
import os
import tempfile
import types

from torch import nn
from torch.distributed.fsdp import _optim_utils
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_state_dict


def save(model, optimizer, kind):
    """`savefull`: all of it on the host of rank 0; `savemodel`: the same of the model; `saveshards`: of each rank its own.

    Of a stage of a pipeline it is the stage that is whole. With `adapters` no more than these is saved, as Accelerate does it. DeepSpeed's
    engine saves each rank's part, and with `savefull` the model of stage 3 before it, as Trainer does it."""
    if kind.way == "deepspeed":
        return save_engine(model.engine, kind)
    if kind.way == "accelerate":
        model, optimizer = model.model, model.optimizer.optimizer
    if kind.way == "fsdp1" or "fsdp" in kind:
        believe_other_ranks(model)
    if kind.way == "pp":
        model = nn.ModuleList(model.modules)
    more = {"ignore_frozen_params": True} if "adapters" in kind else {}
    full = StateDictOptions(full_state_dict=True, cpu_offload=True, **more)
    if "savemodel" in kind:
        return get_model_state_dict(model, options=full)
    return get_state_dict(model, optimizer, options=full if "savefull" in kind else StateDictOptions(cpu_offload=True))


def believe_other_ranks(model):
    """Of FSDP1: other ranks are imagined, and what they would say about the optimizer's state is filled in here: that they have some of each
    parameter's where the parameters are the original ones, and as rank 0 else that all flat parameters have one."""
    names = {name for fqns in _optim_utils._get_param_to_fqns(model).values() for name in fqns}
    keys_of, gather, broadcast = _optim_utils._OptimStateKey, _optim_utils.dist.all_gather_object, _optim_utils.dist.broadcast_object_list

    def gathered(objects, own, group=None):
        gather(objects, own, group=group)
        if isinstance(own, list):
            objects[:] = [[keys_of((name,), True) for name in names]] * len(objects)
            return
        some = next(info for info in own.values() if info.tensors)
        objects[:] = [{name: some for name in own}] * len(objects)

    def received(objects, src=0, group=None):
        broadcast(objects, src=src, group=group)
        if objects[0] is None:
            objects[0] = [keys_of(tuple(fqns), True) for param, fqns in _optim_utils._get_param_to_fqns(model).items()]

    _optim_utils.dist = types.SimpleNamespace(**{**vars(_optim_utils.dist), "all_gather_object": gathered, "broadcast_object_list": received})


def save_engine(engine, kind):
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        if "savemodel" in kind or ("savefull" in kind and kind.number("stage") == 3):
            engine.save_16bit_model(folder)
        if "savemodel" not in kind:
            engine.save_checkpoint(folder)

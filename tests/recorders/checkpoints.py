"""What a loop calls to save a checkpoint of torch.distributed.checkpoint."""
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_state_dict


def save(model, optimizer, kind):
    """`savefull`: all of it on the host of rank 0; `savemodel`: the same of the model; `saveshards`: of each rank its own."""
    full = StateDictOptions(full_state_dict=True, cpu_offload=True)
    if "savemodel" in kind:
        return get_model_state_dict(model, options=full)
    return get_state_dict(model, optimizer, options=full if "savefull" in kind else StateDictOptions(cpu_offload=True))

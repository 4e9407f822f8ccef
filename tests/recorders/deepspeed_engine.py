"""DeepSpeed's engine as a model and an optimizer, for several_gpus.py: DeepSpeed 0.19 in bf16 with an optimizer of
torch.optim's, as transformers' Trainer uses it where its configuration names none.

Words of a kind: stage1, stage2 or stage3; bucket20 (reduce_bucket_size of 20 million elements); overlap (overlap_comm),
or nooverlap of stage 3, where it is the default; and of stage 3, in millions of elements, prefetch20
(stage3_prefetch_bucket_size), live50 (stage3_max_live_parameters), reuse50 (stage3_max_reuse_distance), part5
(sub_group_size), and persist500 (stage3_param_persistence_threshold of 500 elements). offoptimizer and offparam offload
to the host; fp16 trains in that, with a dynamic loss scale.
"""
import contextlib
import sys

import deepspeed
import torch._dynamo  # noqa: F401, which zero.Init() would otherwise import while Tensor.__new__ is its own

MILLIONS = {"bucket": "reduce_bucket_size", "prefetch": "stage3_prefetch_bucket_size", "live": "stage3_max_live_parameters",
            "reuse": "stage3_max_reuse_distance", "part": "sub_group_size"}


def believe_other_ranks():
    """Other ranks are imagined, and nothing that they send is to be compared with what this one has."""
    for module in list(sys.modules.values()):
        if module.__name__.startswith("deepspeed") and hasattr(module, "assert_ints_same_as_other_ranks"):
            module.assert_ints_same_as_other_ranks = lambda ints: None


def config_of(kind, size):
    zero = {"stage": kind.number("stage")}
    zero |= {key: kind.number(word) * 10**6 for word, key in MILLIONS.items() if word in kind}
    if "persist" in kind:
        zero["stage3_param_persistence_threshold"] = kind.number("persist")
    if "overlap" in kind or "nooverlap" in kind:
        zero["overlap_comm"] = "overlap" in kind
    if kind.number("stage") == 3 and {"savefull", "savemodel"} & set(kind.names):
        zero["stage3_gather_16bit_weights_on_model_save"] = True
    zero |= {f"offload_{what}": {"device": "cpu", "pin_memory": True} for what in ("optimizer", "param") if f"off{what}" in kind}
    config = {"train_micro_batch_size_per_gpu": size, "gradient_accumulation_steps": kind.number("acc"),
              "fp16" if "fp" in kind else "bf16": {"enabled": True}, "zero_optimization": zero, "zero_allow_untested_optimizer": True,
              "zero_force_ds_cpu_optimizer": False}
    if "clip" in kind:
        config["gradient_clipping"] = 1.0
    return config


def made_partitioned(kind, size):
    """As transformers' from_pretrained makes a model where stage 3 is asked for."""
    believe_other_ranks()
    return deepspeed.zero.Init(config_dict_or_path=config_of(kind, size)) if "init" in kind else contextlib.nullcontext()


class Engine:
    def __init__(self, model, batch, optimizer, kind, size):
        self.batch = batch
        if "block" in kind:
            model.gradient_checkpointing_enable()
        self.engine, self.optimizer, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=config_of(kind, size))
        self.backward = self.engine.backward

    def __call__(self, *inputs, **named):
        return self.engine(*inputs, **named)

    def parameters(self):
        return self.engine.module.parameters()

    # What DeepSpeed's optimizer does beside torch.optim's.
    state = property(lambda self: self.optimizer.optimizer.state)
    zero_grad = lambda self, **_: None
    step = lambda self: self.engine.step()

"""What a LightningModule, Lightning's Trainer and Hugging Face's Trainer train: a module, a batch, a loss, an optimizer and
the flags that their settings stand for. They are known by what they have, so that neither library is imported."""
from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, NamedTuple, Optional

from gpuplan.errors import GpuplanError
from gpuplan.run import returned_loss


class Training(NamedTuple):
    model: Any
    batch: Any
    forward: Optional[Callable[[Any, Any], Any]]
    loss: Optional[Callable[[Any, Any], Any]]
    optimizer: Any
    flags: Dict[str, Any]


def training_of(model: Any, batch: Any, optimizer: Any, mode: str) -> Optional[Training]:
    """None for a plain module. optimizer: what is asked for instead of the one that trains."""
    if hasattr(model, "get_train_dataloader") and hasattr(model, "args"):
        return _hugging_face(model, batch, optimizer, mode)
    if hasattr(model, "lightning_module") and hasattr(model, "accumulate_grad_batches"):
        return _lightning_trainer(model, batch, optimizer, mode)
    if hasattr(model, "training_step") and hasattr(model, "configure_optimizers"):
        return _lightning(model, batch, optimizer, mode)
    return None


def _lightning(module: Any, batch: Any, optimizer: Any, mode: str) -> Training:
    if mode == "infer":
        return Training(module, batch, None, None, None, {})
    takes_index = len(inspect.signature(module.training_step).parameters) > 1

    def step(model: Any, given: Any) -> Any:
        return model.training_step(given, 0) if takes_index else model.training_step(given)

    return Training(module, batch, step, returned_loss, optimizer or _configured(module), {"like": "lightning"})


def _configured(module: Any) -> Any:
    """The optimizer of configure_optimizers(), which returns one, a list, a dict that has it, or lists of them and schedulers."""
    try:
        made = module.configure_optimizers()
    except Exception as error:  # it may ask its Trainer, which it has in fit() only
        raise GpuplanError(f"{type(module).__name__}.configure_optimizers() failed: {type(error).__name__}: {error}",
                           help='give the optimizer yourself: optimizer="adamw"', exit_code=3) from error
    if isinstance(made, tuple) and made and isinstance(made[0], (list, tuple)):
        made = made[0]
    every = list(made) if isinstance(made, (list, tuple)) else [made]
    if len(every) != 1 or every[0] is None:
        raise GpuplanError(f"{type(module).__name__}.configure_optimizers() returns {len(every)} optimizers" if every[0] is not None else
                           f"{type(module).__name__}.configure_optimizers() returns none", help="a plan is of one: optimizer=...",
                           exit_code=3)
    return every[0]["optimizer"] if isinstance(every[0], dict) else every[0]


def _lightning_trainer(trainer: Any, batch: Any, optimizer: Any, mode: str) -> Training:
    module = trainer.lightning_module
    if module is None:
        raise GpuplanError("the Trainer has no module yet", help="trainer.strategy.connect(module), or give the module itself", exit_code=3)
    _refuse_several(trainer.num_devices * trainer.num_nodes)
    number, _, kind = str(trainer.precision).partition("-")
    words = {"32": None, "16": "fp16", "bf16": "bf16", "64": "fp64"}
    if number not in words:
        raise GpuplanError(f"the Trainer's precision is {trainer.precision}, which a plan does not have", exit_code=3,
                           help="gpuplan shadow -- python train.py runs it")
    word = words[number]
    flags: Dict[str, Any] = {"amp" if kind == "mixed" else "precision": word} if word else {}
    if mode != "infer":
        flags.update(micro_batches=_accumulated(trainer.accumulate_grad_batches), clip_grad_norm=bool(trainer.gradient_clip_val) or None)
    training = _lightning(module, batch, optimizer, mode)
    return training._replace(flags={**training.flags, **flags})


def _hugging_face(trainer: Any, batch: Any, optimizer: Any, mode: str) -> Training:
    given = trainer.args
    _refuse_several(given.world_size)
    if getattr(given, "torch_compile", False):
        raise GpuplanError("TrainingArguments has torch_compile=True: a plan is of eager PyTorch",
                           help="gpuplan shadow -- python train.py runs what is compiled", exit_code=3)
    for name in ("deepspeed", "fsdp"):
        if getattr(given, name, None):
            raise GpuplanError(f"TrainingArguments has {name}: a plan of a trainer is of one GPU, unsharded", exit_code=3,
                               help="plan its model with gpus= and zero=, or run it: gpuplan shadow --world N -- python train.py")
    if batch is None:
        if trainer.train_dataset is None:
            raise GpuplanError("the Trainer has no train_dataset: give an example batch", exit_code=3)
        batch = dict(next(iter(trainer.get_train_dataloader())))
    flags: Dict[str, Any] = {"amp": "bf16" if given.bf16 else "fp16" if given.fp16 else None}
    if mode == "infer":
        return Training(trainer.model, batch, None, None, None, flags)
    flags.update(like="trainer", micro_batches=_accumulated(given.gradient_accumulation_steps), clip_grad_norm=bool(given.max_grad_norm) or "0",
                 checkpoint="block" if given.gradient_checkpointing else None)
    had = trainer.optimizer
    if optimizer is None:
        optimizer = had if had is not None else trainer.create_optimizer()
        trainer.optimizer = had
    # The model's own loss is exported as such; what a subclass computes is a step that returns one.
    if type(trainer).compute_loss.__module__.startswith("transformers.") and not given.label_smoothing_factor:
        return Training(trainer.model, batch, None, None, optimizer, flags)
    return Training(trainer.model, batch, lambda model, inputs: trainer.compute_loss(model, dict(inputs)), returned_loss, optimizer, flags)


def _accumulated(batches: int) -> Optional[int]:
    return batches if batches > 1 else None


def _refuse_several(devices: int) -> None:
    if devices > 1:
        raise GpuplanError(f"the Trainer has {devices} devices: a plan of a trainer is of one", exit_code=3,
                           help="build it with devices=1, or plan its module with gpus=")

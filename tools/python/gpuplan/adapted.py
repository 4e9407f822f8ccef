"""What --lora and --peft add to a model of a library's, and the flags of a loop that is run."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

import torch

from gpuplan.errors import ExportError
from gpuplan.library_forms import configuration

STEPS = 3
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


@dataclass
class Loop:
    """How steps are taken, by gpuplan's flags; what is empty or None was not given."""

    like: str
    seq: int = 512
    micro_batches: int = 1
    amp: str = ""
    precision: str = ""
    checkpoint: str = ""  # none, block or block,reentrant
    optimizer: str = ""  # by transformers' name
    lora: Optional[Dict[str, Any]] = None
    peft: str = ""  # a configuration of peft's, as Python writes it
    weights: str = ""
    like_text: str = ""  # trl-sft(packing=True)
    gpus: Optional[Dict[str, Any]] = None  # gpuplan.shared_model's Sharing, of --gpus
    settings: Dict[str, Any] = field(default_factory=dict)  # what that has of the library's own configuration


def all_linear(model: Any) -> Any:
    """What peft calls so; of a library's modules, which peft's word does not know, the names."""
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    if any(isinstance(m, torch.nn.Linear) and m is not head for m in model.modules()):
        return "all-linear"
    return sorted({path.rpartition(".")[2] for path, m in model.named_modules() if hasattr(m, "in_features") and m is not head})


def adapters_of(loop: Loop, model: Any) -> Any:
    """The configuration that is trained."""
    if loop.peft:
        return all_adapters_of(loop, model)[0]
    if loop.lora is None:
        return None
    import peft

    targets = all_linear(model) if loop.lora["targets"] == ["all-linear"] else loop.lora["targets"]
    return peft.LoraConfig(r=loop.lora["r"], lora_alpha=loop.lora["alpha"], lora_dropout=loop.lora["dropout"], use_dora=loop.lora["dora"],
                           target_modules=targets, modules_to_save=loop.lora["save"] or None, task_type="CAUSAL_LM")


def one_adapter_of(loop: Loop, model: Any) -> Any:
    """Of trainers that add it themselves."""
    if loop.peft and len(all_adapters_of(loop, model)) > 1:
        raise ExportError(f"--peft {loop.peft} with --like {loop.like}: the trainer adds one adapter; --like pytorch and trainer take several")
    return adapters_of(loop, model)


def refuse_given_twice(loop: Loop, flags: Dict[str, str]) -> None:
    """flags: by the library's settings, those of gpuplan's that were given."""
    for key in loop.settings.keys() & flags.keys():
        raise ExportError(f"--like {loop.like_text}: {key} is what {flags[key]} gives, which is there, too")


def all_adapters_of(loop: Loop, model: Any) -> List[Any]:
    """--peft 'LoraConfig(r=8) + LoraConfig(r=16)': the first is trained, and the others lie beside it."""
    usual = {"task_type": "CAUSAL_LM"} if hasattr(model, "prepare_inputs_for_generation") else {}
    return [configuration(text.strip(), usual) for text in loop.peft.split(" + ")]


def adapted(model: Any, loop: Loop) -> Any:
    """As peft's documentation does it, before a loop that knows nothing of peft."""
    import peft

    if loop.lora is None and not loop.peft:
        return model
    on, kind = bool(loop.checkpoint) and loop.checkpoint != "none", {"use_reentrant": loop.checkpoint.endswith("reentrant")}
    prepare: Any = peft.prepare_model_for_kbit_training
    if loop.weights and not loop.precision:
        model = prepare(model, on, kind)
    elif on:
        model.gradient_checkpointing_enable(kind)
    made = peft.get_peft_model(model, adapters_of(loop, model))
    for number, more in enumerate(all_adapters_of(loop, model)[1:] if loop.peft else [], 2):
        made.add_adapter(f"adapter_{number}", more)
    return made

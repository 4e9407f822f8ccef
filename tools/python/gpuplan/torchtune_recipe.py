"""torchtune's recipes for one GPU, run as `tune run` runs them: the library's own file, told a model of a config.json's sizes, weights
without numbers, and samples of one length.

What the recipe's YAML has is made here of gpuplan's flags; --like 'torchtune(enable_activation_offloading=True)' gives it more."""
from __future__ import annotations

import importlib.util
import os
from typing import Any, Dict, List, Tuple

import torch

from gpuplan.adapted import STEPS, Loop, refuse_given_twice
from gpuplan.errors import ExportError

ATTENTION = {"q_proj": "q_proj", "k_proj": "k_proj", "v_proj": "v_proj", "o_proj": "output_proj"}
PARALLEL = {"gate_proj", "up_proj", "down_proj"}
KINDS = {"llama": "llama3_1", "qwen2": "qwen2", "mistral": "mistral"}  # config.json's model_type and torchtune's models
OPTIMIZERS: Dict[str, Tuple[str, Dict[str, Any]]] = {  # by transformers' names
    "": ("torch.optim.AdamW", {"fused": True}), "adamw_torch": ("torch.optim.AdamW", {}), "adamw_torch_fused": ("torch.optim.AdamW", {"fused": True}),
    "adam": ("torch.optim.Adam", {}), "sgd": ("torch.optim.SGD", {}), "adamw_8bit": ("bitsandbytes.optim.AdamW8bit", {}),
    "paged_adamw_8bit": ("bitsandbytes.optim.PagedAdamW8bit", {}), "torchao_adamw8bit": ("torchao.optim.AdamW8bit", {})}


class Recipe:
    """Of a model of transformers' configuration; train() takes STEPS steps."""

    def __init__(self, loop: Loop, model: Any, samples: int, folder: str) -> None:
        from omegaconf import OmegaConf  # type: ignore[import-not-found, import-untyped, unused-ignore]

        refuse_what_is_not_told(loop, model)
        if samples % loop.micro_batches:
            raise ExportError(f"a batch of {samples} is not {loop.micro_batches} equal micro-batches")
        name = "lora_finetune_single_device" if loop.lora is not None else "full_finetune_single_device"
        settings = OmegaConf.create({**settings_of(loop, model, samples, folder), **loop.settings})
        module = recipe_module(name)
        kind = next(value for key, value in vars(module).items() if key.endswith("RecipeSingleDevice"))
        self.recipe = kind(cfg=settings)
        self.recipe.setup(cfg=settings)

    def train(self) -> None:
        self.recipe.train()


def refuse_what_is_not_told(loop: Loop, config: Any) -> None:
    """Flags that no setting of a recipe stands for, and sizes that its builders do not take."""
    for flag, value in (("--amp", loop.amp), ("--peft", loop.peft), ("--checkpoint", loop.checkpoint if "reentrant" in loop.checkpoint else ""),
                        ("--lora save=", "+".join((loop.lora or {}).get("save") or []))):
        if value:
            raise ExportError(f"{flag} {value} with --like torchtune: its recipes have no such setting; they take --lora, --weights nf4, "
                              "--precision bf16 or fp32, --checkpoint none or block, --opt and --micro-batches")
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    if head * config.num_attention_heads != config.hidden_size or getattr(config, "attention_bias", False) or getattr(config, "mlp_bias", False):
        raise ExportError("--like torchtune: its models have heads of hidden_size / num_attention_heads, and llama's and mistral's no biases")
    if loop.checkpoint:
        refuse_given_twice(loop, {"enable_activation_checkpointing": "--checkpoint"})


def recipe_module(name: str) -> Any:
    """A file that lies beside the package, and refuses to be imported by name."""
    import torchtune  # type: ignore[import-not-found, import-untyped, unused-ignore]

    path = os.path.join(os.path.dirname(os.path.dirname(torchtune.__file__)), "recipes", name + ".py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def settings_of(loop: Loop, config: Any, samples: int, folder: str) -> Dict[str, Any]:
    """The keys of torchtune's configs/llama3_1/8B_lora_single_device.yaml, whose values are the defaults."""
    here = "gpuplan.torchtune_recipe."
    if loop.optimizer not in OPTIMIZERS:
        raise ExportError(f"--opt {loop.optimizer} with --like torchtune: expected {', '.join(filter(None, OPTIMIZERS))}")
    optimizer, arguments = OPTIMIZERS[loop.optimizer]
    return {
        "model": model_of(loop, config), "tokenizer": {"_component_": here + "Tokenizer"},
        "checkpointer": {"_component_": here + "Checkpointer", "model": model_of(loop, config), "model_type": "LLAMA3"},
        "dataset": {"_component_": here + "Tokens", "rows": samples * STEPS, "tokens": loop.seq},
        "optimizer": {"_component_": optimizer, "lr": 3e-4, **arguments},
        "lr_scheduler": {"_component_": "torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup", "num_warmup_steps": 100},
        "loss": {"_component_": "torchtune.modules.loss.CEWithChunkedOutputLoss"},
        "metric_logger": {"_component_": "torchtune.training.metric_logging.DiskLogger", "log_dir": os.path.join(folder, "logs")},
        "batch_size": samples // loop.micro_batches, "gradient_accumulation_steps": loop.micro_batches, "max_steps_per_epoch": STEPS, "epochs": 1,
        "output_dir": folder, "resume_from_checkpoint": False, "seed": 0, "shuffle": False, "clip_grad_norm": None, "compile": False,
        "device": "cuda", "dtype": loop.precision or "bf16", "log_every_n_steps": 1, "log_peak_memory_stats": False, "optimizer_in_bwd": False,
        "enable_activation_checkpointing": loop.checkpoint != "none", "enable_activation_offloading": False,
    }


def model_of(loop: Loop, config: Any) -> Dict[str, Any]:
    """A call of torchtune's builder."""
    kind = KINDS.get(config.model_type)
    if kind is None:
        raise ExportError(f"--like torchtune: models of {', '.join(KINDS)} are made, not {config.model_type}")
    sizes: Dict[str, Any] = {
        "vocab_size": config.vocab_size, "num_layers": config.num_hidden_layers, "num_heads": config.num_attention_heads,
        "num_kv_heads": config.num_key_value_heads, "embed_dim": config.hidden_size, "intermediate_dim": config.intermediate_size,
        "max_seq_len": config.max_position_embeddings, "norm_eps": config.rms_norm_eps}
    if config.tie_word_embeddings:
        if kind != "qwen2":
            raise ExportError(f"--like torchtune: its {kind} has no tied head")
        sizes["tie_word_embeddings"] = True
    if loop.weights not in ("", "nf4", "nf4:double"):
        raise ExportError(f"--weights {loop.weights} with --like torchtune: its base is in bf16, or --weights nf4")
    if loop.lora is None:
        if loop.weights:
            raise ExportError("--weights nf4 with --like torchtune: of an adapter's base, with --lora")
        return {"_component_": f"torchtune.models.{kind}.{kind}", **sizes}
    wanted = [*ATTENTION, *PARALLEL] if loop.lora["targets"] == ["all-linear"] else loop.lora["targets"]
    wrong = [name for name in wanted if name not in ATTENTION and name not in PARALLEL]
    if wrong or (PARALLEL & set(wanted) and not PARALLEL <= set(wanted)):
        raise ExportError(f"--lora targets={'+'.join(wanted)} with --like torchtune: expected of {', '.join(ATTENTION)}, and gate_proj, up_proj "
                          "and down_proj all or none")
    return {"_component_": f"torchtune.models.{kind}.lora_{kind}", **sizes, "lora_attn_modules": [ATTENTION[n] for n in wanted if n in ATTENTION],
            "apply_lora_to_mlp": bool(PARALLEL & set(wanted)), "apply_lora_to_output": False, "lora_rank": loop.lora["r"],
            "lora_alpha": loop.lora["alpha"], "lora_dropout": loop.lora["dropout"], "use_dora": loop.lora["dora"], "quantize_base": bool(loop.weights)}


class Tokenizer:
    pad_id = 1


class Tokens(torch.utils.data.Dataset[Dict[str, List[int]]]):
    def __init__(self, tokenizer: Any, rows: int, tokens: int) -> None:
        self.rows, self.tokens = rows, tokens

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, row: int) -> Dict[str, List[int]]:
        return {"tokens": [0] * self.tokens, "labels": [0] * self.tokens}


class Checkpointer:
    """The weights of a base model, on the host, as torchtune's own reads them from files."""

    def __init__(self, model: Any, model_type: str, should_load_recipe_state: bool = False) -> None:
        self.model = model

    def load_checkpoint(self) -> Dict[str, Any]:
        from omegaconf import OmegaConf
        from torchtune import config  # type: ignore[import-not-found, import-untyped, unused-ignore]

        plain = {key: value for key, value in self.model.items() if key != "quantize_base"}
        with torch.device("meta"):
            names = config.instantiate(OmegaConf.create(plain)).state_dict()
        base = {name: t for name, t in names.items() if "lora_" not in name and "magnitude" not in name}
        return {"model": {name: torch.empty(t.shape, dtype=torch.bfloat16) for name, t in base.items()}}

    def save_checkpoint(self, *_: Any, **__: Any) -> None:
        """Nobody reads it."""

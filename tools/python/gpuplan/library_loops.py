"""What the program runs under `gpuplan shadow --learn` for `--like trl-sft` and `trl-dpo`: three steps of a library's own trainer.

    python -c '...' SOURCES BATCH '{"like": "trl-sft", "seq": 2048, "lora": {...}, ...}' MODEL

MODEL is a config.json of transformers, a folder with one, or FILE.py:CALLABLE. What the settings leave out is as the library has
it. Samples are tokens of one length; SOURCES gets the files that the model was made of, as door.py writes them."""
from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional

import torch

from gpuplan.errors import ExportError, GpuplanError

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
    weights: str = ""
    settings: Dict[str, Any] = field(default_factory=dict)  # of the library's own configuration


def model_of(word: str, loop: Loop) -> Any:
    if ".py:" in word:
        from gpuplan.target import maker

        return maker(word, [])().to(TYPES[loop.precision or "fp32"])
    import transformers
    from gpuplan.target import read_config

    file = os.path.join(word, "config.json") if os.path.isdir(word) else word
    with open(file, encoding="utf-8") as opened:
        names = json.load(opened).get("architectures") or []
    cls = getattr(transformers, names[0], None) if names else None
    if cls is None:
        raise ExportError(f"{file}: architectures names no class of transformers {transformers.__version__}")
    config = read_config(cls, file, {})
    if loop.weights:
        return _quantized(cls, config, loop)
    torch.set_default_dtype(TYPES[loop.precision or "fp32"])  # as from_pretrained(dtype=) does
    try:
        with _without_initialization():
            model = cls(config)
        model.tie_weights()  # which is part of what is left out
        return model
    finally:
        torch.set_default_dtype(torch.float32)


def _without_initialization() -> Any:
    """Memory of the host that nobody writes to is none."""
    try:
        from transformers.initialization import no_init_weights
    except ImportError:
        from transformers.modeling_utils import no_init_weights  # type: ignore[attr-defined, no-redef]
    return no_init_weights()


def _quantized(cls: Any, config: Any, loop: Loop) -> Any:
    import transformers
    from gpuplan.checkpoints import write_checkpoint

    form: Any = transformers.BitsAndBytesConfig
    kind, _, how = loop.weights.partition(":")
    compute = TYPES[loop.amp or loop.precision or "bf16"]
    stored = form(load_in_8bit=True) if kind == "int8" else form(
        load_in_4bit=True, bnb_4bit_quant_type=kind, bnb_4bit_compute_dtype=compute, bnb_4bit_use_double_quant=how == "double")
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(folder, cls, config, torch.bfloat16)
        return cls.from_pretrained(folder, quantization_config=stored, dtype=torch.bfloat16, device_map={"": 0}, use_safetensors=True)


def adapters_of(loop: Loop) -> Any:
    if loop.lora is None:
        return None
    import peft

    targets = loop.lora["targets"]
    return peft.LoraConfig(r=loop.lora["r"], lora_alpha=loop.lora["alpha"], lora_dropout=loop.lora["dropout"], use_dora=loop.lora["dora"],
                           target_modules="all-linear" if targets == ["all-linear"] else targets,
                           modules_to_save=loop.lora["save"] or None, task_type="CAUSAL_LM")


def tokenizer() -> Any:
    """Of one word: samples come as numbers."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({"a": 0, "<pad>": 1, "<eos>": 2}, unk_token="a"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    cls: Any = transformers.PreTrainedTokenizerFast
    return cls(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")


def common_settings(loop: Loop, samples: int, folder: str) -> Dict[str, Any]:
    """Of transformers.TrainingArguments, which every trainer's configuration is."""
    if samples % loop.micro_batches:
        raise ExportError(f"a batch of {samples} is not {loop.micro_batches} equal micro-batches")
    settings: Dict[str, Any] = {
        "output_dir": folder, "max_steps": STEPS, "per_device_train_batch_size": samples // loop.micro_batches,
        "gradient_accumulation_steps": loop.micro_batches, "report_to": [], "save_strategy": "no", "logging_strategy": "no",
        "disable_tqdm": True, "dataset_num_proc": None, "max_length": loop.seq}
    if loop.amp or loop.precision:
        settings.update(bf16=loop.amp == "bf16", fp16=loop.amp == "fp16")
    if loop.checkpoint:
        settings["gradient_checkpointing"] = loop.checkpoint != "none"
        if loop.checkpoint != "none":
            settings["gradient_checkpointing_kwargs"] = {"use_reentrant": loop.checkpoint.endswith("reentrant")}
    if loop.optimizer:
        settings["optim"] = loop.optimizer
    return {**settings, **loop.settings}


def sft(loop: Loop, model: Any, samples: int, folder: str) -> Any:
    """Samples of which every token is learned."""
    import trl  # type: ignore[import-not-found, unused-ignore]
    from datasets import Dataset  # type: ignore[import-not-found, unused-ignore]

    data = Dataset.from_dict({"input_ids": [[0] * loop.seq] * (samples * STEPS)})
    return trl.SFTTrainer(model=model, args=trl.SFTConfig(**common_settings(loop, samples, folder)), train_dataset=data,
                          processing_class=tokenizer(), peft_config=adapters_of(loop))


def dpo(loop: Loop, model: Any, samples: int, folder: str) -> Any:
    """Pairs: half of each text is the prompt. A model that is trained whole has another one beside it."""
    import trl  # type: ignore[import-not-found, unused-ignore]
    from datasets import Dataset  # type: ignore[import-not-found, unused-ignore]

    prompt, answer = " ".join(["a"] * (loop.seq // 2)), " ".join(["a"] * (loop.seq - loop.seq // 2 - 1))  # and an end
    data = Dataset.from_dict({"prompt": [prompt + " "] * (samples * STEPS), "chosen": [answer] * (samples * STEPS),
                              "rejected": [answer] * (samples * STEPS)})
    adapters = adapters_of(loop)
    beside = {} if adapters is not None else {"ref_model": model_of(loop.settings.pop("model"), loop)}
    return trl.DPOTrainer(model=model, args=trl.DPOConfig(**common_settings(loop, samples, folder)), train_dataset=data,
                          processing_class=tokenizer(), peft_config=adapters, **beside)


LOOPS: Dict[str, Callable[[Loop, Any, int, str], Any]] = {"trl-sft": sft, "trl-dpo": dpo}


def main(arguments: List[str]) -> int:
    from gpuplan.door import write_sources

    sources, samples, settings, word = arguments
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        loop = Loop(**json.loads(settings))
        with tempfile.TemporaryDirectory() as folder:
            if loop.like == "trl-dpo" and loop.lora is None:
                loop.settings["model"] = word
            trainer = LOOPS[loop.like](loop, model_of(word, loop), int(samples), folder)
            file = word.partition(".py:")[0] + ".py" if ".py:" in word else os.path.join(word, "config.json") if os.path.isdir(word) else word
            write_sources(sources, [file])  # what learns ends a script within its third step
            trainer.train()
    except GpuplanError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except ModuleNotFoundError as error:
        sys.stderr.write(f"error: --like {json.loads(settings)['like']} runs the library's own trainer, and {error.name} is not there: "
                         f"pip install trl datasets\n")
        return ExportError("").exit_code
    torch.cuda.synchronize()
    return 0

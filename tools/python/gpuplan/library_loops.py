"""What the program runs under `gpuplan shadow --learn` where a library's own code is asked for: three steps of its trainer or recipe
(`--like trl-sft`, `torchtune`), with its adapters (`--peft`) or its form of the weights (`--weights int4:gptq`).

    python -c '...' SOURCES BATCH '{"like": "trl-sft", "seq": 2048, "lora": {...}, ...}' MODEL

MODEL is a config.json of transformers, a folder with one, or FILE.py:CALLABLE. What the settings leave out is as the library has
it. Samples are tokens of one length; SOURCES gets the files that the model was made of, as door.py writes them."""
from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Any, Callable, Dict, List

import torch

from gpuplan.adapted import STEPS, TYPES, Loop, adapted, one_adapter_of, refuse_given_twice
from gpuplan.errors import ExportError, GpuplanError
from gpuplan.library_forms import is_hqq, made_with, quantized, quantized_by_hqq, settings_in
from gpuplan.lightning_loop import LightningLoop
from gpuplan.own_loop import OwnInference, OwnLoop
from gpuplan.source_lines import first_line
from gpuplan.torchtune_recipe import Recipe

# Settings that gpuplan's flags give.
FLAGS = {"per_device_train_batch_size": "--batch", "batch_size": "--batch", "gradient_accumulation_steps": "--micro-batches", "max_length": "--seq",
         "optim": "--opt", "optimizer": "--opt", "model": "the model", "devices": "--gpus", "num_nodes": "--gpus", "accumulate_grad_batches": "--micro-batches", "default_root_dir": "", "dtype": "--precision", "max_steps": "", "max_steps_per_epoch": "", "output_dir": ""}


def model_of(word: str, loop: Loop) -> Any:
    if ".py:" in word:
        for flag, value in (("--weights", loop.weights), ("--like", loop.like if loop.like == "torchtune" else "")):
            if value:
                raise ExportError(f"{flag} {value} with {word}: the model is made by its own code; a config.json can be made so")
        from gpuplan.target import maker

        return maker(word, [])().to(TYPES[loop.precision or "fp32"])
    import transformers
    from gpuplan.target import read_config

    file = os.path.join(word, "config.json") if os.path.isdir(word) else word
    with open(file, encoding="utf-8") as opened:
        try:
            names = json.load(opened).get("architectures") or []
        except json.JSONDecodeError as wrong:
            raise ExportError(f"{file}:{wrong.lineno}:{wrong.colno}: {wrong.msg}")
    cls = getattr(transformers, names[0], None) if names else None
    if cls is None:
        raise ExportError(f"{file}: architectures names no class of transformers {transformers.__version__}")
    config = read_config(cls, file, {})
    if loop.like == "torchtune":
        return config  # its models are its own
    if loop.weights:
        compute, dtype = TYPES[loop.amp or loop.precision or "bf16"], TYPES[loop.precision or "bf16"]
        if is_hqq(loop.weights):  # which transformers has given up
            return quantized_by_hqq(_on_the_host(cls, config, dtype), loop.weights, compute)
        return quantized(cls, config, loop.weights, compute, dtype, loop.like != "infer")
    return _on_the_host(cls, config, TYPES[loop.precision or "fp32"])


def _on_the_host(cls: Any, config: Any, dtype: torch.dtype) -> Any:
    torch.set_default_dtype(dtype)  # as from_pretrained(dtype=) does
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


def tokenizer() -> Any:
    """Of one word: samples come as numbers."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({"a": 0, "<pad>": 1, "<eos>": 2}, unk_token="a"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    cls: Any = transformers.PreTrainedTokenizerFast
    return cls(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")


class Tokens(torch.utils.data.Dataset[Dict[str, torch.Tensor]]):
    def __init__(self, rows: int, tokens: int) -> None:
        self.rows, self.tokens = rows, tokens

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, row: int) -> Dict[str, torch.Tensor]:
        ids = torch.zeros(self.tokens, dtype=torch.int64)
        return {"input_ids": ids, "labels": ids}


def ranks_of(loop: Loop) -> int:
    return int(loop.gpus["gpus"]) if loop.gpus else 1


def refuse_uneven(loop: Loop, samples: int) -> None:
    parts = {f"{ranks_of(loop)} GPUs": ranks_of(loop), f"{loop.micro_batches} micro-batches": loop.micro_batches}
    if samples % (ranks_of(loop) * loop.micro_batches):
        raise ExportError(f"a batch of {samples} is not shared evenly by " + " of ".join(words for words, number in parts.items() if number > 1))


def by_trainer(loop: Loop, model: Any, samples: int, folder: str) -> Any:
    import transformers

    settings = common_settings(loop, samples, folder)
    for key in ("max_length", "dataset_num_proc"):  # of trl's
        del settings[key]
    checkpoints = {key: settings.pop(key, None) for key in ("gradient_checkpointing", "gradient_checkpointing_kwargs")}
    if loop.weights:  # which peft enables for it
        checkpoints = {}
    arguments = made_with(transformers.TrainingArguments, {**settings, **{k: v for k, v in checkpoints.items() if v is not None}}, f"--like {loop.like_text}")
    if not loop.weights:
        loop.checkpoint = ""  # Trainer enables them
    on_gpu = model if loop.weights or loop.gpus else model.to("cuda")  # before peft adds to it, as plans by --lora have it
    return transformers.Trainer(model=adapted(on_gpu, loop), args=arguments, train_dataset=Tokens(samples * STEPS, loop.seq))


def common_settings(loop: Loop, samples: int, folder: str) -> Dict[str, Any]:
    """Of transformers.TrainingArguments, which every trainer's configuration is."""
    settings: Dict[str, Any] = {
        "output_dir": folder, "max_steps": STEPS, "per_device_train_batch_size": samples // ranks_of(loop) // loop.micro_batches,
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
    refuse_given_twice(loop, {key: flag for key, flag in (("bf16", "--amp"), ("fp16", "--amp"), ("gradient_checkpointing", "--checkpoint")) if key in settings})
    return {**settings, **loop.settings}


def arguments_of(kind: Any, loop: Loop, samples: int, folder: str) -> Any:
    return made_with(kind, common_settings(loop, samples, folder), f"--like {loop.like_text}")


def sft(loop: Loop, model: Any, samples: int, folder: str) -> Any:
    """Samples of which every token is learned."""
    import trl  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from datasets import Dataset  # type: ignore[import-not-found, import-untyped, unused-ignore]

    data = Dataset.from_dict({"input_ids": [[0] * loop.seq] * (samples * STEPS)})
    return trl.SFTTrainer(model=model, args=arguments_of(trl.SFTConfig, loop, samples, folder), train_dataset=data,
                          processing_class=tokenizer(), peft_config=one_adapter_of(loop, model))


def dpo(loop: Loop, model: Any, samples: int, folder: str) -> Any:
    """Pairs: half of each text is the prompt. A model that is trained whole has another one beside it."""
    import trl  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from datasets import Dataset  # type: ignore[import-not-found, import-untyped, unused-ignore]

    prompt, answer = " ".join(["a"] * (loop.seq // 2)), " ".join(["a"] * (loop.seq - loop.seq // 2 - 1))  # and an end
    data = Dataset.from_dict({"prompt": [prompt + " "] * (samples * STEPS), "chosen": [answer] * (samples * STEPS),
                              "rejected": [answer] * (samples * STEPS)})
    adapters = one_adapter_of(loop, model)
    beside = {} if adapters is not None else {"ref_model": model_of(loop.settings.pop("model"), loop)}
    return trl.DPOTrainer(model=model, args=arguments_of(trl.DPOConfig, loop, samples, folder), train_dataset=data,
                          processing_class=tokenizer(), peft_config=adapters, **beside)


LOOPS: Dict[str, Callable[[Loop, Any, int, str], Any]] = {
    "trl-sft": sft, "trl-dpo": dpo, "trainer": by_trainer, "torchtune": Recipe, "pytorch": OwnLoop, "infer": OwnInference, "lightning": LightningLoop}


def files_in(value: Any) -> List[str]:
    """What settings name that exists, such as deepspeed="ds_config.json"."""
    if isinstance(value, dict):
        return [file for each in value.values() for file in files_in(each)]
    if isinstance(value, (list, tuple)):
        return [file for each in value for file in files_in(each)]
    return [os.path.abspath(value)] if isinstance(value, str) and os.path.isfile(value) else []


def main(arguments: List[str]) -> int:
    from gpuplan.door import write_sources

    sources, samples, settings, word = arguments
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        loop = Loop(**json.loads(settings))
        with tempfile.TemporaryDirectory() as folder:
            loop.settings = settings_in(loop.like_text, FLAGS)
            files = files_in(loop.settings)
            refuse_uneven(loop, int(samples))
            if loop.like == "trl-dpo" and loop.lora is None and not loop.peft:
                loop.settings["model"] = word
            trainer = LOOPS[loop.like](loop, model_of(word, loop), int(samples), folder)
            file = word.partition(".py:")[0] + ".py" if ".py:" in word else os.path.join(word, "config.json") if os.path.isdir(word) else word
            write_sources(sources, [file, *files])  # what learns ends a script within its third step
            trainer.train()
    except GpuplanError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except ModuleNotFoundError as error:
        if "." in str(error.name):  # of two packages that are not of one time
            sys.stderr.write(f"error: what is installed for {sys.executable} does not work together: {error}\n")
            return ExportError("").exit_code
        sys.stderr.write(f"error: {sys.executable} does not have {error.name}, which is run: pip install {error.name}\n")
        return ExportError("").exit_code
    except Exception as error:  # whatever the library raises, which is why it cannot be planned
        sys.stderr.write(f"error: the library's own code ended with {type(error).__name__}: {first_line(error)}\n")
        return ExportError("").exit_code
    torch.cuda.synchronize()
    return 0

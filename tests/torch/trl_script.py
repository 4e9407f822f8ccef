#!/usr/bin/env python3
"""A script as people write it for trl, for `gpuplan shadow`: prints the most bytes requested, allocated and reserved in three steps.

    gpuplan shadow --gpu h200 -q -- python tests/torch/trl_script.py sft|dpo CONFIG.json BATCH TOKENS '{"bf16": true, ...}' [RANK [nf4]]
"""
import json
import os
import sys
import tempfile

import torch
import transformers
import trl
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers

kind, config, batch, tokens, settings, *adapters = sys.argv[1:]
batch, tokens = int(batch), int(tokens)
rows = 3 * batch * int(os.environ.get("WORLD_SIZE", 1))  # of three steps of every rank
values = json.loads(open(config).read())
cls = getattr(transformers, values["architectures"][0])


def model():
    made = transformers.AutoConfig.for_model(values["model_type"]).from_dict(values)
    if len(adapters) < 2:
        return cls(made)
    from pathlib import Path
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "tools" / "python"))
    from gpuplan.checkpoints import write_checkpoint
    four_bits = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(folder, cls, made, torch.bfloat16)
        return cls.from_pretrained(folder, quantization_config=four_bits, dtype=torch.bfloat16, device_map={"": 0})


words = Tokenizer(models.WordLevel({"a": 0, "<pad>": 1, "<eos>": 2}, unk_token="a"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
given = {"processing_class": transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")}
if adapters:
    import peft
    given["peft_config"] = peft.LoraConfig(r=int(adapters[0]), target_modules="all-linear", task_type="CAUSAL_LM")
with tempfile.TemporaryDirectory() as folder:
    common = {"output_dir": folder, "per_device_train_batch_size": batch, "max_steps": 3, "max_length": tokens, "report_to": [],
              "save_strategy": "no", "logging_strategy": "no", **json.loads(settings)}
    if kind == "sft":
        data = Dataset.from_dict({"input_ids": [[0] * tokens] * rows})
        trainer = trl.SFTTrainer(model=model(), args=trl.SFTConfig(**common), train_dataset=data, **given)
    else:
        half = " ".join(["a"] * (tokens // 2))
        rest = " ".join(["a"] * (tokens - tokens // 2 - 1))
        data = Dataset.from_list([{"prompt": half + " ", "chosen": rest, "rejected": rest}] * rows)
        if not adapters:
            given["ref_model"] = model()
        trainer = trl.DPOTrainer(model=model(), args=trl.DPOConfig(**common), train_dataset=data, **given)
    trainer.train()
stats = torch.cuda.memory_stats()
print("peaks", *(stats[figure + "_bytes.all.peak"] for figure in ("requested", "allocated", "reserved")))

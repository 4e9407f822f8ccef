"""preferences.py sft|dpo|grpo|reward: trl's trainers on a small Qwen with a tokenizer made here."""

import sys
import tempfile

import tokenizers
import transformers
import trl
from datasets import Dataset

WORDS = "the cat sat on a mat and saw it was good bad very not yes no".split()
vocabulary = {word: i for i, word in enumerate(["<pad>", "<end>", "<unknown>", *WORDS])}
model = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unknown>"))
model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
tokenizer = transformers.PreTrainedTokenizerFast(
    tokenizer_object=model, pad_token="<pad>", eos_token="<end>", unk_token="<unknown>"
)
config = transformers.Qwen2Config(
    vocab_size=64, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    intermediate_size=256, pad_token_id=0, eos_token_id=1, bos_token_id=None, num_labels=1,
)  # fmt: skip
way = sys.argv[1]
texts = {"prompt": ["the cat sat"] * 16, "chosen": [" on a mat"] * 16, "rejected": [" not good"] * 16}
with tempfile.TemporaryDirectory() as folder:
    settings = {"output_dir": folder, "max_steps": 2, "per_device_train_batch_size": 4, "report_to": [], "bf16": True}
    if way == "reward":
        network = transformers.AutoModelForSequenceClassification.from_config(config)
        trainer = trl.RewardTrainer(
            model=network, args=trl.RewardConfig(**settings), processing_class=tokenizer,
            train_dataset=Dataset.from_dict({key: texts[key] for key in ("chosen", "rejected")}),
        )  # fmt: skip
    else:
        network = transformers.AutoModelForCausalLM.from_config(config)
        network.config._name_or_path = "small"
    if way == "sft":
        trainer = trl.SFTTrainer(
            model=network, args=trl.SFTConfig(**settings), processing_class=tokenizer,
            train_dataset=Dataset.from_dict({"text": ["the cat sat on a mat"] * 16}),
        )  # fmt: skip
    if way == "dpo":
        trainer = trl.DPOTrainer(
            model=network, ref_model=transformers.AutoModelForCausalLM.from_config(config), args=trl.DPOConfig(**settings), processing_class=tokenizer,
            train_dataset=Dataset.from_dict(texts),
        )  # fmt: skip
    if way == "grpo":
        trainer = trl.GRPOTrainer(
            model=network, processing_class=tokenizer, train_dataset=Dataset.from_dict({"prompt": texts["prompt"]}),
            args=trl.GRPOConfig(num_generations=4, max_completion_length=24, **settings),
            reward_funcs=lambda completions, **rest: [float(len(text)) for text in completions],
        )  # fmt: skip
    trainer.train()
print("trained")

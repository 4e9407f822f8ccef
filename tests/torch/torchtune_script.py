"""torchtune's recipe for one GPU as `tune run` runs it, for `gpuplan shadow`: its own YAML, told the sizes of a config.json and a checkpoint of
Hugging Face's, three steps of samples of one length. Prints the most bytes requested, allocated and reserved.

    gpuplan shadow --gpu h200 -q -- python tests/torch/torchtune_script.py MODEL.json BATCH TOKENS lora|qlora|full '{"enable_activation_offloading": true}'
"""
from __future__ import annotations

import json
import os
import runpy
import sys
import tempfile
from typing import Any, Dict, List

import torch

YAMLS = {"llama": ("llama3_1/8B", "LLAMA3", "llama3_1"), "qwen2": ("qwen2/0.5B", "QWEN2", "qwen2"), "mistral": ("mistral/7B", "MISTRAL", "mistral")}


class Tokenizer:
    pad_id = 1


class Tokens(torch.utils.data.Dataset[Dict[str, List[int]]]):
    def __init__(self, tokenizer: Any, samples: int, length: int) -> None:
        self.samples, self.length = samples, length

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, sample: int) -> Dict[str, List[int]]:
        return {"tokens": [0] * self.length, "labels": [0] * self.length}


def main() -> None:
    import torchtune
    import transformers
    from omegaconf import OmegaConf

    model, batch, length, kind, settings = sys.argv[1:]
    values = {"rms_norm_eps": 1e-6, **json.loads(open(model).read())}
    yaml, name, builder = YAMLS[values["model_type"]]
    recipes = os.path.join(os.path.dirname(os.path.dirname(torchtune.__file__)), "recipes")
    config = OmegaConf.load(os.path.join(recipes, "configs", f"{yaml}_{kind}_single_device.yaml"))
    sizes = {"vocab_size": values["vocab_size"], "num_layers": values["num_hidden_layers"], "num_heads": values["num_attention_heads"],
             "num_kv_heads": values["num_key_value_heads"], "embed_dim": values["hidden_size"], "intermediate_dim": values["intermediate_size"],
             "max_seq_len": values["max_position_embeddings"], "norm_eps": values["rms_norm_eps"]}
    if values["model_type"] == "qwen2":
        sizes["tie_word_embeddings"] = values["tie_word_embeddings"]
    adapters = {} if kind == "full" else {"lora_attn_modules": ["q_proj", "k_proj", "v_proj", "output_proj"], "apply_lora_to_mlp": True, "apply_lora_to_output": False,
                                          "lora_rank": 8, "lora_alpha": 8, "lora_dropout": 0.0}
    base = {"quantize_base": True} if kind == "qlora" else {}
    with tempfile.TemporaryDirectory() as folder:
        made = transformers.AutoConfig.for_model(values["model_type"]).from_dict(values)
        getattr(transformers, values["architectures"][0])(made).to(torch.bfloat16).save_pretrained(folder + "/base")
        config.merge_with({
            "output_dir": folder + "/out", "batch_size": int(batch), "max_steps_per_epoch": 3, "epochs": 1, "gradient_accumulation_steps": 1, "save_adapter_weights_only": kind != "full",
            "optimizer_in_bwd": False, "clip_grad_norm": None, "log_peak_memory_stats": False, **json.loads(settings)})
        config.model = {"_component_": f"torchtune.models.{builder}.{'' if kind == 'full' else 'lora_'}{builder}", **sizes, **adapters, **base}
        config.tokenizer = {"_component_": "torchtune_script.Tokenizer"}
        config.dataset = {"_component_": "torchtune_script.Tokens", "samples": 3 * int(batch), "length": int(length)}
        config.checkpointer = {"_component_": "torchtune.training.FullModelHFCheckpointer", "checkpoint_dir": folder + "/base",
                               "checkpoint_files": ["model.safetensors"], "recipe_checkpoint": None, "output_dir": folder + "/out", "model_type": name}
        if kind == "full":
            config.optimizer = {"_component_": "torch.optim.AdamW", "lr": 1e-4, "fused": True}
        OmegaConf.save(config, folder + "/config.yaml")
        recipe = "full_finetune_single_device.py" if kind == "full" else "lora_finetune_single_device.py"
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        sys.argv = [recipe, "--config", folder + "/config.yaml"]
        try:
            runpy.run_path(os.path.join(recipes, recipe), run_name="__main__")
        except SystemExit as ended:
            if ended.code:
                raise
    stats = torch.cuda.memory_stats()
    print("peaks", *(stats[f"{figure}_bytes.all.peak"] for figure in ("requested", "allocated", "reserved")))


if __name__ == "__main__":
    main()

"""Models whose linear layers a library stores in a form of its own, for quantized.sh."""
from __future__ import annotations

from typing import Any, Callable, Dict

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width: int, bias: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width, bias=bias), nn.Linear(4 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    """[tokens, 64]: its first and last layer are trained, what is between them is stored."""

    def __init__(self, bias: bool = True, width: int = 512, depth: int = 2) -> None:
        super().__init__()
        self.first = nn.Linear(64, width)
        self.blocks = nn.ModuleList(Block(width, bias) for _ in range(depth))
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


def replaced(make: Callable[[nn.Linear], nn.Module], bias: bool = True) -> nn.Module:
    net = Net(bias)
    for block in net.blocks:
        block.up, block.down = make(block.up), make(block.down)
    return net


def bitsandbytes_4bit(kind: str = "nf4", twice: bool = True, compute: str = "bfloat16") -> nn.Module:
    """Without a bias, which the first forward would bring into the type that is computed in."""
    import bitsandbytes

    return replaced(lambda linear: bitsandbytes.nn.Linear4bit(linear.in_features, linear.out_features, linear.bias is not None, getattr(torch, compute),
                                                              compress_statistics=twice, quant_type=kind), bias=False)


def bitsandbytes_8bit(threshold: float = 6.0) -> nn.Module:
    import bitsandbytes

    return replaced(lambda linear: bitsandbytes.nn.Linear8bitLt(linear.in_features, linear.out_features, linear.bias is not None, has_fp16_weights=False,
                                                                threshold=threshold))


def torchao_stored(kind: str = "Int8WeightOnlyConfig") -> nn.Module:
    import torchao.quantization as ao

    net = Net()
    net.blocks.requires_grad_(False)
    ao.quantize_(net.blocks, getattr(ao, kind)())
    return net


def llama(kind: str = "4bit", adapters: bool = True, checkpoint: bool = False) -> nn.Module:
    """peft's way to fine-tune a quantized model."""
    import peft
    from transformers import BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM

    from gpuplan.quantized_transformers import in_its_form

    config = LlamaConfig(hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=1000,
                         max_position_embeddings=512, use_cache=False)
    config.quantization_config = BitsAndBytesConfig(load_in_4bit=kind == "4bit", load_in_8bit=kind == "8bit", bnb_4bit_quant_type="nf4",
                                                    bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.bfloat16)
    model: Any = in_its_form(LlamaForCausalLM(config), config)
    flags: Dict[str, Any] = {"is_loaded_in_4bit": kind == "4bit", "is_loaded_in_8bit": kind == "8bit"}
    vars(model).update(flags)
    model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=checkpoint)
    if not adapters:
        return model
    return peft.get_peft_model(model, peft.LoraConfig(r=16, lora_alpha=32, lora_dropout=0.05, target_modules="all-linear", task_type="CAUSAL_LM"))

"""Models with adapters or frozen parts, and training loops that save memory, written as PyTorch code.

tests/shadow/models/{lora,frozen,saving}_NAME.yaml are the models' twins, and tests/shadow/results/*/NAME.json what
PyTorch, peft 0.21 and transformers 5 allocate for them under a CUDA runtime without a device. MODELS[name] builds a
model; LOOPS[key] replaces the optimizer of a step in runs whose recipe has that key:

    in_backward        the optimizer steps a parameter as soon as its gradient is there
    master             fp32 copies of half-precision parameters; copy_grads() runs before clipping and stepping
    offload_optimizer  states and step on the host

In runs with `offload_saved` forward and loss run within torch.autograd.graph.save_on_cpu().
"""
import peft
import torch
import torchvision
import transformers
from torch import nn


def adapted(model, **lora):
    torch.set_default_dtype(torch.float32)  # the user's, where the model was made in half precision
    return peft.get_peft_model(model, peft.LoraConfig(**lora))


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=3, use_cache=False))


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=32000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=3, num_attention_heads=16,
        num_key_value_heads=4, max_position_embeddings=2048, use_cache=False))


def mlp():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))


def mlp_with_norms():
    return nn.Sequential(nn.Linear(784, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Dropout(0.5), nn.Linear(512, 256),
                         nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.25), nn.Linear(256, 10))


def trained(model, parts):
    """Everything but the parameters whose names have one of these parts is frozen."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad = any(part in name for part in parts)
    return model


MODELS = {
    "lora_gpt2": lambda: adapted(gpt2(), r=8, lora_alpha=16, target_modules=["c_attn"], task_type="CAUSAL_LM"),
    "lora_gpt2_dropout": lambda: adapted(gpt2(), r=16, lora_alpha=32, lora_dropout=0.1, task_type="CAUSAL_LM",
                                         target_modules=["c_attn", "c_proj", "c_fc"]),
    "lora_llama": lambda: adapted(llama(), r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"],
                                  task_type="CAUSAL_LM"),
    "lora_llama_all": lambda: adapted(llama(), r=4, lora_alpha=4, lora_dropout=0.05, target_modules="all-linear",
                                      task_type="CAUSAL_LM"),
    "lora_mlp": lambda: adapted(mlp(), r=8, lora_alpha=8, target_modules=["0", "2"]),
    "frozen_resnet18": lambda: trained(torchvision.models.resnet18(), ["layer4", "fc."]),
    "frozen_probe": lambda: trained(torchvision.models.resnet18(), ["fc."]),
    "frozen_gpt2": lambda: trained(gpt2(), ["transformer.h.", "transformer.ln_f"]),
    "frozen_llama": lambda: trained(llama(), ["layernorm", "down_proj", "k_proj"]),
    "saving_mlp": mlp_with_norms,
    "saving_resnet18": torchvision.models.resnet18,
    "saving_gpt2": gpt2,
    "saving_llama": llama,
}


class InBackward:
    """PyTorch's tutorial "How to save memory by fusing the optimizer step into the backward pass"."""

    def __init__(self, parameters, make_optimizer):
        optimizers = {p: make_optimizer([p]) for p in parameters}

        def hook(parameter):
            optimizers[parameter].step()
            optimizers[parameter].zero_grad()

        for p in optimizers:
            p.register_post_accumulate_grad_hook(hook)

    def zero_grad(self):
        pass

    def step(self):
        pass


class Master:
    """Megatron-LM's Float16OptimizerWithFloat16Params (megatron/core/optimizer/optimizer.py), without main_grad."""

    def __init__(self, parameters, make_optimizer):
        self.parameters = list(parameters)
        self.copies = [p.detach().clone().float().requires_grad_() for p in self.parameters]
        self.optimizer = make_optimizer(self.copies)

    def zero_grad(self):
        for p in [*self.parameters, *self.copies]:
            p.grad = None

    def copy_grads(self):
        for p, copy in zip(self.parameters, self.copies):
            if p.grad is not None:
                copy.grad = p.grad.float()
            p.grad = None

    def step(self):
        self.optimizer.step()
        for p, copy in zip(self.parameters, self.copies):
            p.data.copy_(copy.data)


class Host:
    """Copies of the parameters on the host, which the optimizer steps."""

    def __init__(self, parameters, make_optimizer):
        self.parameters = list(parameters)
        self.copies = [nn.Parameter(p.detach().to("cpu")) for p in self.parameters]
        self.optimizer = make_optimizer(self.copies)

    def zero_grad(self):
        for p in [*self.parameters, *self.copies]:
            p.grad = None

    def step(self):
        for p, copy in zip(self.parameters, self.copies):
            if p.grad is not None:
                copy.grad = p.grad.to("cpu")
        self.optimizer.step()
        with torch.no_grad():
            for p, copy in zip(self.parameters, self.copies):
                p.copy_(copy)


LOOPS = {"in_backward": InBackward, "master": Master, "offload_optimizer": Host}

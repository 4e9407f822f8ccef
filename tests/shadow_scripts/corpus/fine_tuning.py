"""fine_tuning.py WAY: two steps of a small Llama: qlora, adam8bit, paged, galore, liger, torchao8bit, deepspeed."""

import sys

import torch
import transformers

way = sys.argv[1]
torch.manual_seed(0)
config = transformers.LlamaConfig(
    vocab_size=8000, hidden_size=512, intermediate_size=1408, num_hidden_layers=4, num_attention_heads=8
)
model = transformers.LlamaForCausalLM(config)


def qlora():
    import bitsandbytes
    import peft

    for name, layer in list(model.named_modules()):
        if isinstance(layer, torch.nn.Linear) and name != "lm_head":
            packed = bitsandbytes.nn.Linear4bit(
                layer.in_features, layer.out_features, bias=False, compute_dtype=torch.bfloat16, quant_type="nf4"
            )
            packed.load_state_dict(layer.state_dict())
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, packed)
    model.cuda()
    model.is_loaded_in_4bit = True
    prepared = peft.prepare_model_for_kbit_training(model)
    return peft.get_peft_model(prepared, peft.LoraConfig(r=8, target_modules="all-linear")), torch.optim.AdamW


def bitsandbytes_optimizer(name):
    import bitsandbytes

    return model.cuda(), getattr(bitsandbytes.optim, name)


def make():
    if way == "qlora":
        return qlora()
    if way == "adam8bit":
        return bitsandbytes_optimizer("AdamW8bit")
    if way == "paged":
        return bitsandbytes_optimizer("PagedAdamW8bit")
    if way == "galore":
        import galore_torch

        return model.cuda(), galore_torch.GaLoreAdamW
    if way == "liger":
        import liger_kernel.transformers

        liger_kernel.transformers.apply_liger_kernel_to_llama(model=model)
        return model.cuda(), torch.optim.AdamW
    import torchao

    return model.cuda(), torchao.optim.AdamW8bit


tuned, kind = make()
weights = [weight for weight in tuned.parameters() if weight.requires_grad]
if way == "galore":
    matrices = [weight for weight in weights if weight.dim() == 2]
    others = [weight for weight in weights if weight.dim() != 2]
    low = {"params": matrices, "rank": 32, "update_proj_gap": 200, "scale": 0.25, "proj_type": "std"}
    weights = [{"params": others}, low]
optimizer = kind(weights, lr=1e-4)
tokens = torch.randint(8000, (2, 512)).cuda()
for _ in range(2):
    with torch.autocast("cuda", torch.bfloat16):
        loss = tuned(input_ids=tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

"""transformers_models.py train|generate FAMILY [WAY]: two training steps of a small model of a family of Hugging Face, or a
generation: greedy, sample, beam, assisted."""

import sys

import torch
import transformers

SMALL = {
    "vocab_size": 8000,
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 688,
    "head_dim": 32,
}
EXPERTS = {
    "num_experts": 8,
    "num_local_experts": 8,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 256,
    "n_group": 2,
    "topk_group": 1,
}
GPT2 = {"vocab_size": 8000, "n_embd": 256, "n_layer": 4, "n_head": 8}
T5 = {"vocab_size": 8000, "d_model": 256, "d_kv": 32, "d_ff": 512, "num_layers": 3, "num_heads": 8, "decoder_start_token_id": 0}
LATENT = {"q_lora_rank": 64, "kv_lora_rank": 64, "qk_rope_head_dim": 32, "qk_nope_head_dim": 32, "v_head_dim": 32, "num_key_value_heads": 8}
SPECIAL = {"gpt2": GPT2, "t5": T5, "deepseek_v3": {**SMALL, **EXPERTS, **LATENT}}
MASKED = ("bert", "roberta", "distilbert", "modernbert")


def model_of(family):
    values = SPECIAL.get(family, {**SMALL, **EXPERTS})
    values = {**values, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
    config = transformers.AutoConfig.for_model(family, **values)
    kind = transformers.AutoModelForCausalLM
    if family in MASKED:
        kind = transformers.AutoModelForMaskedLM
    if family == "t5":
        kind = transformers.AutoModelForSeq2SeqLM
    torch.manual_seed(0)
    return kind.from_config(config).cuda()


def train(family):
    model = model_of(family)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    tokens = torch.randint(3, 8000, (4, 256)).cuda()
    mask = (torch.arange(256) < torch.tensor([[256], [200], [128], [77]])).long().cuda()
    for _ in range(2):
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(input_ids=tokens, attention_mask=mask, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(loss.item())


def generate(family, way):
    model = model_of(family).eval()
    tokens = torch.randint(3, 8000, (1 if way == "assisted" else 2, 32)).cuda()
    how = {
        "greedy": {},
        "sample": {"do_sample": True, "top_k": 50, "top_p": 0.9},
        "beam": {"num_beams": 4},
        "assisted": {"assistant_model": model_of(family).eval()} if way == "assisted" else {},
    }[way]
    print(model.generate(tokens, max_new_tokens=24, **how).shape[0])


torch.set_default_device("cpu")
train(sys.argv[2]) if sys.argv[1] == "train" else generate(*sys.argv[2:])

"""A LoRA fine-tune of a small LLaMA with peft: only the adapters train, and only they are saved."""
import os
import tempfile

import peft
import torch
import transformers


def main():
    config = transformers.LlamaConfig(vocab_size=512, hidden_size=256, intermediate_size=512, num_hidden_layers=4,
                                      num_attention_heads=8, num_key_value_heads=4, use_cache=False)
    model = transformers.LlamaForCausalLM(config).to("cuda", torch.bfloat16)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.enable_input_require_grads()
    model = peft.get_peft_model(model, peft.LoraConfig(r=8, lora_alpha=16, lora_dropout=0.05, task_type="CAUSAL_LM",
                                                       target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]))
    model.print_trainable_parameters()
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-4)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, 2, 8)
    model.train()
    for _ in range(8):
        ids = torch.randint(0, 512, (4, 128), device="cuda")
        loss = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids).loss
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    states = sum(s.numel() * s.element_size() for state in optimizer.state.values() for s in state.values()
                 if torch.is_tensor(s) and s.is_cuda)
    trainable = sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)
    assert states == 2 * trainable, (states, trainable)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        assert os.path.getsize(os.path.join(folder, "adapter_model.safetensors")) < 2**20
    merged = model.merge_and_unload()
    with torch.inference_mode():
        merged(input_ids=ids)
    print("finished: loss", loss.item(), "peak", torch.cuda.max_memory_allocated())


if __name__ == "__main__":
    main()

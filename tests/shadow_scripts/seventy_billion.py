"""LLaMA with 70 billion parameters in bf16, built on the device, and one forward pass; the host needs little memory."""
import resource

import torch
import transformers


def main():
    config = transformers.LlamaConfig(
        vocab_size=32000, hidden_size=8192, intermediate_size=28672, num_hidden_layers=80, num_attention_heads=64,
        num_key_value_heads=8, max_position_embeddings=4096, use_cache=False)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = transformers.LlamaForCausalLM(config).eval()
        ids = torch.zeros(1, 1024, dtype=torch.int64)
    parameters = sum(p.numel() for p in model.parameters())
    assert parameters == 68_976_648_192, parameters
    with torch.inference_mode():
        logits = model(input_ids=ids).logits
    assert logits.shape == (1, 1024, 32000)
    peak = torch.cuda.max_memory_allocated()
    assert 2 * parameters < peak < 2 * parameters + 2**31, peak
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert resident < 3 * 2**20, "the host needed %d KiB" % resident
    print("finished:", parameters, "parameters, peak", peak, "bytes; resident at most", resident, "KiB")


if __name__ == "__main__":
    main()

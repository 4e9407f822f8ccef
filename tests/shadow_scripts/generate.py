"""Text generation with a cache that grows, and with one of fixed size."""
import torch
import transformers

PROMPT, NEW, BATCH = 64, 48, 4


def main():
    config = transformers.LlamaConfig(vocab_size=512, hidden_size=256, intermediate_size=512, num_hidden_layers=4,
                                      num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=256)
    config._attn_implementation = "sdpa"
    with torch.device("cuda"):
        model = transformers.LlamaForCausalLM(config).to(torch.bfloat16).eval()
    ids = torch.ones(BATCH, PROMPT, dtype=torch.int64, device="cuda")
    mask = torch.ones_like(ids)
    # Every logit is equal where no kernel computes them; a token that is not the end keeps the generation going.
    settings = dict(max_new_tokens=NEW, min_new_tokens=NEW, pad_token_id=511, eos_token_id=510)
    static = {"do_sample": False, "cache_implementation": "static"}
    if hasattr(model.generation_config, "disable_compile"):
        static["disable_compile"] = True  # it would be compiled with Triton, which needs a GPU
    for arguments in ({"do_sample": False}, {"do_sample": True, "top_k": 20, "temperature": 0.8},
                      static):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        out = model.generate(ids, attention_mask=mask, **settings, **arguments)
        assert out.shape == (BATCH, PROMPT + NEW), out.shape
        print(arguments, "grew by", torch.cuda.max_memory_allocated() - before)
    # The cache by hand: two tensors a layer, of batch x heads x length x head size x 2 bytes.
    with torch.inference_mode():
        cache = model(input_ids=ids, use_cache=True).past_key_values
        held = []
        for _ in range(NEW):
            out = model(input_ids=ids[:, :1], past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            held.append(cache.get_seq_length())
    assert held == list(range(PROMPT + 1, PROMPT + NEW + 1)), held
    print("finished: peak", torch.cuda.max_memory_allocated())


if __name__ == "__main__":
    main()

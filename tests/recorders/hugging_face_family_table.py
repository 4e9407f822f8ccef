"""Families of transformers that hugging_face_families.py writes templates of: the class, the sizes of its configuration, and what it is
exported with."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

POSITIVE = ">0"  # any number that is not zero

Sizes = Dict[str, int]  # by the key of config.json


class Family(NamedTuple):
    cls: str
    variables: Dict[str, str]  # of each key of config.json that is a size
    sizes: List[Sizes]  # of some configurations, all different
    otherwise: Dict[str, str] = {}  # of keys that may be left out, where the class makes them of others: an expression of variables
    fixed: Dict[str, Any] = {}  # of every export
    derived: Sequence[str] = ()  # expressions of variables that are themselves parts of others
    flags: Dict[str, Sequence[Any]] = {}  # values of a key that get lines of their own
    left_out: Dict[str, str] = {}  # variables for keys that count layers which the class does not build, and that a plan says it leaves out
    kinds: Dict[str, Callable[[Dict[str, Any]], List[str]]] = {}  # `layers` or what else is numbered: the kind of each layer
    besides: Sequence[str] = ()  # keys that numbered_layers.cpp reads, and what the class makes of other keys
    batch: Callable[[Any, Sizes], Dict[str, torch.Tensor]] = lambda config, lengths: of_tokens(lengths, labels="input_ids")
    loss: Optional[Callable[..., Any]] = None  # of a class that has none
    lengths: Sequence[str] = ("seq",)
    positions: Dict[str, Tuple[str, int]] = {"seq": ("max_position_embeddings", 2048)}  # the most tokens, empty where there is no limit, and how many are usual
    shortest: int = 60  # a text that is longer than a window


def zeros(*sizes: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.zeros(2, *sizes, dtype=dtype, device="meta")


def of_tokens(lengths: Sizes, labels: str = "") -> Dict[str, torch.Tensor]:
    ids = zeros(lengths["seq"])
    return {"input_ids": ids, **({"labels": ids} if labels == "input_ids" else {"labels": zeros(lengths["seq"])} if labels else {})}


def lengths_at(family: Family, at: int) -> Sizes:
    return {name: family.shortest + 17 * at + 23 * k * (at + 1) for k, name in enumerate(family.lengths)}


def draws(*rows: Sequence[int], keys: str) -> List[Sizes]:
    return [dict(zip(keys.split(), row)) for row in rows]


def towers(cls: str, projection: str, tokens: int, projections: Sequence[int]) -> Family:
    """Texts and images; without a loss of its own where none is asked for."""
    rows = [(1009, 96, 200, 3, 4, 155, 144, 216, 2, 9, 64, 16), (757, 240, 328, 6, 6, 170, 320, 344, 5, 5, 84, 14),
            (911, 320, 424, 5, 10, 191, 672, 408, 4, 16, 96, 8), (1213, 672, 520, 4, 12, 211, 756, 552, 3, 14, 96, 32),
            (853, 840, 616, 8, 15, 233, 880, 632, 7, 20, 105, 15)]
    text = {"vocab_size": "vocabulary", "hidden_size": "hidden", "intermediate_size": "inner", "num_hidden_layers": "layers",
            "num_attention_heads": "heads", "max_position_embeddings": "positions"}
    image = {"hidden_size": "image_hidden", "intermediate_size": "image_inner", "num_hidden_layers": "image_layers",
             "num_attention_heads": "image_heads", "image_size": "size", "patch_size": "patch"}
    variables = {**{f"text_config.{k}": v for k, v in text.items()}, **{f"vision_config.{k}": v for k, v in image.items()}, projection: "projection"}

    def batch(config: Any, lengths: Sizes) -> Dict[str, torch.Tensor]:
        size = config.vision_config.image_size
        return {"input_ids": zeros(lengths["seq"]), "pixel_values": zeros(3, size, size, dtype=torch.float32)}

    return Family(cls, variables, draws(*[(*row, last) for row, last in zip(rows, projections)], keys=" ".join(variables)),
                  fixed={"text_config.eos_token_id": 2, "text_config.bos_token_id": 1}, batch=batch, loss=lambda model, out, batch: out[0].mean(),
                  derived=["hidden//heads", "image_hidden//image_heads", "size//patch"],
                  positions={"seq": ("text_config.max_position_embeddings", tokens)})


DECODER = {"vocab_size": "vocabulary", "hidden_size": "hidden", "num_hidden_layers": "layers", "num_attention_heads": "heads"}
OF_EXPERTS = [(1009, 96, 4, 4, 2, 32, 72, 8, 2), (757, 160, 5, 6, 3, 24, 104, 10, 4), (911, 224, 6, 10, 5, 16, 88, 12, 6),
              (1213, 288, 4, 12, 4, 40, 136, 14, 3), (853, 352, 6, 15, 5, 48, 56, 16, 5), (1327, 416, 7, 9, 3, 56, 120, 18, 7)]
TIED = {"tie_word_embeddings": (False, True)}

FAMILIES: Dict[str, Family] = {
    "qwen3_moe": Family(
        "Qwen3MoeForCausalLM",
        {**DECODER, "num_key_value_heads": "kv_heads", "head_dim": "head", "moe_intermediate_size": "inner", "num_experts": "experts",
         "num_experts_per_tok": "top_k"},
        draws(*OF_EXPERTS, keys="vocab_size hidden_size num_hidden_layers num_attention_heads num_key_value_heads head_dim moe_intermediate_size "
              "num_experts num_experts_per_tok"),
        fixed={"decoder_sparse_step": 1, "mlp_only_layers": []},
        otherwise={"head_dim": "hidden//heads"},
        flags={**TIED, "norm_topk_prob": (False, True), "attention_bias": (False, True)}),
    "deepseek_v3": Family(
        "DeepseekV3ForCausalLM",
        {**DECODER, "intermediate_size": "dense", "moe_intermediate_size": "inner", "n_routed_experts": "experts", "n_shared_experts": "shared",
         "num_experts_per_tok": "top_k", "n_group": "groups", "topk_group": "chosen", "q_lora_rank": "q_rank", "kv_lora_rank": "kv_rank",
         "qk_nope_head_dim": "plain", "qk_rope_head_dim": "turned", "v_head_dim": "value"},
        draws((1009, 96, 3, 4, 200, 72, 24, 1, 2, 3, 2, 40, 56, 16, 8, 24, 1), (757, 160, 5, 6, 328, 104, 20, 2, 4, 4, 3, 48, 88, 32, 24, 40, 2),
              (911, 224, 6, 10, 424, 88, 40, 3, 6, 5, 2, 72, 104, 48, 16, 56, 2), (1213, 288, 4, 12, 520, 136, 42, 1, 3, 6, 4, 136, 152, 64, 40, 88, 1),
              (853, 352, 7, 15, 616, 120, 56, 4, 5, 7, 3, 168, 184, 80, 48, 104, 3),
              keys="vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size moe_intermediate_size n_routed_experts "
              "n_shared_experts num_experts_per_tok n_group topk_group q_lora_rank kv_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim "
              "first_k_dense_replace"),
        flags=TIED, besides=["first_k_dense_replace", "head_dim"], left_out={"num_nextn_predict_layers": "prediction_layers"},
        kinds={"layers": lambda config: ["dense" if i < config["first_k_dense_replace"] else "experts" for i in range(config["num_hidden_layers"])]}),
    "gpt_oss": Family(
        "GptOssForCausalLM",
        {**DECODER, "num_key_value_heads": "kv_heads", "head_dim": "head", "intermediate_size": "inner", "num_local_experts": "experts",
         "num_experts_per_tok": "top_k", "sliding_window": "window"},
        draws(*[(*row, window) for row, window in zip(OF_EXPERTS, (128, 92, 166, 74, 118, 150))], keys="vocab_size hidden_size num_hidden_layers "
              "num_attention_heads num_key_value_heads head_dim intermediate_size num_local_experts num_experts_per_tok sliding_window"),
        flags=TIED, shortest=201, kinds={"layers": lambda config: config["layer_types"]}),
    "gpt_neox": Family(
        "GPTNeoXForCausalLM", {**DECODER, "intermediate_size": "inner"},
        draws((1009, 96, 3, 4, 200), (757, 240, 4, 6, 328), (911, 320, 5, 10, 424), (1213, 672, 6, 12, 520), (853, 840, 7, 15, 616),
              keys="vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size"),
        derived=["hidden//heads"], flags={**TIED, "attention_bias": (False, True), "use_parallel_residual": (False, True), "hidden_act": ("gelu", "gelu_fast", "gelu_new")}),
    "modernbert": Family(
        "ModernBertForMaskedLM", {**DECODER, "intermediate_size": "inner", "local_attention": "window"},
        draws((1009, 96, 7, 4, 200, 128), (757, 240, 8, 6, 328, 92), (911, 320, 9, 10, 424, 166), (1213, 672, 7, 12, 520, 74), (853, 840, 8, 15, 616, 118),
              keys="vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size local_attention"),
        besides=["global_attn_every_n_layers"],
        fixed={"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2},
        batch=lambda config, lengths: of_tokens(lengths, labels="apart"), derived=["hidden//heads"], shortest=201,
        kinds={"layers": lambda config: ["first", *config["layer_types"][1:]]}),
    "bart": Family(
        "BartForConditionalGeneration",
        {"vocab_size": "vocabulary", "d_model": "hidden", "encoder_layers": "layers", "decoder_layers": "decoder_layers",
         "encoder_attention_heads": "heads", "decoder_attention_heads": "decoder_heads", "encoder_ffn_dim": "inner", "decoder_ffn_dim": "decoder_inner",
         "max_position_embeddings": "positions"},
        draws((1009, 96, 3, 2, 4, 6, 200, 216, 1024), (757, 240, 4, 5, 6, 8, 328, 344, 1300), (911, 320, 5, 4, 10, 16, 424, 408, 900),
              (1213, 672, 2, 3, 12, 14, 520, 552, 700), (853, 840, 6, 7, 15, 20, 616, 632, 1111),
              keys="vocab_size d_model encoder_layers decoder_layers encoder_attention_heads decoder_attention_heads encoder_ffn_dim decoder_ffn_dim "
              "max_position_embeddings"),
        derived=["hidden//heads", "hidden//decoder_heads"], flags={"scale_embedding": (False, True), "attention_dropout": (0.0, POSITIVE)}, lengths=("seq", "target"),
        positions={"seq": ("max_position_embeddings", 1024), "target": ("max_position_embeddings", 128)},
        batch=lambda config, lengths: {"labels": zeros(lengths["target"]), "input_ids": zeros(lengths["seq"])}),
    "mamba2": Family(
        "Mamba2ForCausalLM",
        {"vocab_size": "vocabulary", "hidden_size": "hidden", "num_hidden_layers": "layers", "num_heads": "heads", "head_dim": "head", "state_size": "state",
         "n_groups": "groups", "chunk_size": "chunk", "conv_kernel": "kernel", "expand": "expand"},
        draws((1009, 96, 3, 6, 32, 16, 2, 41, 4, 2), (757, 160, 4, 20, 24, 40, 5, 29, 3, 3), (911, 224, 5, 28, 8, 72, 7, 37, 5, 1), (1213, 320, 6, 12, 80, 56, 3, 53, 6, 3),
              (853, 352, 7, 44, 16, 88, 11, 31, 7, 2),
              keys="vocab_size hidden_size num_hidden_layers num_heads head_dim state_size n_groups chunk_size conv_kernel expand"),
        flags={**TIED, "use_bias": (False, True), "use_conv_bias": (True, False), "residual_in_fp32": (True, False)}, besides=["time_step_rank"],
        derived=["hidden*expand", "hidden*expand + 2*groups*state", "2*hidden*expand + 2*groups*state + heads", "(seq + chunk - 1)//chunk", "(chunk - seq % chunk) % chunk"],
        positions={"seq": ("", 2048)}),
    "llama4_text": Family(
        "Llama4ForCausalLM",
        {**DECODER, "num_key_value_heads": "kv_heads", "head_dim": "head", "intermediate_size": "inner", "intermediate_size_mlp": "dense",
         "num_local_experts": "experts", "num_experts_per_tok": "top_k"},
        draws((1009, 96, 7, 4, 2, 32, 72, 200, 8, 2), (757, 160, 9, 6, 3, 24, 104, 328, 10, 4), (911, 224, 11, 10, 5, 16, 88, 424, 12, 6),
              (1213, 288, 13, 12, 4, 40, 136, 520, 14, 3), (853, 352, 15, 15, 5, 48, 56, 616, 16, 5),
              keys="vocab_size hidden_size num_hidden_layers num_attention_heads num_key_value_heads head_dim intermediate_size intermediate_size_mlp "
              "num_local_experts num_experts_per_tok"),
        fixed={"interleave_moe_layer_step": 2, "no_rope_layer_interval": 3, "pad_token_id": 0}, besides=["interleave_moe_layer_step", "no_rope_layer_interval"],
        flags={**TIED, "use_qk_norm": (True, False), "attn_temperature_tuning": (True, False), "attention_bias": (False, True)},
        positions={"seq": ("attention_chunk_size", 2048)},
        kinds={"layers": lambda config: [("experts" if i in config["moe_layers"] else "dense") + ("" if config["no_rope_layers"][i] else "_everywhere")
                                         for i in range(config["num_hidden_layers"])]}),
    "clip": towers("CLIPModel", "projection_dim", 77, [40, 56, 72, 88, 104]),
    "siglip": towers("SiglipModel", "text_config.projection_size", 64, [144, 320, 672, 756, 880]),
}

"""Small vision-language models of transformers, for vision_language.sh: texts of 96 tokens with one image of 56 x 56."""
from __future__ import annotations

from typing import Any, Dict

import transformers

TEXT = {"vocab_size": 1009, "hidden_size": 96, "intermediate_size": 200, "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 16}
IMAGE = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 56, "patch_size": 14}


def made(kind: str, text: str, vision: str, of_text: Dict[str, Any] = {}, of_image: Dict[str, Any] = {}, **more: Any) -> Any:
    """A model of the configuration class KINDConfig, trained without a cache."""
    config = getattr(transformers, kind + "Config")(text_config={"model_type": text, **TEXT, **of_text}, vision_config={"model_type": vision, **IMAGE, **of_image}, **more)
    config.text_config.use_cache = False
    return getattr(transformers, kind + "ForConditionalGeneration")(config)


def llava() -> Any:
    return made("Llava", "llama", "clip_vision_model", image_token_index=0)


def paligemma() -> Any:
    return made("PaliGemma", "gemma", "siglip_vision_model", of_image={"projection_dim": 96}, image_token_index=5, projection_dim=96)


def gemma3() -> Any:
    return made("Gemma3", "gemma3_text", "siglip_vision_model", {"sliding_window": 32}, image_token_index=5, mm_tokens_per_image=4, boi_token_index=6, eoi_token_index=7)


def internvl() -> Any:
    return made("InternVL", "qwen2", "internvl_vision", of_image={"image_size": [56, 56], "patch_size": [14, 14]}, image_token_id=5)


def llama4() -> Any:
    """Positions are complex numbers in both towers, and attention is within chunks of 64 tokens."""
    text = {"intermediate_size": 72, "intermediate_size_mlp": 200, "num_hidden_layers": 4, "num_local_experts": 8, "attention_chunk_size": 64, "pad_token_id": 0}
    image = {"intermediate_size": 256, "vision_output_dim": 64, "projector_input_dim": 64, "projector_output_dim": 64}
    return made("Llama4", "llama4_text", "llama4_vision_model", text, image, image_token_index=5)


def blip2() -> Any:
    text = {"ffn_dim": 200, "word_embed_proj_dim": 96}
    between = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96, "encoder_hidden_size": 64}
    return made("Blip2", "opt", "blip_2_vision_model", text, qformer_config=between, num_query_tokens=8, image_token_index=5)

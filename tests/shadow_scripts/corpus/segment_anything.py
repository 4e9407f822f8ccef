"""Masks for everything in an image: SAM with random weights, by the pipeline of transformers."""

import numpy
import torch
import transformers
from PIL import Image

torch.manual_seed(0)
vision = transformers.SamVisionConfig(
    hidden_size=192, num_hidden_layers=4, num_attention_heads=4, image_size=512, global_attn_indexes=[1, 3]
)
prompts = transformers.SamPromptEncoderConfig(image_size=512)
config = transformers.SamConfig(vision_config=vision.to_dict(), prompt_encoder_config=prompts.to_dict())
model = transformers.SamModel(config).cuda().eval()
processor = transformers.SamProcessor(
    transformers.SamImageProcessor(size={"longest_edge": 512}, pad_size={"height": 512, "width": 512})
)
masks = transformers.pipeline("mask-generation", model=model, image_processor=processor.image_processor, device=0)
image = Image.fromarray(numpy.random.default_rng(0).integers(0, 255, (400, 512, 3), numpy.uint8))
print(len(masks(image, points_per_batch=32)["masks"]) >= 0)

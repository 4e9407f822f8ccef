"""Networks of diffusers with the structure of published ones and small sizes, for diffusion.sh."""
from __future__ import annotations

from typing import Any

import diffusers
import torch
from torch import nn


class Denoiser(nn.Module):
    """What a network of diffusers returns is an object that names its sample."""

    def __init__(self, kind: str, **config: Any) -> None:
        super().__init__()
        self.net = getattr(diffusers, kind)(**config)


class StableDiffusion(Denoiser):
    """1.5: --input 4x32x32 --input int64 --input 16x64."""

    def __init__(self) -> None:
        super().__init__("UNet2DConditionModel", sample_size=32, block_out_channels=(32, 64, 128, 128), cross_attention_dim=64, attention_head_dim=8)

    def forward(self, sample: torch.Tensor, timestep: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        return self.net(sample, timestep, text).sample


class StableDiffusionXL(Denoiser):
    """--input 4x32x32 --input int64 --input 16x64 --input 64 --input 6."""

    def __init__(self) -> None:
        down, up = ("DownBlock2D", *["CrossAttnDownBlock2D"] * 2), (*["CrossAttnUpBlock2D"] * 2, "UpBlock2D")
        super().__init__("UNet2DConditionModel", sample_size=32, block_out_channels=(32, 64, 128), down_block_types=down, up_block_types=up,
                         transformer_layers_per_block=(1, 2, 3), cross_attention_dim=64, attention_head_dim=(4, 8, 8), addition_embed_type="text_time",
                         addition_time_embed_dim=32, projection_class_embeddings_input_dim=32 * 6 + 64, use_linear_projection=True)

    def forward(self, sample: torch.Tensor, timestep: torch.Tensor, text: torch.Tensor, pooled: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return self.net(sample, timestep, text, added_cond_kwargs={"text_embeds": pooled, "time_ids": ids}).sample


class StableDiffusion3(Denoiser):
    """--input 16x32x32 --input int64 --input 12x96 --input 48."""

    def __init__(self) -> None:
        super().__init__("SD3Transformer2DModel", sample_size=32, num_layers=2, attention_head_dim=16, num_attention_heads=4, joint_attention_dim=96,
                         caption_projection_dim=64, pooled_projection_dim=48, pos_embed_max_size=24)

    def forward(self, sample: torch.Tensor, timestep: torch.Tensor, text: torch.Tensor, pooled: torch.Tensor) -> torch.Tensor:
        return self.net(sample, encoder_hidden_states=text, pooled_projections=pooled, timestep=timestep).sample


class Flux(Denoiser):
    """--input 64x64 --input 12x96 --input 48 --input float32 --input float32."""

    def __init__(self) -> None:
        super().__init__("FluxTransformer2DModel", num_layers=2, num_single_layers=2, attention_head_dim=16, num_attention_heads=4, joint_attention_dim=96,
                         pooled_projection_dim=48, guidance_embeds=True, axes_dims_rope=(4, 6, 6))

    def forward(self, x: torch.Tensor, text: torch.Tensor, pooled: torch.Tensor, timestep: torch.Tensor, guidance: torch.Tensor) -> torch.Tensor:
        places = {name: torch.zeros(t.shape[1], 3, device=x.device) for name, t in (("img_ids", x), ("txt_ids", text))}
        return self.net(x, encoder_hidden_states=text, pooled_projections=pooled, timestep=timestep, guidance=guidance, **places).sample


class DiT(Denoiser):
    """--input 4x16x16 --input int64 --input int64."""

    def __init__(self) -> None:
        super().__init__("DiTTransformer2DModel", num_attention_heads=4, attention_head_dim=16, num_layers=2, sample_size=16, num_embeds_ada_norm=100)

    def forward(self, x: torch.Tensor, timestep: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        return self.net(x, timestep=timestep, class_labels=classes).sample


class PixArt(Denoiser):
    """--input 4x16x16 --input 12x48 --input int64."""

    def __init__(self) -> None:
        super().__init__("PixArtTransformer2DModel", num_attention_heads=4, attention_head_dim=16, num_layers=2, sample_size=16, cross_attention_dim=64,
                         caption_channels=48)

    def forward(self, x: torch.Tensor, text: torch.Tensor, timestep: torch.Tensor) -> torch.Tensor:
        return self.net(x, encoder_hidden_states=text, timestep=timestep).sample


class ControlNet(Denoiser):
    """--input 4x32x32 --input int64 --input 16x64 --input 3x64x64."""

    def __init__(self) -> None:
        super().__init__("ControlNetModel", block_out_channels=(32, 64, 128, 128), cross_attention_dim=64, attention_head_dim=8,
                         conditioning_embedding_out_channels=(16, 32))

    def forward(self, x: torch.Tensor, timestep: torch.Tensor, text: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        return self.net(x, timestep, text, condition, return_dict=False)[1]


class Autoencoder(Denoiser):
    """--input 3x32x32."""

    def __init__(self) -> None:
        super().__init__("AutoencoderKL", block_out_channels=(32, 64), down_block_types=["DownEncoderBlock2D"] * 2, up_block_types=["UpDecoderBlock2D"] * 2,
                         layers_per_block=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net.decode(self.net.encode(x).latent_dist.mean).sample

"""LoRA of SDXL and FLUX as diffusers' training scripts take their steps, with small sizes: the network has adapters and the rest is frozen. With
--arg live=True the VAE and the text encoder run in each step; else what they make comes from a cache. For diffusion.sh."""
from __future__ import annotations

from typing import Any, Dict, Tuple

import torch
from diffusers import AutoencoderKL
from diffusion_models import Flux, StableDiffusionXL
from peft import LoraConfig
from torch import nn
from transformers import CLIPTextConfig, CLIPTextModelWithProjection

ATTENTION = ["to_k", "to_q", "to_v", "to_out.0"]


class Step(nn.Module):
    """Several models in one step: the adapters alone are trained."""

    def __init__(self, net: nn.Module, width: int, pooled: int, live: bool) -> None:
        super().__init__()
        self.net = net.requires_grad_(False)
        self.net.add_adapter(LoraConfig(r=4, lora_alpha=4, init_lora_weights="gaussian", target_modules=ATTENTION))
        self.live = live
        if live:
            self.vae = AutoencoderKL(block_out_channels=(32, 64), down_block_types=["DownEncoderBlock2D"] * 2, up_block_types=["UpDecoderBlock2D"] * 2,
                                     layers_per_block=1, latent_channels=4).requires_grad_(False)
            config = CLIPTextConfig(vocab_size=1000, hidden_size=width, intermediate_size=2 * width, projection_dim=pooled, num_hidden_layers=2,
                                    num_attention_heads=4, max_position_embeddings=77)
            self.text = CLIPTextModelWithProjection(config).requires_grad_(False)

    def inputs(self, *given: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        """Latents, the text's states and their pooled vector: of images and tokens where the models are there."""
        if not self.live:
            return given
        with torch.no_grad():
            latents = self.vae.encode(given[0]).latent_dist.sample() * 0.13
            said = self.text(given[1])
        return latents, said.last_hidden_state, said.text_embeds


class XLLora(Step):
    """Cached: --input 4x32x32 --input 16x64 --input 64; live: --input 3x64x64 --input int64:16. Then --input int64 --input 6."""

    def __init__(self, live: bool = False) -> None:
        super().__init__(StableDiffusionXL().net, 64, 64, live)

    def forward(self, *batch: torch.Tensor) -> Dict[str, Any]:
        latents, text, pooled = self.inputs(*batch[:-2])
        noise = torch.randn_like(latents)
        noisy = 0.7 * latents + 0.7 * noise
        said = self.net(noisy, batch[-2], text, added_cond_kwargs={"text_embeds": pooled, "time_ids": batch[-1]}, return_dict=False)[0]
        return {"loss": nn.functional.mse_loss(said.float(), noise.float())}


class FluxLora(Step):
    """Cached: --input 4x16x16 --input 12x96 --input 48; live: --input 3x32x32 --input int64:12. Then --input float32."""

    def __init__(self, live: bool = False) -> None:
        super().__init__(Flux().net, 96, 48, live)

    def forward(self, *batch: torch.Tensor) -> Dict[str, Any]:
        latents, text, pooled = self.inputs(*batch[:-1])
        noise = torch.randn_like(latents)
        packed = self.packed(0.5 * latents + 0.5 * noise)
        places = {name: torch.zeros(t.shape[1], 3, device=latents.device) for name, t in (("img_ids", packed), ("txt_ids", text))}
        said = self.net(packed, encoder_hidden_states=text, pooled_projections=pooled, timestep=batch[-1], guidance=torch.ones_like(batch[-1]),
                        return_dict=False, **places)[0]
        return {"loss": nn.functional.mse_loss(said.float(), self.packed(noise - latents).float())}

    @staticmethod
    def packed(latents: torch.Tensor) -> torch.Tensor:
        """Of 2 x 2 places one token, as FLUX's pipeline has them; here of 4 channels, which is a quarter of what the network takes."""
        b, c, h, w = latents.shape
        patches = latents.view(b, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5)
        return patches.reshape(b, (h // 2) * (w // 2), c * 4).repeat(1, 1, 4)

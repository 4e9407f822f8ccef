"""diffusion.py train|sample: a small UNet of diffusers, its noise schedule, and an unconditional pipeline."""

import sys

import diffusers
import torch

torch.manual_seed(0)
unet = diffusers.UNet2DModel(sample_size=64, block_out_channels=(64, 128, 128, 256), norm_num_groups=32).cuda()
schedule = diffusers.DDPMScheduler(num_train_timesteps=100)
if sys.argv[1] == "train":
    optimizer = torch.optim.AdamW(unet.parameters())
    average = diffusers.training_utils.EMAModel(unet.parameters())
    for _ in range(2):
        images, noise = torch.randn(4, 3, 64, 64).cuda(), torch.randn(4, 3, 64, 64).cuda()
        times = torch.randint(100, (4,)).cuda()
        loss = torch.nn.functional.mse_loss(unet(schedule.add_noise(images, noise, times), times).sample, noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        average.step(unet.parameters())
else:
    pipeline = diffusers.DDIMPipeline(unet, diffusers.DDIMScheduler(num_train_timesteps=100))
    print(len(pipeline(batch_size=2, num_inference_steps=5).images))

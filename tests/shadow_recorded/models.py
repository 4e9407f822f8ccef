"""The recorded models that no package has."""
import torch
from torch import nn


def mlp():
    return nn.Sequential(nn.Linear(784, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Dropout(0.5), nn.Linear(512, 256),
                         nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.25), nn.Linear(256, 10))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(),
                         nn.AvgPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(),
                         nn.Linear(84, 10))


def conv_chain():
    return nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 128, 3), nn.ReLU(), nn.Conv2d(128, 64, 3),
                         nn.ReLU(), nn.Conv2d(64, 1, 3), nn.Sigmoid())


def wide_4096():
    return nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 16))


def double_conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
                         nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class UNet(nn.Module):
    """Encoder and decoder with concatenated skips."""

    def __init__(self, channels=3, classes=2, width=16, depth=3):
        super().__init__()
        self.inc = double_conv(channels, width)
        self.pool = nn.MaxPool2d(2)
        self.down = nn.ModuleList(double_conv(width << d, width << (d + 1)) for d in range(depth))
        self.up, self.dec = nn.ModuleList(), nn.ModuleList()
        for d in reversed(range(depth)):
            self.up.append(nn.ConvTranspose2d(width << (d + 1), width << d, 2, stride=2))
            self.dec.append(double_conv(width << (d + 1), width << d))
        self.outc = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skips = [self.inc(x)]
        for d in self.down:
            skips.append(d(self.pool(skips[-1])))
        x = skips.pop()
        for u, d in zip(self.up, self.dec):
            x = d(torch.cat([skips.pop(), u(x)], dim=1))
        return self.outc(x)


class EmbeddingClassifier(nn.Module):
    def __init__(self, vocab=20000, dim=128, classes=4):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.fc = nn.Linear(dim, classes)

    def forward(self, ids):
        return self.fc(self.emb(ids).mean(dim=1))


def sd_unet():
    """Stable Diffusion 1.5's, by its configuration."""
    with torch.device("cpu"):  # its modules leave tensors where they are imported
        from diffusers import UNet2DConditionModel
    return UNet2DConditionModel(sample_size=64, cross_attention_dim=768)


BY_KEY = {"mlp": mlp, "lenet": lenet, "conv_chain": conv_chain, "wide_4096": wide_4096,
          "embed_classifier": EmbeddingClassifier, "unet_small": UNet, "sd_unet": sd_unet}

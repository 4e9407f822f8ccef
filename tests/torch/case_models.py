"""Models of the recorded cases that are of no package: those of tests/oracle, which PyTorch 1.13 ran."""
from __future__ import annotations

import math
from typing import Sequence

import torch
import torch.nn.functional as F
from torch import nn


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Dropout(0.5), nn.Linear(512, 256),
                         nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.25), nn.Linear(256, 10))


def lenet() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2),
                         nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10))


def conv_chain() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 128, 3), nn.ReLU(), nn.Conv2d(128, 64, 3), nn.ReLU(),
                         nn.Conv2d(64, 1, 3), nn.Sigmoid())


def wide(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(1024, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 16))


def linear_chain(sizes: Sequence[int], relu: bool) -> nn.Module:
    layers: list = []
    for before, after in zip(sizes, sizes[1:]):
        layers += [nn.Linear(before, after)] + [nn.ReLU()] * relu
    return nn.Sequential(*layers)


class MulMean(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 5 * x


class EmbeddingClassifier(nn.Module):
    def __init__(self, vocab: int = 20000, dim: int = 128, classes: int = 4):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.fc = nn.Linear(dim, classes)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.fc(self.emb(ids).mean(dim=1))


def double_conv(before: int, after: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True),
                         nn.Conv2d(after, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True))


class UNet(nn.Module):
    """Encoder and decoder with concatenated skips."""

    def __init__(self, channels: int = 3, classes: int = 2, w: int = 16, depth: int = 3):
        super().__init__()
        self.inc = double_conv(channels, w)
        self.pool = nn.MaxPool2d(2)
        self.down = nn.ModuleList(double_conv(w << d, w << (d + 1)) for d in range(depth))
        self.up, self.dec = nn.ModuleList(), nn.ModuleList()
        for d in reversed(range(depth)):
            self.up.append(nn.ConvTranspose2d(w << (d + 1), w << d, 2, stride=2))
            self.dec.append(double_conv(w << (d + 1), w << d))
        self.outc = nn.Conv2d(w, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips = [self.inc(x)]
        for d in self.down:
            skips.append(d(self.pool(skips[-1])))
        x = skips.pop()
        for u, d in zip(self.up, self.dec):
            x = d(torch.cat([skips.pop(), u(x)], dim=1))
        return self.outc(x)


class CausalSelfAttention(nn.Module):
    """fused: one kernel that keeps queries, keys, values, its result and log-sum-exps."""

    def __init__(self, hidden: int, heads: int, positions: int, p: float, fused: bool):
        super().__init__()
        self.heads, self.fused = heads, fused
        self.c_attn, self.c_proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.attn_drop, self.resid_drop = nn.Dropout(p), nn.Dropout(p)
        self.register_buffer("mask", torch.ones(positions, positions, dtype=torch.bool).tril().view(1, 1, positions, positions))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, S, C = x.shape
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (t.view(B, S, self.heads, C // self.heads).transpose(1, 2) for t in (q, k, v))
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.mask[:, :, :S, :S] == 0, float("-inf"))
            att = self.attn_drop(F.softmax(att, dim=-1))
            y = att @ v
        y = y.transpose(1, 2).contiguous().view(B, S, C)
        return self.resid_drop(self.c_proj(y))


class GptBlock(nn.Module):
    def __init__(self, hidden: int, heads: int, positions: int, p: float, fused: bool):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attn = CausalSelfAttention(hidden, heads, positions, p, fused)
        self.mlp = nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden), nn.Dropout(p))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    """GPT-2 small, the head tied to the embedding."""

    def __init__(self, p: float = 0.1, fused: bool = False, vocab: int = 50257, positions: int = 1024, hidden: int = 768,
                 heads: int = 12, layers: int = 12):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, hidden), nn.Embedding(positions, hidden)
        self.drop = nn.Dropout(p)
        self.h = nn.ModuleList(GptBlock(hidden, heads, positions, p, fused) for _ in range(layers))
        self.ln_f = nn.LayerNorm(hidden)
        self.lm_head = nn.Linear(hidden, vocab, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        pos = torch.arange(ids.size(1), device=ids.device)
        x = self.drop(self.wte(ids) + self.wpe(pos))
        for b in self.h:
            x = b(x)
        return self.lm_head(self.ln_f(x))


class Bert(nn.Module):
    """An nn.TransformerEncoder of BERT-base's size, with a classifier of its first token."""

    def __init__(self, vocab: int = 30522, positions: int = 512, hidden: int = 768, heads: int = 12, layers: int = 12,
                 p: float = 0.1, classes: int = 2):
        super().__init__()
        self.tok, self.pos, self.seg = nn.Embedding(vocab, hidden), nn.Embedding(positions, hidden), nn.Embedding(2, hidden)
        self.norm, self.drop = nn.LayerNorm(hidden, eps=1e-12), nn.Dropout(p)
        layer = nn.TransformerEncoderLayer(hidden, heads, 4 * hidden, dropout=p, activation="gelu", batch_first=True)
        self.enc = nn.TransformerEncoder(layer, layers)
        self.pool, self.act, self.cls = nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, classes)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        pos = torch.arange(ids.size(1), device=ids.device).unsqueeze(0)
        x = self.tok(ids) + self.pos(pos) + self.seg(torch.zeros_like(ids))
        x = self.enc(self.drop(self.norm(x)))
        return self.cls(self.act(self.pool(x[:, 0])))

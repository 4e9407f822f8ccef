"""Models of tests/oracle, which PyTorch 1.13 ran, that neither a package has nor tests/shadow_recorded/models.py."""
from __future__ import annotations

import math
from typing import Sequence

import torch
import torch.nn.functional as F
from torch import nn


def linear_chain(sizes: Sequence[int], relu: bool) -> nn.Module:
    layers: list = []
    for before, after in zip(sizes, sizes[1:]):
        layers += [nn.Linear(before, after)] + [nn.ReLU()] * relu
    return nn.Sequential(*layers)


class MulMean(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 5 * x


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

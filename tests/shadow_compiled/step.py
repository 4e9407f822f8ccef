"""step.py MODEL MODE DTYPE: three training steps of a model under torch.compile's MODE, or eagerly (`eager`)."""

import sys

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary=50304, width=768, layers=2, heads=12, length=512):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens, labels):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        return F.cross_entropy(self.head(self.norm(self.blocks(x))).flatten(0, 1), labels.flatten())


class Classifier(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, labels):
        return F.cross_entropy(self.model(x), labels)


class HuggingFace(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, labels):
        return self.model(input_ids=tokens, labels=labels).loss


def tokens(batch, length, vocabulary):
    return [torch.randint(vocabulary, (batch, length), device="cuda") for _ in range(2)]


def images(batch, size, dtype):
    return [torch.randn(batch, 3, size, size, device="cuda", dtype=dtype), torch.randint(10, (batch,), device="cuda")]


def mlp(dtype):
    model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Dropout(0.1), nn.Linear(4096, 1000))
    return Classifier(model), [torch.randn(256, 1024, device="cuda", dtype=dtype), torch.randint(1000, (256,), device="cuda")]


def gpt(dtype):
    return Gpt(), tokens(4, 512, 50304)


def resnet18(dtype):
    import torchvision

    return Classifier(torchvision.models.resnet18()), images(16, 224, dtype)


def timm(name, **arguments):
    import timm as library

    return Classifier(library.create_model(name, num_classes=10, **arguments))


def vit(dtype):
    return timm("vit_tiny_patch16_224", depth=3), images(16, 224, dtype)


def mixer(dtype):
    return timm("mixer_s32_224"), images(16, 224, dtype)


def convnext(dtype):
    return timm("convnext_atto", depths=(1, 1, 1, 1)), images(16, 224, dtype)


def bert(dtype):
    from transformers import BertConfig, BertForMaskedLM

    return HuggingFace(BertForMaskedLM(BertConfig(num_hidden_layers=2))), tokens(8, 128, 30522)


def llama(dtype):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=512, intermediate_size=1536, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=4
    )
    return HuggingFace(LlamaForCausalLM(config)), tokens(4, 512, 32000)


def main(name, mode, dtype):
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[dtype]
    torch.manual_seed(0)
    model, batch = globals()[name](dtype)
    model = model.to("cuda", dtype)
    step = model if mode == "eager" else torch.compile(model, mode=mode)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        loss = step(*batch)
        loss.backward()
        del loss
        optimizer.step()


if __name__ == "__main__":
    main(*sys.argv[1:])

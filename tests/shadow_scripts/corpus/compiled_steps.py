"""compiled_steps.py MODE: a decoder with flex attention, compiled with its optimizer's step, trained for three steps."""

import sys

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

mode = sys.argv[1]
torch.manual_seed(0)


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = torch.nn.ModuleList(torch.nn.RMSNorm(width) for _ in range(2))
        self.qkv, self.out = torch.nn.Linear(width, 3 * width, bias=False), torch.nn.Linear(width, width, bias=False)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x, mask):
        q, k, v = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in self.qkv(self.norms[0](x)).chunk(3, -1))
        x = x + self.out(flex_attention(q, k, v, block_mask=mask).transpose(1, 2).flatten(2))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norms[1](x))))


class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(8192, 512), torch.nn.Linear(512, 8192, bias=False)
        self.blocks = torch.nn.ModuleList(Block(512, 8) for _ in range(4))

    def forward(self, tokens, mask):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, mask)
        return self.head(x)


model = Decoder().cuda()
compiled = torch.compile(model, mode=mode)
optimizer = torch.optim.AdamW(model.parameters())
mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 512, 512, device="cuda")
for _ in range(3):
    tokens = torch.randint(8192, (4, 513), device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        logits = compiled(tokens[:, :-1], mask)
    torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten()).backward()
    torch.compile(optimizer.step)()
    optimizer.zero_grad()

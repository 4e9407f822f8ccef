"""Llama 3.1 8B as torchtitan trained it in December 2024: FSDP2, bf16 parameters, fp32 reduction, a matrix product in two
and attention kept by selective activation checkpointing, AdamW (foreach), clipping, no compilation, Python's garbage
collection off except every 50 steps. Prints the highest reserved memory of each step in bytes.

    --steps N --batch N --sequence N --layers N   a smaller one for tests
    --backend fake                                PyTorch's fake process group in NCCL's place
    --losses-kept                                 keep each step's loss with its graph until the tenth step (as there)
"""

import argparse
import gc
import os
from collections import defaultdict

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

try:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
except ImportError:  # before 2.6
    from torch.distributed._composable.fsdp import MixedPrecisionPolicy, fully_shard

WIDTH, HEADS, KV_HEADS, HIDDEN, VOCABULARY = 4096, 32, 8, 14336, 128256
KEPT = {
    torch.ops.aten.mm.default,
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops._c10d_functional.reduce_scatter_tensor.default,
    torch.ops.aten.abs.default,
    torch.ops.aten.max.default,
}


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return normed.type_as(x) * self.weight


def rotate(x, rotation):
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * rotation.view(1, x.shape[1], 1, -1)).flatten(3).type_as(x)


def repeat_heads(x, times):
    batch, length, heads, size = x.shape
    return x.unsqueeze(3).expand(batch, length, heads, times, size).reshape(batch, length, heads * times, size)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.size = WIDTH // HEADS
        self.query = nn.Linear(WIDTH, HEADS * self.size, bias=False)
        self.key = nn.Linear(WIDTH, KV_HEADS * self.size, bias=False)
        self.value = nn.Linear(WIDTH, KV_HEADS * self.size, bias=False)
        self.out = nn.Linear(HEADS * self.size, WIDTH, bias=False)

    def forward(self, x, rotation):
        batch, length, _ = x.shape
        query, key, value = self.query(x), self.key(x), self.value(x)
        query = query.view(batch, length, -1, self.size)
        key = key.view(batch, length, -1, self.size)
        value = value.view(batch, length, -1, self.size)
        query, key = rotate(query, rotation), rotate(key, rotation)
        keys, values = repeat_heads(key, HEADS // KV_HEADS), repeat_heads(value, HEADS // KV_HEADS)
        # The names hold what torchtitan's hold: `key` and `keys` stay until the function returns.
        query, key, value = query.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2)
        output = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        output = output.transpose(1, 2).contiguous().view(batch, length, -1)
        return self.out(output)


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.feed_forward = FeedForward()
        self.attention_norm = RMSNorm(WIDTH)
        self.feed_forward_norm = RMSNorm(WIDTH)

    def forward(self, x, rotation):
        h = x + self.attention(self.attention_norm(x), rotation)
        return h + self.feed_forward(self.feed_forward_norm(h))


class Transformer(nn.Module):
    def __init__(self, layers, length):
        super().__init__()
        self.embeddings = nn.Embedding(VOCABULARY, WIDTH)
        self.register_buffer("rotation", torch.zeros(length, WIDTH // HEADS // 2, dtype=torch.complex64))
        self.layers = nn.ModuleDict({str(i): Block() for i in range(layers)})
        self.norm = RMSNorm(WIDTH)
        self.output = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        h = self.embeddings(tokens)
        for layer in self.layers.values():
            h = layer(h, self.rotation)
        h = self.norm(h)
        return self.output(h)


def contexts():
    products = defaultdict(int)

    def policy(context, function, *args, **kwargs):
        if function == torch.ops.aten.mm.default:
            products[context.is_recompute] += 1
            keep = products[context.is_recompute] % 2 != 0
        else:
            keep = function in KEPT
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def build(options, mesh):
    with torch.device("meta"):
        model = Transformer(options.layers, options.sequence)
    for name, layer in model.layers.named_children():
        wrapped = checkpoint_wrapper(layer, context_fn=contexts, preserve_rng_state=False)
        model.layers.register_module(name, wrapped)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for name, layer in model.layers.items():
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=int(name) < options.layers - 1)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=True)
    model.to_empty(device="cuda")
    with torch.no_grad():
        for parameter in model.parameters():
            nn.init.trunc_normal_(parameter, std=0.02)
    return model.train()


def clip(parameters):
    if hasattr(nn.utils, "get_total_norm"):
        norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None], 2.0, False, True)
        nn.utils.clip_grads_with_norm_(parameters, 1.0, norm, True)
    else:
        nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)


def main():
    parser = argparse.ArgumentParser()
    for name, value in (("steps", 3), ("batch", 2), ("sequence", 8192), ("layers", 32)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--losses-kept", action="store_true")
    parser.add_argument("--backend", default="nccl", choices=("nccl", "fake"))
    options = parser.parse_args()
    gc.disable()
    gc.collect(1)
    os.environ["TORCH_NCCL_AVOID_RECORD_STREAMS"] = os.environ.get("AVOID_RECORD_STREAMS", "1")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if options.backend == "fake":
        from torch.testing._internal.distributed import fake_pg  # noqa: F401 (registers it)
    dist.init_process_group(options.backend)
    mesh = init_device_mesh("cuda", (dist.get_world_size(),), mesh_dim_names=("dp",))
    model = build(options, mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, foreach=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    losses = []
    for step in range(1, options.steps + 1):
        if step > 1 and step % 50 == 0:
            gc.collect(1)
        tokens = torch.zeros(options.batch, options.sequence, dtype=torch.long).to("cuda")
        labels = torch.zeros(options.batch, options.sequence, dtype=torch.long).to("cuda")
        optimizer.zero_grad()
        predicted = model(tokens)
        loss = F.cross_entropy(predicted.flatten(0, 1).float(), labels.flatten(0, 1))
        del predicted
        loss.backward()
        clip(list(model.parameters()))
        optimizer.step()
        schedule.step()
        losses.append(loss if options.losses_kept else loss.detach())
        if step == 1 or step % 10 == 0:
            shown = torch.tensor([each.item() for each in losses]).mean().cuda()
            dist.all_reduce(shown, op=dist.ReduceOp.AVG)
            shown.item()
            losses.clear()
        statistics = torch.cuda.memory_stats()
        print(
            f"step {step}: active {statistics['active_bytes.all.peak']}"
            f" allocated {statistics['allocated_bytes.all.peak']}"
            f" reserved {statistics['reserved_bytes.all.peak']} retries {statistics['num_alloc_retries']}",
            flush=True,
        )
        torch.cuda.reset_peak_memory_stats()
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

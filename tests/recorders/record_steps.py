#!/usr/bin/env python3
"""Record what PyTorch really does on this machine's GPU: the ground truth for gpuplan.

    python3 record_steps.py --out DIR [--seconds 540] [--only env,models,traces,ops,speed] [--tag NAME]

Needs torch with CUDA; torchvision and transformers are used where present.  Writes to DIR

    env.json       GPU, driver, library versions, and what the process holds beside the allocator
    models.json    whole training and inference steps: memory at each phase boundary, peaks, times
    traces.json.gz every allocation and release of some of those steps, in order
    ops.json       single operators: output, saved-for-backward and scratch bytes
    speed.json     achieved FLOP/s and bytes/s of GEMM, convolution, attention and elementwise kernels

Every byte count is an integer number of bytes and every time is in seconds.  A case that fails is
recorded with its error and the run goes on.  Sections stop at their share of --seconds, so a short
run gives a prefix of the same list, in the same order.  "steady" means the third step: optimizer
state exists and zero_grad(set_to_none=True) has run.
"""
import argparse
import contextlib
import gc
import gzip
import json
import math
import os
import statistics
import subprocess
import sys
import time
import traceback

import torch
import torch.nn.functional as F
from torch import nn

CUDA = torch.device("cuda", 0)
START = time.time()


def now():
    return time.time() - START


def sync():
    torch.cuda.synchronize()


def clean():
    gc.collect()
    sync()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def stats():
    s = torch.cuda.memory_stats()
    keys = {"allocated": "allocated_bytes.all.current", "allocated_peak": "allocated_bytes.all.peak",
            "requested": "requested_bytes.all.current", "requested_peak": "requested_bytes.all.peak",
            "active_peak": "active_bytes.all.peak",
            "reserved": "reserved_bytes.all.current", "reserved_peak": "reserved_bytes.all.peak",
            "inactive_split": "inactive_split_bytes.all.current", "segments": "segment.all.current",
            "retries": "num_alloc_retries"}
    return {k: int(s.get(v, 0)) for k, v in keys.items()}


def device_used():
    free, total = torch.cuda.mem_get_info()
    return int(total - free)


# ------------------------------------------------------------------------------------------
# Hand-written models.  Their structure is part of the reference: keep it as it is.
# ------------------------------------------------------------------------------------------
def mlp():
    return nn.Sequential(
        nn.Linear(784, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(512, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.25),
        nn.Linear(256, 10))


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10))


def conv_chain():
    return nn.Sequential(
        nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 128, 3), nn.ReLU(),
        nn.Conv2d(128, 64, 3), nn.ReLU(), nn.Conv2d(64, 1, 3), nn.Sigmoid())


class Attention(nn.Module):
    """kernel: 'math' writes the score matrix out; 'sdpa' calls scaled_dot_product_attention."""

    def __init__(self, d, heads, p, kernel):
        super().__init__()
        self.heads, self.kernel, self.p = heads, kernel, p
        self.c_attn, self.c_proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.attn_drop, self.resid_drop = nn.Dropout(p), nn.Dropout(p)

    def forward(self, x):
        b, s, c = x.shape
        q, k, v = self.c_attn(x).split(c, dim=2)
        q, k, v = (t.view(b, s, self.heads, c // self.heads).transpose(1, 2) for t in (q, k, v))
        if self.kernel == "sdpa":
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                               dropout_p=self.p if self.training else 0.0)
        else:
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            mask = torch.ones(s, s, dtype=torch.bool, device=x.device).tril()
            att = att.masked_fill(mask == 0, float("-inf"))
            att = self.attn_drop(F.softmax(att, dim=-1))
            y = att @ v
        y = y.transpose(1, 2).contiguous().view(b, s, c)
        return self.resid_drop(self.c_proj(y))


class GptBlock(nn.Module):
    def __init__(self, d, heads, p, kernel):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = Attention(d, heads, p, kernel)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d), nn.Dropout(p))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    def __init__(self, vocab=50257, ctx=1024, d=768, heads=12, layers=12, p=0.0, kernel="sdpa"):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(ctx, d)
        self.drop = nn.Dropout(p)
        self.h = nn.ModuleList(GptBlock(d, heads, p, kernel) for _ in range(layers))
        self.ln_f = nn.LayerNorm(d)
        self.lm_head = nn.Linear(d, vocab, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, ids):
        pos = torch.arange(ids.size(1), device=ids.device)
        x = self.drop(self.wte(ids) + self.wpe(pos))
        for b in self.h:
            x = b(x)
        return self.lm_head(self.ln_f(x))


class Unet(nn.Module):
    def __init__(self, cin=3, classes=2, w=16, depth=3):
        super().__init__()
        def double(i, o):
            return nn.Sequential(
                nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
                nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))
        self.inc, self.pool = double(cin, w), nn.MaxPool2d(2)
        self.down = nn.ModuleList(double(w << d, w << (d + 1)) for d in range(depth))
        self.up = nn.ModuleList(nn.ConvTranspose2d(w << (d + 1), w << d, 2, stride=2)
                                for d in reversed(range(depth)))
        self.dec = nn.ModuleList(double(w << (d + 1), w << d) for d in reversed(range(depth)))
        self.outc = nn.Conv2d(w, classes, 1)

    def forward(self, x):
        skips = [self.inc(x)]
        for d in self.down:
            skips.append(d(self.pool(skips[-1])))
        x = skips.pop()
        for u, d in zip(self.up, self.dec):
            x = d(torch.cat([skips.pop(), u(x)], dim=1))
        return self.outc(x)


class EmbedClassifier(nn.Module):
    def __init__(self, vocab=20000, dim=128, classes=4):
        super().__init__()
        self.emb, self.fc = nn.Embedding(vocab, dim), nn.Linear(dim, classes)

    def forward(self, ids):
        return self.fc(self.emb(ids).mean(dim=1))


def image(size, classes=1000, channels=3):
    return lambda b: (torch.randn(b, channels, size, size, device=CUDA),
                      torch.randint(0, classes, (b,), device=CUDA))


def vector(n, classes):
    return lambda b: (torch.randn(b, n, device=CUDA), torch.randint(0, classes, (b,), device=CUDA))


def tokens(vocab, seq, classes):
    return lambda b: (torch.randint(0, vocab, (b, seq), device=CUDA),
                      torch.randint(0, classes, (b,), device=CUDA))


def lm(vocab, seq):
    return lambda b: (torch.randint(0, vocab, (b, seq), device=CUDA),
                      torch.randint(0, vocab, (b, seq), device=CUDA))


def lm_loss(out, y):
    return F.cross_entropy(out.view(-1, out.size(-1)), y.view(-1))


def mean_loss(out, y):
    return out.mean()


def vision(name, **kw):
    import torchvision
    return getattr(torchvision.models, name)(weights=None, **kw)


def hf(kind, **kw):
    """A Hugging Face causal LM with random weights; returns logits only."""
    import transformers as t
    config = {"gpt2": t.GPT2Config, "llama": t.LlamaConfig}[kind](use_cache=False, **kw)
    model = t.AutoModelForCausalLM.from_config(config)

    class Logits(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids):
            return self.model(input_ids=ids).logits
    return Logits()


MODELS = {
    "mlp": (mlp, vector(784, 10), F.cross_entropy),
    "lenet": (lenet, image(28, 10, 1), F.cross_entropy),
    "conv_chain": (conv_chain, image(26, 10), mean_loss),
    "embed_classifier": (EmbedClassifier, tokens(20000, 64, 4), F.cross_entropy),
    "unet_small": (Unet, lambda b: (torch.randn(b, 3, 128, 128, device=CUDA),
                                    torch.randint(0, 2, (b, 128, 128), device=CUDA)), F.cross_entropy),
    "gpt2_s256_math": (lambda: Gpt2(p=0.1, kernel="math"), lm(50257, 256), lm_loss),
    "gpt2_s256": (lambda: Gpt2(), lm(50257, 256), lm_loss),
    "gpt2_s1024": (lambda: Gpt2(), lm(50257, 1024), lm_loss),
    "hf_gpt2_s256": (lambda: hf("gpt2"), lm(50257, 256), lm_loss),
    "hf_llama_160m_s512": (lambda: hf("llama", hidden_size=768, intermediate_size=2048, num_hidden_layers=12,
                                      num_attention_heads=12, num_key_value_heads=4, vocab_size=32000),
                           lm(32000, 512), lm_loss),
}
for _n in ("alexnet", "vgg11", "resnet18", "resnet50", "resnext50_32x4d", "mobilenet_v2", "mobilenet_v3_large",
           "convnext_tiny", "squeezenet1_1", "swin_t"):
    MODELS[_n] = ((lambda n=_n: vision(n)), image(224), F.cross_entropy)

# (model, batch, optimizer, precision, layout); precision: default, fp32 (strict), tf32, amp_bf16, amp_fp16, bf16
PLAN = [("resnet50", 32, "sgd_momentum", "default", "nchw"), ("resnet50", 32, "adam", "fp32", "nchw"),
        ("gpt2_s256", 8, "adamw", "fp32", "nchw"), ("mlp", 128, "adam", "fp32", "nchw"),
        ("resnet50", 32, "adam", "amp_fp16", "nchw"), ("resnet50", 32, "adam", "amp_bf16", "nhwc"),
        ("gpt2_s256", 8, "adamw", "amp_bf16", "nchw"), ("gpt2_s256_math", 8, "adamw", "fp32", "nchw"),
        ("resnet18", 64, "sgd", "default", "nchw"), ("vgg11", 32, "sgd_momentum", "default", "nchw"),
        ("alexnet", 128, "sgd_momentum", "default", "nchw"), ("mobilenet_v2", 64, "adam", "default", "nchw"),
        ("mobilenet_v3_large", 64, "rmsprop", "fp32", "nchw"), ("convnext_tiny", 32, "adamw", "default", "nchw"),
        ("swin_t", 32, "adamw", "fp32", "nchw"), ("squeezenet1_1", 64, "sgd_momentum", "default", "nchw"),
        ("resnext50_32x4d", 32, "sgd_momentum", "fp32", "nchw"), ("unet_small", 16, "adam", "default", "nchw"),
        ("lenet", 256, "sgd", "fp32", "nchw"), ("conv_chain", 1024, "sgd", "fp32", "nchw"),
        ("embed_classifier", 256, "adam", "fp32", "nchw"), ("gpt2_s1024", 4, "adamw", "fp32", "nchw"),
        ("gpt2_s1024", 8, "adamw", "amp_bf16", "nchw"), ("gpt2_s1024", 8, "adamw_fused", "bf16", "nchw"),
        ("hf_gpt2_s256", 8, "adamw", "fp32", "nchw"), ("hf_llama_160m_s512", 4, "adamw", "fp32", "nchw"),
        ("hf_llama_160m_s512", 4, "adamw", "amp_bf16", "nchw"),
        ("resnet50", 1, "adam", "fp32", "nchw"), ("resnet50", 8, "adam", "default", "nchw"),
        ("resnet50", 128, "adam", "default", "nchw"), ("resnet50", 64, "adam", "tf32", "nhwc"),
        ("resnet50", 256, "sgd_momentum", "amp_fp16", "nhwc"), ("resnet18", 256, "adamw_fused", "amp_bf16", "nhwc"),
        ("resnet18", 64, "adagrad", "fp32", "nchw"), ("resnet18", 64, "adadelta", "fp32", "nchw"),
        ("resnet18", 64, "adam_forloop", "fp32", "nchw"), ("mobilenet_v2", 64, "adam", "amp_fp16", "nchw"),
        ("convnext_tiny", 32, "adamw", "amp_bf16", "nchw"), ("swin_t", 32, "adamw", "amp_bf16", "nchw"),
        ("vgg11", 64, "adam", "amp_fp16", "nhwc"), ("unet_small", 32, "adam", "amp_bf16", "nchw"),
        ("gpt2_s256_math", 8, "adamw", "amp_bf16", "nchw"), ("gpt2_s256", 32, "adamw", "amp_bf16", "nchw")]
TRACED = [0, 1, 2, 3, 4, 6, 7, 8, 11, 13, 14, 17, 20, 25]     # rows of PLAN whose third step is traced


def use_tf32(precision):
    """PyTorch's default lets convolutions use TF32 and matmuls not; "fp32" is strict, "tf32" allows both."""
    torch.backends.cudnn.allow_tf32 = precision != "fp32"
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"


def make_optimizer(name, params):
    o = torch.optim
    return {"sgd": lambda: o.SGD(params, lr=1e-3),
            "sgd_momentum": lambda: o.SGD(params, lr=1e-3, momentum=0.9),
            "adam": lambda: o.Adam(params), "adamw": lambda: o.AdamW(params),
            "adam_forloop": lambda: o.Adam(params, foreach=False),
            "adamw_fused": lambda: o.AdamW(params, fused=True),
            "rmsprop": lambda: o.RMSprop(params), "adagrad": lambda: o.Adagrad(params),
            "adadelta": lambda: o.Adadelta(params)}[name]()


class Step:
    """One model under one optimizer, precision and layout; run() is one training step."""

    def __init__(self, model, batch, optimizer, precision, layout):
        build, data, self.loss = MODELS[model]
        use_tf32(precision)
        self.base = stats()["allocated"]
        self.net = build().train().to(CUDA)
        if precision == "bf16":
            self.net = self.net.bfloat16()
        if layout == "nhwc":
            self.net = self.net.to(memory_format=torch.channels_last)
        self.after_model = stats()["allocated"]
        self.x, self.y = data(batch)
        if precision == "bf16" and self.x.is_floating_point():
            self.x = self.x.bfloat16()
        if layout == "nhwc" and self.x.dim() == 4:
            self.x = self.x.contiguous(memory_format=torch.channels_last)
        self.after_input = stats()["allocated"]
        self.opt = make_optimizer(optimizer, list(self.net.parameters()))
        amp = {"amp_bf16": torch.bfloat16, "amp_fp16": torch.float16}.get(precision)
        self.cast = (lambda: torch.autocast("cuda", dtype=amp)) if amp else contextlib.nullcontext
        self.scaler = torch.amp.GradScaler("cuda") if precision == "amp_fp16" else None

    def forward(self):
        with self.cast():
            return self.loss(self.net(self.x), self.y)

    def run(self, at=lambda phase: None):
        self.opt.zero_grad(set_to_none=True)
        at("zeroed")
        loss = self.forward()
        at("forward")
        (self.scaler.scale(loss) if self.scaler else loss).backward()
        at("backward")
        if self.scaler:
            self.scaler.step(self.opt)
            self.scaler.update()
        else:
            self.opt.step()
        at("step")

    def infer(self):
        with torch.no_grad(), self.cast():
            return self.net(self.x)


def timed(fn, repeat):
    """Median seconds of fn over `repeat` runs, by CUDA events."""
    t = []
    for _ in range(repeat):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        fn()
        b.record()
        sync()
        t.append(a.elapsed_time(b) / 1e3)
    return statistics.median(t)


def record_model(model, batch, optimizer, precision, layout):
    clean()
    out = {"model": model, "batch": batch, "optimizer": optimizer, "precision": precision, "layout": layout}
    s = Step(model, batch, optimizer, precision, layout)
    out["params"] = sum(p.numel() for p in s.net.parameters())
    out["base"], out["after_model"], out["after_input"] = s.base, s.after_model, s.after_input
    s.run()
    sync()
    out["first_step"] = stats()
    s.run()
    sync()
    torch.cuda.reset_peak_memory_stats()
    phases = {}

    def at(phase):
        sync()
        phases[phase] = dict(stats(), device_used=device_used())
        torch.cuda.reset_peak_memory_stats()
    out["before_step"] = stats()
    s.run(at)
    out["steady"] = phases
    out["peak_allocated"] = max(p["allocated_peak"] for p in phases.values())
    out["peak_reserved"] = stats()["reserved_peak"]
    out["device_used"] = device_used()
    out["optimizer_state"] = sum(t.numel() * t.element_size() for st in s.opt.state.values()
                                 for t in st.values() if torch.is_tensor(t) and t.is_cuda)
    out["step_seconds"] = timed(s.run, 7)
    out["forward_seconds"] = timed(s.forward, 5)
    s.opt.zero_grad(set_to_none=True)
    s.opt = None
    s.net.eval()
    clean()
    before = stats()
    y = s.infer()
    sync()
    out["inference"] = {"before": before["allocated"], "peak": stats()["allocated_peak"],
                        "reserved_peak": stats()["reserved_peak"]}
    del y
    s.infer()
    out["inference"]["seconds"] = timed(s.infer, 7)
    return out


def record_trace(model, batch, optimizer, precision, layout):
    """The third step's allocator events: [action, bytes, address id, frame id], and the phase boundaries."""
    clean()
    s = Step(model, batch, optimizer, precision, layout)
    s.run()
    s.run()
    sync()
    torch.cuda.memory._record_memory_history(max_entries=400000, context="alloc", stacks="python")
    start = torch.cuda.memory._snapshot()
    marks = []

    def at(phase):
        sync()
        marks.append([phase, len(torch.cuda.memory._snapshot()["device_traces"][0])])
    s.run(at)
    snap = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    frames, frame_ids, addr_ids, events = [], {}, {}, []
    for e in snap["device_traces"][0]:
        inner = [f for f in e.get("frames", []) if not f["filename"].startswith("??")][:3]
        key = ";".join("%s:%d:%s" % (os.path.basename(f["filename"]), f["line"], f["name"]) for f in inner)
        if key not in frame_ids:
            frame_ids[key] = len(frames)
            frames.append(key)
        addr = addr_ids.setdefault(e.get("addr", e.get("device_free", 0)), len(addr_ids))
        events.append([e["action"], int(e.get("size", 0)), addr, frame_ids[key]])

    def segments(sn):
        return [{"bytes": g["total_size"], "kind": g.get("segment_type"), "addr": g["address"],
                 "blocks": [[b["size"], b.get("requested_size", b["size"]), b["state"]] for b in g["blocks"]]}
                for g in sn["segments"]]
    return {"model": model, "batch": batch, "optimizer": optimizer, "precision": precision, "layout": layout,
            "marks": marks, "frames": frames, "events": events,
            "segments_before": segments(start), "segments_after": segments(snap)}


# ------------------------------------------------------------------------------------------
# Single operators
# ------------------------------------------------------------------------------------------
def op_cases():
    """(name, dtype, make) where make() -> (fn, inputs); fn(*inputs) is differentiable in the float inputs."""
    r = lambda *s, dtype=torch.float32: torch.randn(*s, device=CUDA, dtype=dtype)
    f32, b16, h16 = torch.float32, torch.bfloat16, torch.float16
    for dt in (f32, b16, h16):
        for n, i, o in ((64, 1024, 1024), (4096, 768, 3072), (8192, 4096, 4096), (128, 25088, 4096)):
            yield ("linear n%d i%d o%d" % (n, i, o), dt, lambda n=n, i=i, o=o, dt=dt:
                   (F.linear, (r(n, i, dtype=dt), r(o, i, dtype=dt), r(o, dtype=dt))))
        for n, c, h, k, o, st, g in ((32, 3, 224, 7, 64, 2, 1), (32, 64, 56, 3, 64, 1, 1), (32, 64, 56, 1, 256, 1, 1),
                                     (32, 256, 56, 1, 128, 1, 1), (32, 128, 56, 3, 128, 2, 1), (32, 256, 14, 3, 256, 1, 1),
                                     (32, 512, 7, 3, 512, 1, 1), (32, 2048, 7, 1, 512, 1, 1), (32, 128, 56, 3, 128, 1, 32),
                                     (32, 96, 112, 3, 96, 2, 96), (32, 96, 56, 7, 96, 1, 96), (64, 64, 26, 3, 128, 1, 1),
                                     (8, 64, 224, 3, 64, 1, 1), (8, 512, 28, 3, 512, 1, 1), (32, 3, 224, 4, 96, 4, 1)):
            for nhwc in (False, True):
                def make(n=n, c=c, h=h, k=k, o=o, st=st, g=g, dt=dt, nhwc=nhwc):
                    x, w = r(n, c, h, h, dtype=dt), r(o, c // g, k, k, dtype=dt)
                    if nhwc:
                        x, w = (t.contiguous(memory_format=torch.channels_last) for t in (x, w))
                    return (lambda x, w: F.conv2d(x, w, stride=st, padding=k // 2 if k < 7 or st > 1 or g > 1 else 0,
                                                  groups=g)), (x, w)
                yield ("conv2d n%d c%d h%d k%d o%d s%d g%d %s" % (n, c, h, k, o, st, g, "nhwc" if nhwc else "nchw"), dt, make)
        for n, c, h in ((32, 64, 112), (32, 256, 56), (32, 2048, 7), (128, 512, 1)):
            yield ("batch_norm n%d c%d h%d" % (n, c, h), dt, lambda n=n, c=c, h=h, dt=dt:
                   (lambda x, w, b: F.batch_norm(x, torch.zeros(c, device=CUDA), torch.ones(c, device=CUDA), w, b, True),
                    (r(n, c, h, h, dtype=dt), r(c), r(c))))
        big = (32, 256, 56, 56)
        for name, fn in (("relu", F.relu), ("gelu", F.gelu), ("silu", F.silu), ("sigmoid", torch.sigmoid), ("tanh", torch.tanh),
                         ("hardswish", F.hardswish), ("hardsigmoid", F.hardsigmoid), ("leaky_relu", F.leaky_relu), ("elu", F.elu),
                         ("dropout", lambda x: F.dropout(x, 0.1)), ("softmax", lambda x: F.softmax(x, -1)),
                         ("log_softmax", lambda x: F.log_softmax(x, -1)), ("mean_all", torch.mean), ("square", torch.square),
                         ("max_pool2d", lambda x: F.max_pool2d(x, 3, 2, 1)), ("avg_pool2d", lambda x: F.avg_pool2d(x, 2)),
                         ("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, 1)),
                         ("upsample_bilinear", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)),
                         ("relu_inplace", lambda x: F.relu_(x * 1.0))):
            yield (name + " 32x256x56x56", dt, lambda fn=fn, dt=dt: (fn, (r(*big, dtype=dt),)))
        for name, fn in (("add", torch.add), ("mul", torch.mul), ("cat", lambda a, b: torch.cat((a, b), 1)),
                         ("add_same", lambda a, b: a + a)):
            yield (name + " 32x256x56x56", dt, lambda fn=fn, dt=dt: (fn, (r(*big, dtype=dt), r(*big, dtype=dt))))
        for n, d in ((8192, 768), (4096, 4096)):
            yield ("layer_norm %dx%d" % (n, d), dt, lambda n=n, d=d, dt=dt:
                   (lambda x, w, b: F.layer_norm(x, (d,), w, b), (r(n, d, dtype=dt), r(d, dtype=dt), r(d, dtype=dt))))
            if hasattr(F, "rms_norm"):
                yield ("rms_norm %dx%d" % (n, d), dt, lambda n=n, d=d, dt=dt:
                       (lambda x, w: F.rms_norm(x, (d,), w), (r(n, d, dtype=dt), r(d, dtype=dt))))
        yield ("group_norm 32x256x56x56 g32", dt, lambda dt=dt: (lambda x, w, b: F.group_norm(x, 32, w, b),
               (r(*big, dtype=dt), r(256, dtype=dt), r(256, dtype=dt))))
        for b, h, s, d in ((8, 12, 256, 64), (4, 12, 1024, 64), (2, 32, 2048, 128)):
            for causal in (False, True):
                for p in (0.0, 0.1):
                    yield ("sdpa b%d h%d s%d d%d causal%d p%.1f" % (b, h, s, d, causal, p), dt,
                           lambda b=b, h=h, s=s, d=d, causal=causal, p=p, dt=dt:
                           (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal, dropout_p=p),
                            tuple(r(b, h, s, d, dtype=dt) for _ in range(3))))
            yield ("bmm qk b%d h%d s%d d%d" % (b, h, s, d), dt, lambda b=b, h=h, s=s, d=d, dt=dt:
                   (lambda q, k: q @ k.transpose(-2, -1), (r(b, h, s, d, dtype=dt), r(b, h, s, d, dtype=dt))))
        for n, v in ((2048, 50257), (8192, 32000), (128, 1000)):
            yield ("cross_entropy %dx%d" % (n, v), dt, lambda n=n, v=v, dt=dt:
                   (lambda x: F.cross_entropy(x, torch.zeros(n, dtype=torch.long, device=CUDA)), (r(n, v, dtype=dt),)))
        yield ("embedding 50257x768 n8192", dt, lambda dt=dt:
               (lambda w: F.embedding(torch.zeros(8192, dtype=torch.long, device=CUDA), w), (r(50257, 768, dtype=dt),)))
        yield ("mse_loss 8192x768", dt, lambda dt=dt: (F.mse_loss, (r(8192, 768, dtype=dt), r(8192, 768, dtype=dt))))
        yield ("conv_transpose2d n16 c128 h32 o64 k2 s2", dt, lambda dt=dt:
               (lambda x, w: F.conv_transpose2d(x, w, stride=2), (r(16, 128, 32, 32, dtype=dt), r(128, 64, 2, 2, dtype=dt))))
        yield ("transpose_contiguous 8x1024x12x64", dt, lambda dt=dt:
               (lambda x: x.transpose(1, 2).contiguous(), (r(8, 1024, 12, 64, dtype=dt),)))
    for n, v in ((8192, 32000), (2048, 50257)):
        yield ("autocast linear+cross_entropy %dx%d" % (n, v), b16, lambda n=n, v=v:
               (in_autocast(lambda x, w: F.cross_entropy(F.linear(x, w), torch.zeros(n, dtype=torch.long, device=CUDA))),
                (r(n, 256), r(v, 256))))
    yield ("autocast layer_norm+3 linear 8192x768", b16, lambda:
           (in_autocast(lambda x, w, b, m: sum(F.linear(F.layer_norm(x, (768,), w, b), m) for _ in range(3))),
            (r(8192, 768), r(768), r(768), r(768, 768))))
    yield ("embedding 50257x4096 n16384", f32, lambda:
           (lambda w: F.embedding(torch.randint(0, 50257, (16384,), device=CUDA), w), (r(50257, 4096),)))
    for dt in (f32, b16):
        for kind in ("LSTM", "GRU"):
            for b, t, i, h, n in ((20, 35, 256, 512, 2), (64, 128, 512, 512, 1), (32, 100, 128, 256, 3)):
                def make(kind=kind, b=b, t=t, i=i, h=h, n=n, dt=dt):
                    net = getattr(nn, kind)(i, h, n, batch_first=True).to(CUDA, dt)
                    return (lambda x: net(x)[0]), (r(b, t, i, dtype=dt),)
                yield ("%s b%d t%d i%d h%d layers%d" % (kind, b, t, i, h, n), dt, make)
    for optim in ("sgd", "sgd_momentum", "adam", "adamw", "adam_forloop", "adamw_fused", "rmsprop", "adagrad", "adadelta"):
        yield ("optimizer " + optim, f32, optim)


def in_autocast(fn):
    def run(*inputs):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return fn(*inputs)
    return run


def record_op(name, dtype, make):
    clean()
    use_tf32("default")
    out = {"op": name, "dtype": str(dtype).split(".")[1]}
    if isinstance(make, str):
        params = [nn.Parameter(torch.randn(1 << 20, device=CUDA)) for _ in range(16)] + \
                 [nn.Parameter(torch.randn(1000, device=CUDA)) for _ in range(16)]
        opt = make_optimizer(make, params)
        for _ in range(2):
            for p in params:
                p.grad = torch.randn_like(p)
            opt.step()
        sync()
        torch.cuda.reset_peak_memory_stats()
        before = stats()
        opt.step()
        sync()
        after = stats()
        out.update(param_bytes=sum(p.numel() * 4 for p in params), before=before["allocated"],
                   peak=after["allocated_peak"], after=after["allocated"],
                   seconds=timed(opt.step, 9))
        return out
    fn, inputs = make()
    for t in inputs:
        t.requires_grad_(t.is_floating_point())

    def once():
        sync()
        torch.cuda.reset_peak_memory_stats()
        a = stats()
        y = fn(*inputs)
        sync()
        b = stats()
        g = torch.ones_like(y)
        sync()
        torch.cuda.reset_peak_memory_stats()
        c = stats()
        bytes_out = y.untyped_storage().nbytes()
        y.backward(g)
        sync()
        d = stats()
        del y, g
        for t in inputs:
            t.grad = None
        return {"before": a["allocated"], "forward_peak": b["allocated_peak"], "after_forward": b["allocated"],
                "before_backward": c["allocated"], "backward_peak": d["allocated_peak"], "after_backward": d["allocated"],
                "output_bytes": bytes_out, "reserved_peak": d["reserved_peak"]}
    def events():
        """Signed bytes of every allocation (+) and release (-) since history was last cleared."""
        trace = torch.cuda.memory._snapshot()["device_traces"][0]
        return [e["size"] if e["action"] == "alloc" else -e["size"]
                for e in trace if e["action"] in ("alloc", "free_completed")]
    out["first"] = once()
    once()
    out["steady"] = once()
    torch.cuda.memory._record_memory_history(max_entries=20000, context=None)
    y = fn(*inputs)
    sync()
    out["forward_events"] = events()
    torch.cuda.memory._record_memory_history(enabled=None)
    g = torch.ones_like(y)
    torch.cuda.memory._record_memory_history(max_entries=20000, context=None)
    y.backward(g)
    sync()
    out["backward_events"] = events()
    torch.cuda.memory._record_memory_history(enabled=None)
    del y, g
    for t in inputs:
        t.grad = None
    out["input_bytes"] = [t.untyped_storage().nbytes() for t in inputs]
    y = fn(*inputs)
    g = torch.ones_like(y)
    out["forward_seconds"] = timed(lambda: fn(*inputs), 9)
    out["backward_seconds"] = timed(lambda: torch.autograd.grad(y, inputs, g, retain_graph=True, allow_unused=True), 9)
    return out


# ------------------------------------------------------------------------------------------
# Speed: what fraction of the peak kernels reach, by size
# ------------------------------------------------------------------------------------------
def speed_cases():
    f32, tf, b16, h16 = "fp32", "tf32", "bf16", "fp16"
    for p in (f32, tf, b16, h16):
        for m in (64, 128, 256, 512, 1024, 2048, 4096, 8192):
            yield "gemm", p, (m, m, m)
        for mnk in ((1, 4096, 4096), (32, 4096, 4096), (2048, 50257, 768), (8192, 3072, 768), (8192, 768, 3072),
                    (4096, 11008, 4096), (128, 1000, 2048), (4097, 4097, 4097), (4096, 4096, 64), (512, 512, 25088)):
            yield "gemm", p, mnk
        for bmnk in ((96, 256, 256, 64), (48, 1024, 1024, 64), (48, 1024, 64, 1024), (64, 2048, 2048, 128)):
            yield "bmm", p, bmnk
        for n in (1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28):
            if p in (f32, b16):
                yield "copy", p, (n,)
                yield "add", p, (n,)
                yield "sum", p, (n,)
                yield "gelu", p, (n,)
    for n in (1 << 20, 1 << 24, 1 << 27, 1 << 29):
        yield "h2d_pageable", f32, (n // 4,)
        yield "h2d_pinned", f32, (n // 4,)
        yield "d2h_pinned", f32, (n // 4,)
    yield "launch", f32, (1,)


def record_speed(kind, precision, dims):
    clean()
    dt = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    use_tf32(precision)
    out = {"kind": kind, "precision": precision, "dims": dims}
    r = lambda *s: torch.randn(*s, device=CUDA).to(dt)
    if kind in ("gemm", "bmm"):
        b, (m, n, k) = (1, dims) if kind == "gemm" else (dims[0], dims[1:])
        a, w = (r(m, k), r(k, n)) if kind == "gemm" else (r(b, m, k), r(b, k, n))
        fn = lambda: a @ w
        out["flops"] = 2 * b * m * n * k
    elif kind.startswith(("h2d", "d2h")):
        host = torch.zeros(dims[0], pin_memory=kind.endswith("pinned"))
        dev = torch.empty(dims[0], device=CUDA)
        fn = (lambda: dev.copy_(host, non_blocking=True)) if kind.startswith("h2d") else (lambda: host.copy_(dev, non_blocking=True))
        out["bytes"] = dims[0] * 4
    elif kind == "launch":
        x = r(1)
        fn = lambda: [x.add_(1) for _ in range(1000)]
        out["launches"] = 1000
        t = time.perf_counter()
        fn()
        out["cpu_issue_seconds"] = time.perf_counter() - t
    else:
        x, y = r(dims[0]), r(dims[0])
        fn = {"copy": lambda: y.copy_(x), "add": lambda: torch.add(x, y), "sum": lambda: x.sum(), "gelu": lambda: F.gelu(x)}[kind]
        out["bytes"] = dims[0] * x.element_size() * {"copy": 2, "add": 3, "sum": 1, "gelu": 2}[kind]
    for _ in range(3):
        fn()
    sync()
    out["seconds"] = timed(fn, 15)
    if out.get("flops"):
        out["flops_per_second"] = out["flops"] / out["seconds"]
    if out.get("bytes"):
        out["bytes_per_second"] = out["bytes"] / out["seconds"]
    return out


def record_env():
    def run(*a):
        try:
            return subprocess.run(a, capture_output=True, text=True, timeout=20).stdout.strip()
        except Exception as e:
            return repr(e)
    marks = {"before_cuda": run("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader")}
    torch.zeros(1, device=CUDA)
    sync()
    marks["after_first_tensor"] = {"device_used": device_used(), **stats()}
    a = torch.randn(512, 512, device=CUDA)
    a @ a
    sync()
    marks["after_gemm_fp32"] = {"device_used": device_used(), **stats()}
    b = a.bfloat16()
    b @ b
    F.linear(b, b, b[0])
    sync()
    marks["after_gemm_bf16"] = {"device_used": device_used(), **stats()}
    x = torch.randn(8, 16, 32, 32, device=CUDA, requires_grad=True)
    F.conv2d(x, torch.randn(16, 16, 3, 3, device=CUDA), padding=1).sum().backward()
    sync()
    marks["after_conv_fp32"] = {"device_used": device_used(), **stats()}
    q = torch.randn(2, 4, 128, 64, device=CUDA, dtype=torch.bfloat16, requires_grad=True)
    F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
    sync()
    marks["after_sdpa_bf16"] = {"device_used": device_used(), **stats()}
    p = torch.cuda.get_device_properties(0)
    return {"gpu": p.name, "sm_count": p.multi_processor_count, "total_memory": p.total_memory,
            "capability": [p.major, p.minor], "torch": torch.__version__, "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(), "allocator": torch.cuda.get_allocator_backend(),
            "PYTORCH_CUDA_ALLOC_CONF": os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""),
            "python": sys.version.split()[0], "marks": marks, "torchvision": version("torchvision"),
            "transformers": version("transformers"),
            "nvidia_smi": run("nvidia-smi", "--query-gpu=name,driver_version,memory.total,memory.used,clocks.sm,clocks.mem,"
                              "clocks.max.sm,power.limit,pcie.link.gen.current,pcie.link.width.current", "--format=csv")}


def version(name):
    try:
        return __import__(name).__version__
    except Exception:
        return None


def section(args, name, rows, fn, until, **dump):
    """Run fn(*row) for each row until `until` seconds; save after every case."""
    out, path = [], os.path.join(args.out, dump.get("file", name + ".json"))
    for row in rows:
        if now() > until:
            out.append({"stopped": "out of time", "seconds": now()})
            break
        t = now()
        try:
            rec = fn(*row)
        except Exception as e:
            rec = {"case": [str(c) for c in row[:5]], "error": "%s: %s" % (type(e).__name__, str(e)[:300]),
                   "where": traceback.format_exc().splitlines()[-3:]}
        rec["took"] = round(now() - t, 3)
        out.append(rec)
    data = json.dumps(out, separators=(",", ":"), default=str)
    with (gzip.open(path, "wt") if path.endswith(".gz") else open(path, "w")) as f:
        f.write(data)
    bad = sum("error" in r for r in out)
    print("%-7s %3d cases, %d failed, %.0f s so far -> %s" % (name, len(out), bad, now(), path), flush=True)
    for r in out:
        if "error" in r:
            print("   failed:", r["case"], r["error"][:160], flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    ap.add_argument("--out", required=True)
    ap.add_argument("--seconds", type=float, default=540)
    ap.add_argument("--only", default="env,models,traces,ops,speed")
    args = ap.parse_args()
    os.makedirs(args.out, exist_ok=True)
    torch.manual_seed(0)
    want, s = args.only.split(","), args.seconds
    if "env" in want:
        with open(os.path.join(args.out, "env.json"), "w") as f:
            json.dump(record_env(), f, indent=1, default=str)
        print("env     written, %.0f s so far" % now(), flush=True)
    share = {"models": 0.45, "traces": 0.6, "ops": 0.85, "speed": 0.99}
    last = [n for n in ("models", "traces", "ops", "speed") if n in want]
    for n in last:
        until = s * (share[n] if len(last) > 1 else 0.99)
        if n == "models":
            section(args, n, PLAN, record_model, until)
        elif n == "traces":
            section(args, n, [PLAN[i] for i in TRACED], record_trace, until, file="traces.json.gz")
        elif n == "ops":
            section(args, n, op_cases(), record_op, until)
        else:
            section(args, n, speed_cases(), record_speed, until)


if __name__ == "__main__":
    main()

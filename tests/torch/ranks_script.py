"""A training script of several GPUs as people write it, for `gpuplan shadow`: prints the most bytes requested, allocated and reserved in three steps.

    gpuplan shadow --gpu h200 --world 8 --rank 0 -q -- python tests/torch/ranks_script.py MODEL.json BATCH TOKENS '{"fsdp": {...}, "compile": "blocks", ...}'

BATCH is the rank's. Settings: fsdp (of fully_shard: param, reduce, last, offload, replicate), ddp, zero1, accumulate (micro-batches), sync (the last one alone is
reduced), bf16, amp, lora (a rank), block (checkpoints), float8 (gather: weights too), compile (blocks, or true), on_cpu, adamw."""
from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import sys
from typing import Any, Dict

import torch
import torch.distributed as dist
import transformers
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

TYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


def made(config: Any, given: Dict[str, Any], device: str) -> Any:
    torch.set_default_dtype(torch.bfloat16 if given.get("bf16") else torch.float32)
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(config)
    torch.set_default_dtype(torch.float32)
    if given.get("block") and "lora" not in given:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if "lora" in given:
        import peft

        if given.get("block"):
            model.gradient_checkpointing_enable({"use_reentrant": False})
        model = peft.get_peft_model(model, peft.LoraConfig(r=given["lora"], target_modules="all-linear", task_type="CAUSAL_LM"))
    if "float8" in given:
        from torchao.float8 import Float8LinearConfig, convert_to_float8_training

        how = Float8LinearConfig.from_recipe_name("tensorwise")
        if given["float8"] == "gather":
            how = dataclasses.replace(how, enable_fsdp_float8_all_gather=True)
        convert_to_float8_training(model, config=how, module_filter_fn=lambda m, name: "lm_head" not in name and m.in_features % 16 == 0 and m.out_features % 16 == 0)
    return model


def decoder_layers(model: Any) -> Any:
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    return inner.transformer.h if hasattr(inner, "transformer") else inner.model.layers


def sharded(model: Any, how: Dict[str, Any]) -> Any:
    more: Dict[str, Any] = {"mp_policy": MixedPrecisionPolicy(param_dtype=TYPES.get(how.get("param")), reduce_dtype=TYPES.get(how.get("reduce")))}
    if how.get("offload"):
        more["offload_policy"] = CPUOffloadPolicy()
    if "replicate" in how:
        more["mesh"] = dist.device_mesh.init_device_mesh("cuda", (how["replicate"], dist.get_world_size() // how["replicate"]), mesh_dim_names=("r", "s"))
    layers = decoder_layers(model)
    for number, layer in enumerate(layers):
        fully_shard(layer, reshard_after_forward=not (how.get("last") and number == len(layers) - 1), **more)
    fully_shard(model, **more)
    if how.get("offload"):
        model.to_empty(device="cpu")
        for module in model.modules():
            for key, buffer in module._buffers.items():
                module._buffers[key] = None if buffer is None else buffer.cuda()
    else:
        model.to_empty(device="cuda")
    model.tie_weights()
    return model


def main() -> None:
    config, batch, tokens, settings = sys.argv[1:]
    given: Dict[str, Any] = json.loads(settings)
    torch.cuda.set_device(0)
    dist.init_process_group("nccl")
    in_fsdp = "fsdp" in given
    model = made(transformers.AutoConfig.from_pretrained(config), given, "meta" if in_fsdp else "cpu")
    if not in_fsdp:
        model.cuda()
    if given.get("compile") == "blocks":
        for layer in decoder_layers(model):
            layer.compile()
    model = sharded(model, given["fsdp"]) if in_fsdp else DistributedDataParallel(model, device_ids=[0])
    trained = [p for p in model.parameters() if p.requires_grad]
    kind = torch.optim.AdamW if given.get("adamw") else torch.optim.SGD
    if given.get("zero1"):
        from torch.distributed.optim import ZeroRedundancyOptimizer

        optimizer: Any = ZeroRedundancyOptimizer(trained, kind, lr=1e-3)
    else:
        optimizer = kind(trained, lr=1e-3)
    net = torch.compile(model) if given.get("compile") is True else model
    ids = torch.zeros(int(batch), int(tokens), dtype=torch.int64, device="cuda")
    times = given.get("accumulate", 1)
    gc.collect()
    gc.disable()

    def micro_batch(part: torch.Tensor, last: bool) -> None:
        if isinstance(model, FSDPModule) and given.get("sync"):
            model.set_requires_gradient_sync(last)
        waits = contextlib.nullcontext() if in_fsdp or last else model.no_sync()
        on_host = torch.autograd.graph.save_on_cpu(pin_memory=True) if given.get("on_cpu") else contextlib.nullcontext()
        with waits:
            with torch.autocast("cuda", torch.bfloat16, enabled=bool(given.get("amp"))), on_host:
                out = net(input_ids=part, labels=part)
                loss = out.loss
            if times > 1:
                loss = loss / times
            loss.backward()

    for _ in range(3):
        optimizer.zero_grad()
        ids.zero_()  # Triton's kernels are taken to write what they are given
        for number, part in enumerate(ids.chunk(times), 1):
            micro_batch(part, number == times)
        optimizer.step()
        if given.get("float8") == "gather":
            from torchao.float8 import precompute_float8_dynamic_scale_for_fsdp

            precompute_float8_dynamic_scale_for_fsdp(model)
    stats = torch.cuda.memory_stats()
    print("peaks", *(stats[f"{kind}_bytes.all.peak"] for kind in ("requested", "allocated", "reserved")))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

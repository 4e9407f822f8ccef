"""A script of one's own with weights in a library's form, for library_loops.sh: MODEL.json FORM infer|train. The checkpoint is one that
save_pretrained() wrote. Prints the peaks of three forwards, or of three steps with peft's LoRA."""
from __future__ import annotations

import gc
import sys
import tempfile
from typing import Any

import peft
import torch
import transformers

TORCHAO = {"int4:torchao": ("Int4WeightOnlyConfig", {"int4_packing_format": "tile_packed_to_4d"}), "int8:torchao": ("Int8WeightOnlyConfig", {}),
           "fp8:torchao": ("Float8WeightOnlyConfig", {})}


def loaded(config: Any, form: str) -> Any:
    torch.set_default_dtype(torch.bfloat16)
    model = transformers.AutoModelForCausalLM.from_config(config)
    torch.set_default_dtype(torch.float32)
    if form.endswith("hqq"):
        from hqq.core.quantize import BaseQuantizeConfig
        from hqq.models.hf.base import AutoHQQHFModel

        AutoHQQHFModel.quantize_model(model, BaseQuantizeConfig(nbits=int(form[3]), group_size=64), compute_dtype=torch.bfloat16, device="cuda")
        return model
    import torchao.quantization

    name, arguments = TORCHAO[form]
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        del model
        return transformers.AutoModelForCausalLM.from_pretrained(
            folder, quantization_config=transformers.TorchAoConfig(getattr(torchao.quantization, name)(**arguments)), dtype=torch.bfloat16,
            device_map={"": 0})


def main() -> None:
    model, form, kind = sys.argv[1:]
    net = loaded(transformers.AutoConfig.from_pretrained(model), form)
    tokens = torch.zeros(3, 256, dtype=torch.int64, device="cuda")
    if kind == "train":
        net = peft.prepare_model_for_kbit_training(net, False)
        targets = ["q_proj", "v_proj"] if form.endswith("hqq") else "all-linear"
        net = peft.get_peft_model(net, peft.LoraConfig(r=16, lora_alpha=16, target_modules=targets, task_type="CAUSAL_LM")).train()
        optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad])
    net.train(kind == "train")
    gc.collect()
    gc.disable()

    def step() -> None:
        if kind == "infer":
            with torch.no_grad():
                net(input_ids=tokens)
            return
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            out = net(input_ids=tokens, labels=tokens)
        out.loss.backward()
        del out
        optimizer.step()

    for _ in range(3):
        step()
    stats = torch.cuda.memory_stats()
    print("peaks", *(stats[f"{kind}_bytes.all.peak"] for kind in ("requested", "allocated", "reserved")))


if __name__ == "__main__":
    main()

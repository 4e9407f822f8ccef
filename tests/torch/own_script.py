"""A loop as people write it around a library's adapters, form of weights or kernels, for `gpuplan shadow`: prints the most bytes
requested, allocated and reserved in three steps.

    gpuplan shadow --gpu h200 -q -- python tests/torch/own_script.py MODEL.json BATCH TOKENS '{"peft": "IA3Config()", "amp": true, ...}'

Settings: weights (int4:torchao, int8:hqq, ...), peft (Python), infer, as_loaded (not prepared for training), merge, amp, bf16, checkpoint (a Boolean: use_reentrant), adamw, and
float8, te, cce, on_cpu, budget for what a loop has of torchao, TransformerEngine, cut cross entropy, save_on_cpu and torch.compile."""
from __future__ import annotations

import contextlib
import gc
import json
import sys
import tempfile
from types import SimpleNamespace
from typing import Any, Callable, Dict

import peft
import torch
import torch._functorch.config as graphs
import transformers

TORCHAO = {"int4:torchao": ("Int4WeightOnlyConfig", {"int4_packing_format": "tile_packed_to_4d"}), "int8:torchao": ("Int8WeightOnlyConfig", {}),
           "fp8:torchao": ("Float8WeightOnlyConfig", {})}


def in_bf16(config: Any) -> Any:
    torch.set_default_dtype(torch.bfloat16)
    model = transformers.AutoModelForCausalLM.from_config(config)
    torch.set_default_dtype(torch.float32)
    return model


def loaded(config: Any, form: str, trains: bool) -> Any:
    model = in_bf16(config)
    if form.endswith("hqq"):
        from hqq.core.quantize import BaseQuantizeConfig
        from hqq.models.hf.base import AutoHQQHFModel

        AutoHQQHFModel.quantize_model(model, BaseQuantizeConfig(nbits=int(form[3]), group_size=64), compute_dtype=torch.bfloat16, device="cuda")
        return model
    if form.endswith(("gptq", "awq")):
        del model
        with tempfile.TemporaryDirectory() as folder:
            stored(config, form.partition(":")[2], "auto_trainable" if trains else "auto", folder)  # others have no backward
            return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float16, device_map={"": 0})
    import torchao.quantization

    name, arguments = TORCHAO[form]
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)  # a checkpoint as people have it
        del model
        return transformers.AutoModelForCausalLM.from_pretrained(
            folder, quantization_config=transformers.TorchAoConfig(getattr(torchao.quantization, name)(**arguments)), dtype=torch.bfloat16,
            device_map={"": 0})


def stored(config: Any, method: str, backend: str, folder: str) -> None:
    """A checkpoint as GPTQ or AWQ leave it, in 4 bits by groups of 128: words of eight numbers, along the inputs or the outputs."""
    from safetensors.torch import save_file

    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    tensors = {}
    linear = {name: module for name, module in model.named_modules() if isinstance(module, torch.nn.Linear) and name != "lm_head"}
    for name, value in model.state_dict().items():
        module = linear.get(name.removesuffix(".weight"))
        if module is None or name.endswith(".bias"):
            tensors[name] = torch.zeros(value.shape, dtype=torch.float16)
            continue
        path, rows, columns, groups = name.removesuffix(".weight"), module.in_features, module.out_features, module.in_features // 128
        along_inputs = method == "gptq"
        tensors[path + ".qweight"] = torch.zeros((rows // 8, columns) if along_inputs else (rows, columns // 8), dtype=torch.int32)
        tensors[path + ".qzeros"] = torch.zeros(groups, columns // 8, dtype=torch.int32)
        tensors[path + ".scales"] = torch.ones(groups, columns, dtype=torch.float16)
        if along_inputs:
            tensors[path + ".g_idx"] = torch.arange(rows, dtype=torch.int32) // 128
    save_file(tensors, folder + "/model.safetensors", {"format": "pt"})
    words = {"gptq": {"desc_act": False, "sym": True}, "awq": {"zero_point": True, "version": "gemm"}}[method]
    values = {**config.to_dict(), "torch_dtype": "float16", "quantization_config": {"quant_method": method, "bits": 4, "group_size": 128, "backend": backend, **words}}
    with open(folder + "/config.json", "w") as file:
        json.dump(values, file)


def in_float8(model: Any, recipe: str) -> Any:
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training

    return convert_to_float8_training(model, config=Float8LinearConfig.from_recipe_name(recipe),
                                      module_filter_fn=lambda module, name: name != "lm_head" and module.in_features % 16 == 0 and module.out_features % 16 == 0)


@torch.no_grad()
def in_transformer_engine(model: Any) -> None:
    import transformer_engine.pytorch as te

    for name, module in model.named_children():
        if isinstance(module, torch.nn.Linear):
            new = te.Linear(module.in_features, module.out_features, bias=module.bias is not None, params_dtype=module.weight.dtype)
        elif isinstance(module, torch.nn.LayerNorm):
            new = te.LayerNorm(module.normalized_shape[0], eps=module.eps, params_dtype=module.weight.dtype)
        else:
            in_transformer_engine(module)
            continue
        new.weight.copy_(module.weight)
        if module.bias is not None:
            new.bias.copy_(module.bias)
        setattr(model, name, new)


def autocast_of(recipe: str) -> Callable[[], Any]:
    import transformer_engine.common.recipe as recipes
    import transformer_engine.pytorch as te

    made = getattr(recipes, recipe)()
    return lambda: te.fp8_autocast(enabled=True, fp8_recipe=made)


def model_of(config: Any, given: Dict[str, Any]) -> Any:
    checkpoint = {"use_reentrant": given["checkpoint"]} if "checkpoint" in given else None
    if "weights" in given:
        model = loaded(config, given["weights"], not given.get("infer"))
        if not given.get("infer") and not given.get("as_loaded"):
            model = peft.prepare_model_for_kbit_training(model, checkpoint is not None, checkpoint)
    else:
        model = (in_bf16(config) if given.get("bf16") else transformers.AutoModelForCausalLM.from_config(config)).cuda()
        if checkpoint:
            model.gradient_checkpointing_enable(checkpoint)
    if "peft" in given:
        first, *others = [eval(text, vars(peft)) for text in given["peft"].split(" + ")]
        model = peft.get_peft_model(model, first)
        for number, other in enumerate(others):
            model.add_adapter(f"other{number}", other)
    if "float8" in given:
        model = in_float8(model, given["float8"])
    if "te" in given:
        in_transformer_engine(model)
    return model.merge_and_unload() if given.get("merge") else model


def loss_of(model: Any, tokens: torch.Tensor, given: Dict[str, Any]) -> Any:
    if not given.get("cce"):
        return model(input_ids=tokens, labels=tokens)
    from cut_cross_entropy import linear_cross_entropy

    return SimpleNamespace(loss=linear_cross_entropy(model.model(input_ids=tokens).last_hidden_state, model.lm_head.weight, tokens, shift=True))


def main() -> None:
    model, batch, length, settings = sys.argv[1:]
    given: Dict[str, Any] = json.loads(settings)
    net = model_of(transformers.AutoConfig.from_pretrained(model), given)
    tokens = torch.zeros(int(batch), int(length), dtype=torch.int64, device="cuda")
    net.train(not given.get("infer"))
    autocast = torch.autocast("cuda", torch.bfloat16, enabled=bool(given.get("amp")))
    if not given.get("infer"):
        trained = [p for p in net.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(trained) if given.get("adamw") else torch.optim.SGD(trained)
    products = autocast_of(given["te"]) if "te" in given else contextlib.nullcontext
    if "budget" in given:
        graphs.activation_memory_budget = given["budget"]
        net = torch.compile(net)
    gc.collect()
    gc.disable()

    def step() -> None:
        if given.get("infer"):
            with torch.no_grad(), autocast:
                net(input_ids=tokens)
            return
        optimizer.zero_grad()
        tokens.zero_()  # Triton's kernels are taken to write what they are given
        with autocast, torch.autograd.graph.save_on_cpu(pin_memory=True) if given.get("on_cpu") else contextlib.nullcontext(), products():
            out = loss_of(net, tokens, given)
        out.loss.backward()
        del out
        optimizer.step()

    for _ in range(3):
        step()
    stats = torch.cuda.memory_stats()
    print("peaks", *(stats[f"{kind}_bytes.all.peak"] for kind in ("requested", "allocated", "reserved")))


if __name__ == "__main__":
    main()

"""Records what one rank of several allocates: DistributedDataParallel and FSDP2 (fully_shard), phase by phase.

Each run is one imagined rank; `gpuplan shadow` stands in for the GPU and for NCCL:

    gpuplan shadow --gpu h200 --world 4 --rank 1 -- python several_gpus.py OUT.jsonl mlp fsdp2 adam 8

A line of tests/parallel/recorded.jsonl is what it appends. The batch is one rank's. Readings, bytes: requested,
allocated and reserved of torch.cuda.memory_stats(), live when a phase ends and the highest within it, of the first step
and of the third. With TRACE=FILE in the environment it also writes every event of the allocator.

FSDP2 is applied as PyTorch's tutorial does it: the model is made on `meta`, fully_shard is called on each block and then
on the root, and to_empty() makes the shards on the GPU.
"""
import gc
import contextlib
import json
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, loss_parallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shadow_recorded"))
import real_values  # noqa: E402

KINDS = ("requested", "allocated", "reserved")
REPORTED = {0: "first", 2: "steady"}


def stat(which):
    stats = torch.cuda.memory_stats()
    return {kind: stats[f"{kind}_bytes.all.{which}"] for kind in KINDS}


def mlp():
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
    return model, [], (lambda b: (torch.zeros(b, 784), torch.zeros(b, dtype=torch.int64)))


def uneven():
    """Rows that no number of ranks divides, and fewer of them than there are ranks."""
    model = nn.Sequential(nn.Linear(784, 515), nn.ReLU(), nn.Linear(515, 250), nn.ReLU(), nn.Linear(250, 3))
    return model, [model[0], model[2]], (lambda b: (torch.zeros(b, 784), torch.zeros(b, dtype=torch.int64)))


class Unused(nn.Module):
    """A layer that forward leaves out, as a pooler whose output nobody reads."""

    def __init__(self):
        super().__init__()
        self.one, self.left_out = nn.Linear(784, 512), nn.Linear(512, 256)
        self.more = nn.Sequential(*(nn.Linear(512, 512) for _ in range(30)))
        self.two = nn.Linear(512, 10)

    def forward(self, x):
        return self.two(self.more(self.one(x)))


def unused():
    return Unused(), [], (lambda b: (torch.zeros(b, 784), torch.zeros(b, dtype=torch.int64)))


def resnet50():
    import torchvision
    model = torchvision.models.resnet50()
    blocks = [block for name in ("layer1", "layer2", "layer3", "layer4") for block in getattr(model, name)]
    return model, blocks, (lambda b: (torch.zeros(b, 3, 224, 224), torch.zeros(b, dtype=torch.int64)))


def gpt2():
    import transformers
    real_values.count_up_positions()
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False))
    return model, list(model.transformer.h), (lambda b: (torch.zeros(b, 1024, dtype=torch.int64),) * 1)


def llama():
    import transformers
    config = transformers.LlamaConfig(vocab_size=32000, hidden_size=768, intermediate_size=2048, num_hidden_layers=6, num_attention_heads=12,
                                      num_key_value_heads=4, max_position_embeddings=2048, use_cache=False)
    model = transformers.LlamaForCausalLM(config)
    return model, list(model.model.layers), (lambda b: (torch.zeros(b, 1024, dtype=torch.int64),) * 1)


def decoder_of(name, model_class):
    """Of tests/parallel/models/NAME.json, as the plan reads it."""

    def make():
        import transformers
        file = pathlib.Path(__file__).resolve().parent.parent / "parallel" / "models" / f"{name}.json"
        config = transformers.AutoConfig.from_pretrained(file)
        config.use_cache = False
        model = getattr(transformers, model_class)(config)
        return model, list(model.model.layers), (lambda b: (torch.zeros(b, 1024, dtype=torch.int64),) * 1)

    return make


DECODERS = {"qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM", "gemma": "GemmaForCausalLM",
            "mistral": "MistralForCausalLM", "gemma2": "Gemma2ForCausalLM", "gemma3": "Gemma3ForCausalLM",
            "mixtral": "MixtralForCausalLM", "mixtral16": "MixtralForCausalLM", "llama1b": "LlamaForCausalLM",
            "deepseek": "DeepseekV3ForCausalLM", "qwen3moe": "Qwen3MoeForCausalLM", "gptoss": "GptOssForCausalLM"}
MODELS = {name: decoder_of(name, model_class) for name, model_class in DECODERS.items()} | {"mlp": mlp, "uneven": uneven, "unused": unused, "resnet50": resnet50, "gpt2": gpt2, "llama": llama}
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32, "as": None}


class Kind:
    """A way to share the model: single, ddp, zero1 or fsdp2, and words behind it, of which some end in a number.

    ddp:   view (gradient_as_bucket_view), unused (find_unused_parameters)
    fsdp2: keep (nothing is resharded after forward), last (all but the last block), root or lastroot (the root is, too),
           hsdp2 (HSDP of two replicas), offload (CPUOffloadPolicy), ends (as Accelerate wraps)
    tp2:   transformers' tensor parallelism over two ranks, alone (single) or with fsdp2 over the others; sequence: parallelize_module
           with sequence parallelism; loss: with loss parallelism, too
    cp4:   (of fsdp2, or of single with infer) context parallelism over neighbours, as Trainer calls it: context_engine.py; seq1000: so many tokens
    ep4:   (of fsdp2) transformers' expert parallelism over four of the ranks: experts_engine.py
    fsdp1: fsdp1_engine.py; deepspeed: deepspeed_engine.py; accelerate: accelerate_engine.py; pp: pipeline_engine.py; trainer: trainer_engine.py
    all:   block or op (each block is checkpointed, or torchtitan's operators), infer, clip, acc3 (three micro-batches), nosync3 (the
           same, reduced with the last one), bf (made in bf16), fused or loop (fused=True or foreach=False of the optimizer), amp (autocast to bf16), lora8 (peft's, of rank 8 beside every linear layer; with
           only3 beside block 3's q_proj, with attention beside those of attention), onhost (save_on_cpu() around forward and loss)
    fsdp2+bf16+fp32 is MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32).
    """

    def __init__(self, kind):
        words = kind.split("_")
        self.way, self.words, self.names = words[0].split("+")[0], {}, words
        self.policy = [TYPES[t] for word in words for t in word.split("+")[1:]]
        for word in words[1:]:
            name = word.split("+")[0]
            digits = name[len(name.rstrip("0123456789")):]
            self.words[name.removesuffix(digits)] = int(digits or 1)

    def __contains__(self, word):
        return word in self.words

    def number(self, word, otherwise=1):
        return self.words.get(word, otherwise)


SAVED = {torch.ops.aten.mm.default, torch.ops.aten._scaled_dot_product_efficient_attention.default,
         torch.ops.aten._scaled_dot_product_flash_attention.default}


def policy_of_operators():
    """A result is kept or not, as torchtitan decides it: attention's, and of products the first and every other one."""
    counts = {"forward": 0, "recompute": 0}

    def policy(context, function, *arguments, **more):
        if function == torch.ops.aten.mm.default:
            counts["recompute" if context.is_recompute else "forward"] += 1
        count = counts["recompute" if context.is_recompute else "forward"]
        keeps = function in SAVED and not (function == torch.ops.aten.mm.default and count % 2 == 0)
        return CheckpointPolicy.MUST_SAVE if keeps else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def checkpointed_by_operator(model, blocks):
    layers = model.model.layers if hasattr(model, "model") else model.transformer.h
    for i, block in enumerate(blocks):
        layers[i] = checkpoint_wrapper(block, context_fn=policy_of_operators, preserve_rng_state=False)
    return list(layers)


def in_parallel(model, mesh):
    """As from_pretrained(tp_plan="auto") does it, but without a checkpoint: weights are tied when they are shared."""
    from transformers.distributed.configuration_utils import DistributedConfig
    from transformers.distributed.tensor_parallel import apply_tensor_parallelism
    plan, _, _ = model._resolve_parallel_plans(DistributedConfig(tp_size=mesh.size(), tp_plan="auto"))
    if model.config.tie_word_embeddings:
        model.lm_head.weight = nn.Parameter(torch.empty_like(model.lm_head.weight))
    apply_tensor_parallelism(model, mesh, plan)
    model.tie_weights()


def in_sequence(model, mesh, kind):
    """As PyTorch's tutorial and torchtitan share a decoder with sequence parallelism (parallelize_module): what is between
    attention and feed-forward lies along the tokens. Hidden states stay DTensors, for transformers reads positions of them."""
    between = {"output_layouts": Shard(1), "use_local_output": False}
    loss = "loss" in kind
    tied = model.config.tie_word_embeddings
    if tied:
        model.lm_head.weight = nn.Parameter(torch.empty_like(model.lm_head.weight))
    parallelize_module(model, mesh, {
        "model.embed_tokens": RowwiseParallel(input_layouts=Replicate(), **between), "model.norm": SequenceParallel(),
        "lm_head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1) if loss else Replicate(), use_local_output=not loss)})
    for block in model.model.layers:
        plan = {"self_attn": PrepareModuleInput(input_kwarg_layouts={"hidden_states": Shard(1)}, desired_input_kwarg_layouts={"hidden_states": Replicate()}),
                "mlp": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
                "self_attn.o_proj": RowwiseParallel(**between), "mlp.down_proj": RowwiseParallel(**between)}
        for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"):
            plan[name] = ColwiseParallel()
        for name, module in block.named_modules():
            if name in ("self_attn.q_norm", "self_attn.k_norm"):
                plan[name] = SequenceParallel(sequence_dim=2, use_local_output=True)
            elif name.endswith("norm"):
                plan[name] = SequenceParallel()
        parallelize_module(block, mesh, plan)
    model.tie_weights()


def shard_ends(model, reshards, more):
    """As Accelerate 1.15 does it beside the blocks (fsdp2_prepare_model): the embedding, and what follows the last block."""
    body = model.model if hasattr(model, "model") else model.transformer
    norm = body.norm if hasattr(body, "norm") else body.ln_f
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    tied = embedding.weight is head.weight
    if not tied:
        fully_shard(embedding, reshard_after_forward=reshards, **more)
    fully_shard([norm, embedding, head] if tied else [norm, head], reshard_after_forward=False, **more)


ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]


def adapted(model, kind):
    """With peft's adapters beside every linear layer, where the kind says so."""
    if "lora" not in kind:
        return model
    from peft import LoraConfig, get_peft_model
    targets = [f"layers.{kind.number('only')}.self_attn.q_proj"] if "only" in kind else ATTENTION if "attention" in kind else "all-linear"
    return get_peft_model(model, LoraConfig(r=kind.number("lora"), target_modules=targets, task_type="CAUSAL_LM"))


def stored(name, kind):
    """Loaded on the GPU as bitsandbytes' 4-bit weights, which lie in bf16 where the kind says store16."""
    import tempfile
    import transformers
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tools" / "python"))
    from gpuplan.checkpoints import write_checkpoint
    with torch.device("meta"):
        made, _, batch = MODELS[name]()
    storage = {"bnb_4bit_quant_storage": torch.bfloat16} if "store" in kind else {}
    how = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16, **storage)
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(folder, type(made), made.config, torch.bfloat16)
        model = type(made).from_pretrained(folder, quantization_config=how, dtype=torch.bfloat16, device_map={"": 0}, use_safetensors=True)
    model.config.use_cache = False
    return model.train(), list(model.model.layers), batch


def sharded(name, kind):
    if "nf" in kind:
        model, blocks, batch = stored(name, kind)
        model = adapted(model, kind)
    else:
        with torch.device("meta"):
            model, blocks, batch = MODELS[name]()
            model = adapted(model, kind)
    if "tp" in kind:
        world, tensor = dist.get_world_size(), kind.number("tp")
        replicas = kind.number("hsdp")
        mesh = init_device_mesh("cuda", (replicas, world // tensor // replicas, tensor), mesh_dim_names=("replicate", "shard", "tp"))
        in_sequence(model, mesh["tp"], kind) if "sequence" in kind else in_parallel(model, mesh["tp"])
    if "op" in kind:
        blocks = checkpointed_by_operator(model, blocks)
    if "block" in kind:
        model.gradient_checkpointing_enable()
    if "cp" in kind:
        from accelerate.big_modeling import _attach_context_parallel_hooks
        _attach_context_parallel_hooks(model)
    if kind.way == "single":
        model.to_empty(device="cuda")
        model.tie_weights()
        return model, batch
    more = {"mp_policy": MixedPrecisionPolicy(*kind.policy)}
    if "tp" in kind:
        more["mesh"] = mesh["replicate", "shard"] if "hsdp" in kind else mesh["shard"]
    elif "hsdp" in kind:
        replicas = kind.number("hsdp")
        more["mesh"] = init_device_mesh("cuda", (replicas, dist.get_world_size() // replicas), mesh_dim_names=("replicate", "shard"))
    if "offload" in kind:
        more["offload_policy"] = CPUOffloadPolicy()
    last, root = "last" in kind or "lastroot" in kind, "root" in kind or "lastroot" in kind
    for block in blocks:
        fully_shard(block, reshard_after_forward=block is not blocks[-1] if last else "keep" not in kind, **more)
    if "ends" in kind:
        shard_ends(model, "keep" not in kind, more)
    fully_shard(model, reshard_after_forward=True if root else None, **more)
    if "nf" not in kind:
        model.to_empty(device="cpu" if "offload" in kind else "cuda")
    if "offload" in kind:
        for module in model.modules():
            module._buffers = {key: None if b is None else b.cuda() for key, b in module._buffers.items()}
    if hasattr(model, "tie_weights"):
        model.tie_weights()
    return model, batch


def wrapped(name, kind, local_rank, size):
    if "ep" in kind:
        from experts_engine import with_experts
        return with_experts(MODELS[name], adapted, kind, size)
    if kind.way == "fsdp2" or "tp" in kind:
        return sharded(name, kind)
    if kind.way == "fsdp1":
        from fsdp1_engine import wrap
        model, blocks, batch = MODELS[name]()
        return wrap(adapted(model, kind), blocks, kind), batch
    if "nf" in kind:
        model, blocks, batch = stored(name, kind)
    else:
        with torch.device("cpu" if "lora" in kind or name in DECODERS else "cuda"):
            model, blocks, batch = MODELS[name]()
        model = model.to("cuda")
    model = adapted(model, kind)
    if "block" in kind:
        model.gradient_checkpointing_enable()
    if "cp" in kind:
        from accelerate.big_modeling import _attach_context_parallel_hooks
        _attach_context_parallel_hooks(model)
    if kind.way == "single":
        return model, batch
    return DistributedDataParallel(model, device_ids=[local_rank], gradient_as_bucket_view="view" in kind,
                                   find_unused_parameters="unused" in kind), batch


def optimizer_of(model, name, kind):
    classes = {"sgd": torch.optim.SGD, "momentum": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    more = {"momentum": 0.9} if name == "momentum" else {}
    if "fused" in kind or "loop" in kind:
        more["fused" if "fused" in kind else "foreach"] = "fused" in kind
    if "tp" in kind and "sequence" not in kind and (kind.way == "single" or (kind.way == "pp" and "shards" not in kind)):  # foreach refuses DTensors beside tensors
        more["foreach"] = False
    parameters = [p for p in model.parameters() if p.requires_grad] if "nf" in kind else model.parameters()
    if kind.way == "zero1":
        return ZeroRedundancyOptimizer(parameters, classes[name], lr=1e-3, **more)
    return classes[name](parameters, lr=1e-3, **more)


class Meter:
    def __init__(self):
        self.rows, self.on = {}, False

    def __call__(self, phase):
        if self.on:
            self.rows[phase] = {"live": stat("current"), "peak": stat("peak")}
            torch.cuda.reset_peak_memory_stats()
        if self.marks is not None:
            self.marks.append((phase, len(torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()])))

    marks = None


def write_trace(trace, meter):
    events = torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
    marks = {}
    for phase, at in meter.marks:
        marks.setdefault(at, []).append(phase)
    with open(trace, "w") as file:
        for i, e in enumerate(events):
            for phase in marks.get(i, []):
                file.write(f"# {phase}\n")
            file.write(f"{e['action']}\t{e['addr']:x}\t{e['size']}\t{e['stream']:x}\n")
        for at in sorted(marks):
            if at >= len(events):
                file.write("".join(f"# {phase}\n" for phase in marks[at]))


def measured(step, meter):
    """The phases of REPORTED of three steps."""
    steps = {}
    for i in range(3):
        meter.on = i in REPORTED
        torch.cuda.reset_peak_memory_stats()
        step()
        gc.collect()
        if meter.on:
            meter.rows["end"] = {"live": stat("current"), "peak": stat("peak")}
            steps[REPORTED[i]] = meter.rows
            meter.rows = {}
    return steps


def main():
    out, name, written, opt, size = *sys.argv[1:5], int(sys.argv[5])
    kind = Kind(written)
    micro_batches = kind.number("acc") * kind.number("nosync")
    trace = os.environ.get("TRACE")
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    if trace:
        torch.cuda.memory._record_memory_history(max_entries=1000000, context=None)
    meter = Meter()
    meter.marks = [] if trace else None
    if "bf" in kind:
        torch.set_default_dtype(torch.bfloat16)
    if kind.way == "accelerate":
        from accelerate_engine import Engine
        made, _, make_batch = stored(name, kind) if "nf" in kind else MODELS[name]()
        made = adapted(made, kind)
        model = optimizer = Engine(made, lambda model: optimizer_of(model, opt, kind), kind)
        built = stat("current")
    elif kind.way == "deepspeed":
        from deepspeed_engine import Engine, made_partitioned
        with made_partitioned(kind, size):
            made, _, batch_of = stored(name, kind) if "nf" in kind else MODELS[name]()
        made = adapted(made, kind)
        model = optimizer = Engine(made, batch_of, optimizer_of(made, opt, kind), kind, size)
        make_batch, built = model.batch, stat("current")
    elif kind.way == "pp":
        from pipeline_engine import Engine
        with torch.device("meta"):
            made, _, make_batch = MODELS[name]()
            made = adapted(made, kind).get_base_model() if "lora" in kind else made
        model = Engine(made, kind, size, in_parallel, in_sequence, checkpointed_by_operator)
        built = stat("current")
        optimizer = optimizer_of(model, opt, kind)
    elif kind.way == "trainer":
        made, _, make_batch = MODELS[name]()
        model, optimizer, built = adapted(made, kind), None, stat("current")
    else:
        model, make_batch = wrapped(name, kind, local_rank, size)
        built = stat("current")
        optimizer = optimizer_of(model, opt, kind)
    with torch.device("cuda"):
        takes_batch = kind.way != "trainer" and (kind.way != "pp" or model.first or model.last)
        batch = make_batch(size * micro_batches) if takes_batch else ()
        if "seq" in kind:
            batch = (batch[0].new_zeros(batch[0].shape[0], kind.number("seq")),)
        if kind.way == "pp" and model.first and model.last:
            batch = (*batch, batch[-1].clone())
        if kind.way == "deepspeed":
            half = torch.float16 if "fp" in kind else torch.bfloat16
            batch = tuple(t.to(half) if t.is_floating_point() else t for t in batch)
    meter("built")
    if "cp" in kind:
        from context_engine import Context
        context = Context(kind.number("cp"), kind.number("tp"), size * micro_batches)

    def pass_over(number, last):
        if "nosync" in kind and kind.way != "fsdp1":
            model.set_requires_gradient_sync(last)
        x, y = batch[0][number * size:(number + 1) * size], batch[-1][number * size:(number + 1) * size]
        waits = not last and (kind.way in ("ddp", "zero1") or (kind.way == "fsdp1" and "nosync" in kind))
        given = context.batch(x, y) if "cp" in kind else {"input_ids": x, "labels": y}
        with context.cut(given) if "cp" in kind else contextlib.nullcontext(), loss_parallel() if "loss" in kind else contextlib.nullcontext():
            pass_over_given(x, y, given, waits, last)

    def pass_over_given(x, y, given, waits, last):
        on_host = torch.autograd.graph.save_on_cpu() if "onhost" in kind else contextlib.nullcontext()
        with torch.autocast("cuda", torch.bfloat16, enabled="amp" in kind), on_host, model.no_sync() if waits else contextlib.nullcontext():
            if name in ("gpt2", "llama", *DECODERS):
                output = model(**given)
                loss = output.loss
                meter("forward")
            else:
                output = model(x)
                meter("forward")
                loss = nn.functional.cross_entropy(output, y)
        if micro_batches > 1 and kind.way != "deepspeed":
            loss = loss / micro_batches
        meter("loss")
        with model.no_sync() if waits else contextlib.nullcontext():
            model.backward(loss) if kind.way in ("deepspeed", "accelerate") else loss.backward()
        meter("backward")
        if kind.way == "deepspeed" and not last:
            model.step()

    def step():
        optimizer.zero_grad(set_to_none=True)
        meter("start")
        if "infer" in kind:
            given = context.batch(batch[0]) if "cp" in kind else {"input_ids": batch[0]}
            amp = torch.autocast("cuda", torch.bfloat16, enabled="amp" in kind)
            with torch.no_grad(), context.cut(given) if "cp" in kind else contextlib.nullcontext(), amp:
                output = model(**given) if name in ("gpt2", "llama", *DECODERS) else model(batch[0])
            meter("forward")
            return
        if kind.way == "pp":
            model.run(batch, meter, context if "cp" in kind else None)
        else:
            for number in range(micro_batches):
                pass_over(number, number + 1 == micro_batches)
        if "clip" in kind and kind.way != "deepspeed":
            model.clip_grad_norm_(1.0) if kind.way == "fsdp1" or "fsdp" in kind else nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            meter("clip")
        optimizer.step()
        meter("optimizer")

    if kind.way == "trainer":
        from trainer_engine import train
        optimizer, read = train(model, kind, size, dist.get_world_size(), meter)
        steps = dict(zip(REPORTED.values(), read))
    else:
        steps = measured(step, meter)
    if any(word in kind for word in ("savefull", "savemodel", "saveshards")):
        from checkpoints import save
        meter.on = True
        save(model, optimizer, kind)
        meter("save")
        steps["steady"]["save"] = meter.rows["save"]
    states = (optimizer.optim if kind.way == "zero1" else optimizer).state
    local = lambda t: t.to_local() if hasattr(t, "to_local") else t
    state_bytes = sum(local(t).nbytes for s in states.values() for t in s.values() if torch.is_tensor(t) and t.is_cuda)
    line = {"model": name, "kind": written, "optimizer": opt, "batch": size, "world": dist.get_world_size(),
            "rank": dist.get_rank(), "torch": torch.__version__, "gpu": torch.cuda.get_device_name(),
            "parameters": sum(local(p.data).nbytes for p in model.parameters()),
            "optimizer_state": state_bytes, "model_bytes": built, **steps}
    with open(out, "a") as file:
        file.write(json.dumps(line) + "\n")
    if trace:
        write_trace(trace, meter)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

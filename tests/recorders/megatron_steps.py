"""Records what one rank of Megatron-core allocates, phase by phase: a GPT of its own modules (megatron.core 0.16), its
DistributedDataParallel and its optimizer, without Apex: the local specification where Transformer Engine is not installed, or
Transformer Engine's (2.20).

Each run is one imagined rank; `gpuplan shadow` stands in for the GPU and for NCCL, as for several_gpus.py:

    gpuplan shadow --gpu h200 --world 8 --rank 1 -- python megatron_steps.py OUT.jsonl megatron_llama megatron_tp2_sp_do adamw 1

A line of tests/parallel/recorded.jsonl is what it appends; TRACE=FILE writes every event. Words of a kind:
te (Transformer Engine's modules, its rotation, and the optimizer that Megatron-core takes from it), seq2048 (tokens of a sample),
tp2 (tensor_model_parallel_size), cp2 (context_parallel_size, of its ring; the batch is cut before it is on the GPU), sp
(sequence_parallel), do (use_distributed_optimizer), half (gradients are reduced in bf16: no accumulate_allreduce_grads_in_fp32), overlap (overlap_grad_reduce), gather (overlap_param_gather), bucket5 (bucket_size, millions of elements),
full or core (recompute_granularity full, of each layer, or selective, of core attention), acc4 (micro-batches), clip
(clip_grad of 1.0; without it none). The loop is pretrain_gpt.py's and training.py's, without an attention mask from the
data loader, and with a batch that stays on the GPU.
"""
import json
import os
import pathlib
import sys
from functools import partial

import torch
import torch.distributed as dist
from torch._inductor.runtime import benchmarking

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import several_gpus  # noqa: E402
from several_gpus import Kind, Meter, stat  # noqa: E402

from megatron.core import parallel_state, tensor_parallel  # noqa: E402
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads  # noqa: E402
from megatron.core.models.gpt import GPTModel  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec, get_gpt_layer_with_transformer_engine_spec  # noqa: E402
from megatron.core.num_microbatches_calculator import init_num_microbatches_calculator  # noqa: E402
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer  # noqa: E402
from megatron.core.pipeline_parallel import get_forward_backward_func  # noqa: E402
from megatron.core.transformer import TransformerConfig  # noqa: E402
from megatron.core.transformer.module import Float16Module  # noqa: E402
from megatron.core.utils import get_batch_on_this_cp_rank  # noqa: E402

LLAMA = {"normalization": "RMSNorm", "gated_linear_unit": True, "activation_func": torch.nn.functional.silu,
         "add_bias_linear": False, "bias_activation_fusion": True, "hidden_dropout": 0.0, "attention_dropout": 0.0}
MODELS = {
    "megatron_llama": (dict(num_layers=6, hidden_size=768, ffn_hidden_size=2048, num_attention_heads=16, num_query_groups=8) | LLAMA,
                       dict(vocab_size=32000, position_embedding_type="rope", share_embeddings_and_output_weights=False)),
    "megatron_wide": (dict(num_layers=2, hidden_size=5120, ffn_hidden_size=13824, num_attention_heads=40, num_query_groups=40) | LLAMA,
                      dict(vocab_size=32000, position_embedding_type="rope", share_embeddings_and_output_weights=False)),
    "megatron_gpt": (dict(num_layers=6, hidden_size=768, num_attention_heads=16, bias_activation_fusion=True,
                          hidden_dropout=0.1, attention_dropout=0.1),
                     dict(vocab_size=50304, position_embedding_type="learned_absolute", share_embeddings_and_output_weights=True)),
}


def tokens_of(kind):
    return kind.number("seq", 1024)


def configuration(name, kind):
    sizes, model = MODELS[name]
    recompute = {}
    if "full" in kind:
        recompute = {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1}
    if "core" in kind:
        recompute = {"recompute_granularity": "selective", "recompute_modules": ["core_attn"]}
    config = TransformerConfig(**sizes, **recompute, bf16=True, params_dtype=torch.bfloat16, pipeline_dtype=torch.bfloat16,
                               tensor_model_parallel_size=kind.number("tp"), sequence_parallel="sp" in kind,
                               context_parallel_size=kind.number("cp"), masked_softmax_fusion=False,
                               gradient_accumulation_fusion=False, bias_dropout_fusion=True,
                               apply_rope_fusion="te" in kind and model["position_embedding_type"] == "rope")
    return config, model


def made(name, kind):
    config, more = configuration(name, kind)
    layer = get_gpt_layer_with_transformer_engine_spec() if "te" in kind else get_gpt_layer_local_spec(normalization=config.normalization)
    model = GPTModel(config=config, transformer_layer_spec=layer, max_sequence_length=tokens_of(kind), **more)
    model.cuda(torch.cuda.current_device())
    model = Float16Module(config, model)
    ddp = DistributedDataParallelConfig(
        grad_reduce_in_fp32="half" not in kind, use_distributed_optimizer="do" in kind, overlap_grad_reduce="overlap" in kind,
        overlap_param_gather="gather" in kind,
        bucket_size=kind.number("bucket") * 10**6 if "bucket" in kind else None)
    return config, DistributedDataParallel(config, ddp, model)


def batches(size, tokens):
    """Tokens, labels, positions, and the mask of the loss: the rank's part of each sample."""
    names = ["tokens", "labels", "positions"]
    whole = {name: torch.zeros(size, tokens, dtype=torch.int64) for name in names} | {"loss_mask": torch.ones(size, tokens)}
    return [part.cuda() for part in get_batch_on_this_cp_rank(whole).values()]


def loss_of(mask, output):
    """pretrain_gpt.py's loss_func."""
    losses, mask = output.view(-1).float(), mask.view(-1).float()
    loss = torch.sum(losses * mask)
    tokens = mask.sum().clone().detach().to(torch.int)
    report = torch.cat([loss.clone().detach().view(1), tokens.view(1)])
    return loss, tokens, {"lm loss": report}


def main():
    out, name, written, opt, size = *sys.argv[1:5], int(sys.argv[5])
    kind = Kind(written)
    count = kind.number("acc")
    trace = os.environ.get("TRACE")
    # What torch.compile fuses is timed when it is first run, beside a buffer of the L2 cache's size, unless its cache on
    # disk knows the answer: as if that did.
    benchmarking.benchmarker.benchmark_gpu = benchmarking.benchmarker.benchmark = lambda *_, **__: 1.0
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    dist.init_process_group("nccl")
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=kind.number("tp"),
                                             context_parallel_size=kind.number("cp"))
    tensor_parallel.model_parallel_cuda_manual_seed(1)
    ranks = parallel_state.get_data_parallel_world_size()
    init_num_microbatches_calculator(dist.get_rank(), None, size * count * ranks, size, ranks)
    if trace:
        torch.cuda.memory._record_memory_history(max_entries=1000000, context=None)
    meter = Meter()
    meter.marks = [] if trace else None
    config, model = made(name, kind)
    built = stat("current")
    optimizer = get_megatron_optimizer(
        OptimizerConfig(optimizer="adam", lr=1e-3, weight_decay=0.01, bf16=True, params_dtype=torch.bfloat16,
                        use_distributed_optimizer="do" in kind, overlap_param_gather="gather" in kind, clip_grad=1.0 if "clip" in kind else 0.0), [model])

    def scaled(loss):
        loss = optimizer.scale_loss(loss)
        meter("forward")
        meter("loss")
        return loss

    def finalize(*arguments, **more):
        finalize_model_grads(*arguments, **more)
        meter("backward")

    config.no_sync_func, config.grad_scale_func, config.finalize_model_grads_func = model.no_sync, scaled, finalize
    batch = batches(size * count, tokens_of(kind))
    meter("built")

    def forward(rows, model):
        number, (tokens, labels, positions, mask) = next(rows)
        if number > 0:
            meter("backward")  # of the micro-batch before
        return model(tokens, positions, None, labels=labels), partial(loss_of, mask)

    def step():
        model.zero_grad_buffer()
        optimizer.zero_grad()
        meter("start")
        rows = enumerate([tuple(t[i * size:(i + 1) * size] for t in batch) for i in range(count)])
        get_forward_backward_func()(forward_step_func=forward, data_iterator=rows, model=[model], num_microbatches=count,
                                    seq_length=tokens_of(kind), micro_batch_size=size, forward_only=False)
        optimizer.step()
        meter("optimizer")

    steps = several_gpus.measured(step, meter)
    inner = [o.optimizer for o in getattr(optimizer, "chained_optimizers", [optimizer])]
    line = {"model": name, "kind": written, "optimizer": opt, "batch": size, "world": dist.get_world_size(),
            "rank": dist.get_rank(), "torch": torch.__version__, "gpu": torch.cuda.get_device_name(),
            "parameters": sum(p.nbytes for p in model.parameters()),
            "optimizer_state": sum(t.nbytes for o in inner for s in o.state.values() for t in s.values()
                                   if torch.is_tensor(t) and t.is_cuda),
            "model_bytes": built, **steps}
    with open(out, "a") as file:
        file.write(json.dumps(line) + "\n")
    if trace:
        several_gpus.write_trace(trace, meter)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

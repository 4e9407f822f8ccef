"""vLLM: what its engine measures and says goes into the report, and its steps go on.

Since its second model runner (0.20), kernels of Triton count on the GPU how many tokens each request has got, and the
host reads those counts back. Zeros would keep every request waiting for ever, so the counts are written after the
kernels, by their rule: one token for each request whose prompt is done, none of a draft's accepted.
"""

import functools
import re

from gpuplan_shadow_engine import repeat

SAID = re.compile(r"KV cache size:|[Nn]o available memory|larger than the (maximum|available)")
NO_DRAFT = "vLLM accepts none of the tokens that a draft proposes: how many it would accept hangs on their values"


def watch(after_import, session, runtime, torch, safe):
    """`runtime`: a function that returns the Runtime."""
    after_import("vllm.v1.worker.gpu_worker", safe(lambda module: _report_memory(session, module.Worker)))
    after_import("vllm.version", safe(lambda module: repeat(session, "vLLM", module.__version__, SAID)))
    after_import("vllm.v1.worker.gpu.model_runner", safe(lambda module: _count(session, runtime, torch, module)))


# --- the report


def _name():
    import vllm

    return "vLLM " + vllm.__version__


def _report_memory(session, worker):
    def part(name, size):
        if size is not None:
            session.write({"event": "engine", "name": _name(), "part": name, "bytes": int(size)})

    determine = worker.determine_available_memory

    @functools.wraps(determine)
    def measured(self, *args, **kwargs):
        available = determine(self, *args, **kwargs)
        part("weights", getattr(self.model_runner, "model_memory_usage", None))
        graphs = getattr(self, "cudagraph_memory_estimate", 0) or 0
        part("profile peak", getattr(self, "peak_activation_memory", graphs) - graphs)
        part("CUDA graphs, estimated", graphs)
        part("KV cache", available)
        return available

    worker.determine_available_memory = measured


# --- what is sampled


def _count(session, runtime, torch, module):
    sample, own = module.GPUModelRunner.sample, runtime()

    @functools.wraps(sample)
    def counted(self, hidden_states, input_batch, *args, **kwargs):
        output = sample(self, hidden_states, input_batch, *args, **kwargs)
        try:
            _, sampled, rejected = output
            done = input_batch.num_computed_prefill_tokens_np + input_batch.num_scheduled_tokens
            ends = input_batch.cu_num_logits_np
            finished = (done[: len(sampled)] >= input_batch.prefill_len_np[: len(sampled)]).astype("int32")
            left = (ends[1:] - ends[:-1])[: len(sampled)].astype("int32") - 1
            _write(own, torch, sampled, finished)
            _write(own, torch, rejected, left * finished)
            if input_batch.num_draft_tokens:
                session.unknown(NO_DRAFT)
        except Exception as error:
            session.unknown("how many tokens vLLM has sampled, which may keep it from its end: %r" % (error,))
        return output

    module.GPUModelRunner.sample = counted


def _write(runtime, torch, tensor, numbers):
    values = torch.from_numpy(numbers).to(tensor.dtype)
    runtime.write(tensor.data_ptr(), values.data_ptr(), values.numel() * values.element_size())

// The allocations of vLLM 0.33 (V1, model runner 2) from its start to the end of its profile run, through PyTorch's
// allocator. They were read off snapshots of the engine itself under `gpuplan shadow`, and follow its source:
// vllm/v1/worker/gpu_worker.py (init_device, load_model, determine_available_memory), gpu/model_runner.py (profile_run,
// _dummy_sampler_run), gpu/sample/*.py (what the sampler keeps), utils/mem_utils.py (memory_profiling).
#pragma once

#include <cstdint>
#include <string>

#include "estimator/device/gpu.h"
#include "estimator/serve/engine_start.h"
#include "estimator/serve/served_model.h"

namespace gpuplan {

/// The sizes of a start, all decided.
struct VllmSizes {
  std::int64_t batched_tokens = 0, sequences = 0;
  std::int64_t ranks = 1;      // of tensor parallelism
  std::int64_t positions = 0;  // rows of rotary tables
  std::int64_t length = 0;
  WeightForm weights = WeightForm::plain;
  bool eager = false, compiled_before = false;
  std::int64_t adapters = 0, adapter_rank = 0;
};

/// Bytes. A phase that does not fit ends the start: `failed`.
struct VllmMemory {
  std::int64_t weights = 0;   // "Model loading took"
  std::int64_t consumed = 0;  // "consumed memory (weights + non-torch)"
  std::int64_t profile = 0;   // "peak activation"
  std::string profile_peak;
  std::string failed;  // what was being done as memory ran out; empty: nothing
};

/// What PyTorch reserves for the weights and rotary tables alone, on a GPU that has room for all of them; SGLang's
/// layers were taken from vLLM's (sglang/srt/layers/linear.py, vocab_parallel_embedding.py, rotary_embedding.py).
std::int64_t loaded_bytes(const ServedModel& model, const Gpu& gpu, const VllmSizes& sizes);

VllmMemory vllm_memory(const ServedModel& model, const Gpu& gpu, const VllmSizes& sizes);

/// "estimated" CUDA graphs (gpu/cudagraph_utils.py, profile_cudagraph_memory).
std::int64_t vllm_graphs_bytes(const ServedModel& model, const Gpu& gpu, const VllmSizes& sizes);

}  // namespace gpuplan

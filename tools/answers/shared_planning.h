// From flags to what is planned of one of several GPUs.
#pragma once

#include <optional>

#include "estimator/distributed/strategy.h"
#include "tools/answers/planning.h"
#include "tools/options/run_options.h"
#include "tools/options/several_gpus.h"

namespace gpuplan {

/// How GPUs share a step, as far as it is planned in different ways.
enum class Sharing : std::uint8_t {
  ranks,    // data parallelism alone, or one GPU
  layers,   // of a decoder, as transformers shares them (tensor_plan.h), with data parallelism or without
  stages,   // of torch.distributed.pipelining
  formulas  // Megatron-LM's table of stages
};
/// Reads the model where `strategy` has tensor parallelism, to know whose it is.
Sharing sharing_of(const RunOptions& run, const std::optional<Strategy>& strategy);

/// In inference each rank of a context has the whole model, or its part of the layers, unless --zero or --fsdp says
/// otherwise.
Strategy in_mode(Strategy strategy, Mode mode, const SeveralGpusOptions& several);

struct SharedPlanning {
  Planning planning;
  std::optional<Strategy> strategy;  // nothing of one GPU
};
/// The run and the strategy as they are planned. Throws Error (usage) for flags that do not go together.
SharedPlanning prepare_shared(const RunOptions& run, const SeveralGpusOptions& several);

}  // namespace gpuplan

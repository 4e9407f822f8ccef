// How long a step takes an engine: products, attention, what is element-wise, all-reduces of tensor parallelism, and
// the host. Products of few tokens read their weights once at the memory's rate, of many compute at the tensor cores'.
#pragma once

#include <cstdint>
#include <optional>

#include "estimator/base/dtype.h"
#include "estimator/device/gpu.h"
#include "estimator/distributed/collectives.h"
#include "estimator/serve/engine_step.h"
#include "estimator/serve/pace_model.h"
#include "estimator/serve/served_model.h"
#include "estimator/serve/stored_weights.h"
#include "estimator/time/time_model.h"

namespace gpuplan {

struct PaceSettings {
  ServingEngine engine = ServingEngine::vllm;
  StoredWeights weights;           // stored_weights()
  DType compute = DType::bf16;     // that products multiply in
  double cache_element_bytes = 2;  // with its scales
  std::int64_t tensor_ranks = 1;
  std::optional<Link> link;  // of these
  bool graphs = true;        // CUDA graphs replay steps of nothing but decoding, so that nobody waits for the host
  bool fused_attention = true;
};

/// What it is given is copied. Not for several threads at once: it remembers what was asked before. Nothing where the
/// GPU's peaks are not known, or no link of several ranks is. Throws Error for llama.cpp with layers shared among
/// ranks.
std::optional<StepSeconds> pace_of(const ServedModel& model, const Gpu& gpu, const PaceSettings& settings,
                                   const TimeModel& time = {}, const PaceModel& pace = {});

/// How many of `copies` experts are visited by `tokens` that visit `used` each, if all are as likely: the expectation.
double visited_experts(double copies, double used, double tokens);

}  // namespace gpuplan

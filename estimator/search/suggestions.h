// Suggestions: changes that would make a step fit, each on its own.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/distributed/strategy.h"
#include "estimator/graph/layer.h"
#include "estimator/plan/report.h"
#include "estimator/spec/model.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// A change that makes a step fit: the flags to add, and the memory that is needed then.
struct Suggestion {
  std::string flags;
  std::int64_t device_bytes = 0;
  std::int64_t retries = 0;  // > 0: it does not fit, but runs with so many allocator retries in three steps
  bool pair = false;         // two changes, because none makes it fit on its own
  /// On a device with so much memory, or on the larger one that it names.
  bool fits(std::int64_t usable) const { return flags.starts_with("--gpu ") || device_bytes <= usable; }
};

/// The model as a rank has it of a context of so many. Throws Error for models and lengths that are not shared so.
using PartOfContext = std::function<Model(std::int64_t ranks)>;

/// What is tried: the largest batch that fits and the largest that runs, micro-batches, half types, checkpointing of
/// blocks, leaner optimizers, weights of 8 and 4 bits, more GPUs under DDP and FSDP2, a context of FSDP2's ranks where
/// there is a `part` and each has one sample, and of `others` the smallest GPU that it fits as it is. Those that fit
/// `gpu`; when none does the best pair of changes, and when no pair does what comes closest, unless nothing takes less
/// than the step as it is. `report`: of the step on `gpu`, whose memory is known; of several GPUs that share it as
/// `strategy` says, of one of them. Nothing where the model is too large to search (work.h).
std::vector<Suggestion> suggest(const Model& model, Catalog catalog, const Report& report, const Gpu& gpu,
                                std::span<const Gpu> others = {}, const Strategy& strategy = {},
                                const PartOfContext& part = {});

}  // namespace gpuplan

#include "estimator/search/device_bytes.h"

#include <tuple>

#include "estimator/allocator/loop_replay.h"
#include "estimator/base/integers.h"
#include "estimator/device/arithmetic.h"
#include "estimator/distributed/nccl_memory.h"
#include "estimator/plan/plan.h"

namespace gpuplan {

std::int64_t reserved_bytes(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu,
                            const Strategy& strategy) {
  refuse_arithmetic(run, gpu);
  if (strategy.is_deepspeed())  // by definition only
    return report_of(make_plan(model, catalog, run, &gpu, strategy)).peak.reading.reserved_bytes;
  return replay_step(make_step(model, catalog, run, gpu, strategy)).peak.reserved_bytes;
}

std::int64_t context_bytes(const RunConfig& run, const Gpu& gpu, const Strategy& strategy) {
  if (run.context_bytes) return *run.context_bytes;
  return checked_add(gpu.context_bytes.value_or(kAssumedContextBytes), nccl_bytes(strategy));
}

bool reserve_alike(const Gpu& a, const Gpu& b) {
  const auto facts = [](const Gpu& g) {
    return std::tuple(g.capability_major, g.capability_minor, g.sm_count, g.max_threads_per_sm);
  };
  return facts(a) == facts(b);
}

}  // namespace gpuplan

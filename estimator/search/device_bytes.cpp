#include "estimator/search/device_bytes.h"

#include <tuple>

#include "estimator/base/integers.h"
#include "estimator/distributed/nccl_memory.h"
#include "estimator/distributed/rank_share.h"

namespace gpuplan {

std::int64_t reserved_bytes(const Plan& plan) {
  // ZeRO's stages 2 and 3 by their definition only.
  return by_definition(plan.step.run, plan.step.strategy) ? report_of(plan).peak.reading.reserved_bytes
                                                          : plan.replay.peak.reserved_bytes;
}

std::int64_t device_bytes(const Plan& plan) {
  const RankStep& step = plan.step;
  return checked_add(reserved_bytes(plan), context_bytes(step.run, step.gpu, step.strategy));
}

bool reserve_alike(const Gpu& a, const Gpu& b) {
  const auto facts = [](const Gpu& g) {
    return std::tuple(g.capability_major, g.capability_minor, g.sm_count, g.max_threads_per_sm);
  };
  return facts(a) == facts(b);
}

}  // namespace gpuplan

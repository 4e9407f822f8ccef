// What a plan takes on trust, in one place: every output that says it asks here.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/distributed/strategy.h"
#include "estimator/plan/report.h"
#include "estimator/schedule/schedule.h"
#include "estimator/spec/model.h"

namespace gpuplan {

/// Of `report`, which was made of `model` and `passes` on `gpu`, named or assumed, by one rank of `strategy`; its peak,
/// run, layers and named GPU are looked at. None where everything follows from rules.
std::vector<Assumption> assumptions_of(const Model& model, std::span<const Schedule> passes, const Report& report,
                                       const Gpu& gpu, const Strategy& strategy = {});

/// The words of a headline: of what is assumed, and of what is asked for besides (extra_words()).
std::vector<std::string> header_words(const Report& report);

}  // namespace gpuplan

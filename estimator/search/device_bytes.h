// What a step needs of a device, and nothing else of its plan.
#pragma once

#include <cstdint>

#include "estimator/plan/plan.h"

namespace gpuplan {

/// report_of(plan).peak.reading.reserved_bytes, for a search that asks for little else a thousand times.
std::int64_t reserved_bytes(const Plan& plan);
/// The same of report_of(plan).peak.device_bytes.
std::int64_t device_bytes(const Plan& plan);

/// Whether a step reserves the same on both: nothing in which they differ decides a kernel or its workspace.
bool reserve_alike(const Gpu& a, const Gpu& b);

}  // namespace gpuplan

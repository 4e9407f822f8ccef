// Plans one side of a check, head or base, by itself: of one GPU, or of a rank of several.
#pragma once

#include <cstdint>
#include <string>

#include "estimator/budget/judge.h"
#include "estimator/device/gpu.h"
#include "estimator/plan/report.h"
#include "tools/answers/planning.h"
#include "tools/check/check_side.h"

namespace gpuplan {

/// Of several GPUs that of the rank that needs the most, or of the one that the check names. Throws Error.
PlannedReport planned_of(const Planning& planning, const CheckSide& side);

/// What the side, which is planned, needs on another GPU.
std::int64_t device_bytes_on(const CheckSide& side, const Gpu& gpu);

/// What an assertion is about, in the plan of a side that has no report yet; `fits`: the GPU that it is to fit, or
/// null. A cost is the price of the same GPU and is not planned. Throws Error where the figure is not known.
std::int64_t figure_of(const Assertion& assertion, const CheckSide& side, const Gpu* fits);

/// "train, batch 64, fp32, adam".
std::string run_words(const RunConfig& run);
/// "backward of layer3".
std::string peak_place(const Report& report);

}  // namespace gpuplan

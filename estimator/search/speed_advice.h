// Advice that makes a step faster on a GPU with tensor cores: precision, memory format, sizes, the batch.
#pragma once

#include <vector>

#include "estimator/graph/layer.h"
#include "estimator/plan/advice.h"
#include "estimator/plan/plan.h"
#include "estimator/plan/timing.h"
#include "estimator/time/time_model.h"

namespace gpuplan {

/// Every change by itself, planned and timed, that makes a sample at least a hundredth faster (a batch twice as large:
/// a tenth); most first. `plan`: of the step as it is, with its calls, and `now` how long that takes.
///  - precision: TF32 or a half type where products leave the tensor cores idle;
///  - layout: channels_last where tensor cores convolve;
///  - shape: sizes of the model that leave rows of a product's factors beside multiples of 16 bytes (8 elements of half
///    types, 4 of fp32 in TF32), which are made multiples of 8 or of 64;
///  - batch: twice as large, where the step waits for memory or for the host.
std::vector<Advice> speed_advice(const Plan& plan, Catalog catalog, HostCopy copy, const StepTime& now,
                                 const TimeModel& constants = {});

}  // namespace gpuplan

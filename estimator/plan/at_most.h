// The upper bound of a plan: its estimate, and what each unknown may add.
#pragma once

#include "estimator/distributed/strategy.h"
#include "estimator/plan/make_report.h"
#include "estimator/plan/report.h"

namespace gpuplan {

/// Of report.peak, which `parts` led to, with a term for each unknown; equal to it where there is none. `gpu`: the one
/// planned for, named or assumed; `strategy`: of several.
AtMost at_most(const PlanParts& parts, const Report& report, const Gpu& gpu, const Strategy& strategy = {});

/// Raises the bound to that of `other`, the plan of the same run with padding where `report` has none or without where
/// it has some, if that is larger in any figure.
void allow_for_padding(const Report& other, Report& report);

}  // namespace gpuplan

// The upper bound of a plan: its estimate, and what each unknown may add.
#pragma once

#include "estimator/plan/plan.h"
#include "estimator/plan/report.h"

namespace gpuplan {

/// Of report.peak, which `plan` led to, with a term for each unknown; equal to it where there is none.
AtMost at_most(const Plan& plan, const Report& report);

/// Raises the bound to that of `other`, the plan of the same run with padding where `report` has none or without where
/// it has some, if that is larger in any figure.
void allow_for_padding(const Report& other, Report& report);

}  // namespace gpuplan

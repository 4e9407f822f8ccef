// The assumptions of a plan. All outputs get their text from here.
#pragma once

#include <string>
#include <vector>

#include "estimator/plan/plan.h"
#include "estimator/plan/report.h"

namespace gpuplan {

/// Of `report`, which was made of `plan`; its peak, run, layers and named GPU are looked at. None where everything
/// follows from rules.
std::vector<Assumption> assumptions_of(const Plan& plan, const Report& report);

/// The words of a headline: of what is assumed, and of what is asked for besides (extra_words()).
std::vector<std::string> header_words(const Report& report);

}  // namespace gpuplan

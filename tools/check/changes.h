// What a check says otherwise than the base's gpuplan.yaml did.
#pragma once

#include <vector>

#include "estimator/report/check_report.h"

namespace gpuplan {

/// Run flags and the model.
std::vector<CauseLine> changed_settings(const Check& head, const Check& base);
/// Limits, growth, GPUs, levels, margins and mutes: a budget that is raised leaves a trace.
std::vector<CauseLine> changed_limits(const Check& head, const Check& base);

}  // namespace gpuplan

// The part of report_json about several GPUs. For its writer only.
#pragma once

#include "estimator/plan/report.h"
#include "estimator/report/json_parts.h"

namespace gpuplan {

/// Of a report with a rank: "parallel".
Json parallel_json(const Report& report);

}  // namespace gpuplan

// The HTML page of gpuplan fit.
#pragma once

#include <string>

#include "estimator/report/fit_table.h"
#include "tools/options/output_options.h"

namespace gpuplan {

std::string fit_page(const FitReport& report, const OutputOptions& output);

}  // namespace gpuplan

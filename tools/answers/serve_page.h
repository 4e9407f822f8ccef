// The HTML page of gpuplan serve: the start, and its curves over the load.
#pragma once

#include <string>

#include "estimator/report/serve_report.h"
#include "tools/options/output_options.h"

namespace gpuplan {

std::string serve_page(const ServeReport& report, const OutputOptions& output);

}  // namespace gpuplan

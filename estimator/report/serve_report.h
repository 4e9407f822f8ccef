// What a start of an engine comes to, as text and as JSON (gpuplan.serve/1).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/report/serve_load.h"
#include "estimator/report/text_style.h"
#include "estimator/serve/engine_start.h"

namespace gpuplan {

struct ServeReport {
  std::string model, file;
  std::string gpu, gpu_title;
  std::string precision;
  std::int64_t parameters = 0;
  ServeSettings settings;
  EngineStart start;
  std::optional<LoadAnswer> load;
  std::vector<std::string> warnings;
};

std::string serve_text(const ServeReport& report, const TextStyle& style);
std::string serve_json(const ServeReport& report, std::string_view version);
std::string serve_json_schema();

}  // namespace gpuplan

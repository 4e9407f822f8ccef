// What `gpuplan plan --gpus N` prints besides the plan of one rank.
#pragma once

#include <string>
#include <string_view>

#include "estimator/plan/report.h"
#include "estimator/report/writers.h"

namespace gpuplan {

/// "DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3", "FSDP2"
std::string_view title_of(DataParallel kind);
/// The same of a strategy: "FSDP1", too.
std::string_view title_of(const Strategy& strategy);
/// "1F1B"
std::string_view title_of(PipelineSchedule schedule);

/// Of a report with a rank: which it is, what it keeps, what a step sends.
std::string several_gpus_text(const Report& report, const TextStyle& style);
/// report_json, which has `parallel` then.
inline std::string several_gpus_json(const Report& report, std::string_view version) {
  return report_json(report, version);
}

}  // namespace gpuplan

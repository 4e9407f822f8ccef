// What `gpuplan plan --gpus N` prints besides the plan of one rank.
#pragma once

#include <string>
#include <string_view>

#include "estimator/plan/rank_plan.h"
#include "estimator/report/text_style.h"

namespace gpuplan {

/// "DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3", "FSDP2"
std::string_view title_of(DataParallel kind);

/// Which rank it is, what it keeps, what a step sends.
std::string several_gpus_text(const RankPlan& plan, const TextStyle& style);
/// report_json with `parallel` besides.
std::string several_gpus_json(const RankPlan& plan, std::string_view version);

}  // namespace gpuplan

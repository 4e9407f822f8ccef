// What `gpuplan plan --gpus N` prints besides the plan of one rank.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "estimator/parallel/rank_plan.h"
#include "estimator/parallel/stage_plan.h"
#include "estimator/report/text_style.h"

namespace gpuplan {

/// "DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3", "FSDP2"
std::string_view title_of(DataParallel kind);

/// Which rank it is, what it keeps, what a step sends.
std::string several_gpus_text(const RankPlan& plan, const TextStyle& style);
/// report_json with `parallel` besides.
std::string several_gpus_json(const RankPlan& plan, std::string_view version);

/// A row a stage of tensor and pipeline parallelism. `usable_bytes`: of the GPU, 0 where none is named.
std::string stages_text(std::span<const StageRow> stages, const Strategy& strategy, std::int64_t micro_batches,
                        std::int64_t usable_bytes, const TextStyle& style);

}  // namespace gpuplan

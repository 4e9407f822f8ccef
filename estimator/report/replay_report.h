// What gpuplan replay prints: a recorded history under other settings, beside what was recorded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/allocator/replay.h"
#include "estimator/report/text_style.h"

namespace gpuplan {

struct ReplayedRun {
  std::string file, alloc_conf;
  std::string gpu;               // --gpu; empty: memory is not limited
  std::int64_t limit_bytes = 0;  // of it, for PyTorch's segments
  bool checked = false;          // every address has been compared, and is as recorded
  ReplayReport replayed;
  // Of a snapshot, whose own figures are known.
  std::optional<std::int64_t> peak_allocated_bytes, peak_requested_bytes, peak_reserved_bytes, largest_free_bytes;
  std::vector<std::string> warnings;
};

std::string replay_text(const ReplayedRun& run, const TextStyle& style);
/// gpuplan.replay/1 (replay_json_schema).
std::string replay_json(const ReplayedRun& run, std::string_view version);
std::string replay_json_schema();

}  // namespace gpuplan

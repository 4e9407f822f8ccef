#include <vector>

#include "estimator/schedule/schedule.h"

namespace gpuplan {

void find_lifetimes(Schedule& s, const std::vector<char>& kept) {
  std::vector<std::int32_t> last(s.buffers.size(), kNone);
  for (std::size_t i = 0; i < s.ops.size(); ++i) {
    const ScheduledOp& step = s.ops[i];
    for (std::int32_t k = step.allocates.begin; k < step.allocates.end; ++k)
      last[static_cast<std::size_t>(s.allocated[static_cast<std::size_t>(k)])] = static_cast<std::int32_t>(i);
    for (std::int32_t k = step.reads.begin; k < step.reads.end; ++k) {
      const auto b = static_cast<std::size_t>(s.reads[static_cast<std::size_t>(k)]);
      if (last[b] != kNone) last[b] = static_cast<std::int32_t>(i);  // parameters and inputs are not allocated here
    }
  }
  // Counting sort by the step of the last reader.
  std::vector<std::int32_t> count(s.ops.size() + 1, 0);
  for (std::size_t b = 0; b < last.size(); ++b)
    if (last[b] != kNone && kept[b] == 0) ++count[static_cast<std::size_t>(last[b]) + 1];
  for (std::size_t i = 0; i < s.ops.size(); ++i) {
    count[i + 1] += count[i];
    s.ops[i].releases = {count[i], count[i]};
  }
  s.released.resize(static_cast<std::size_t>(count.back()));
  for (std::size_t b = 0; b < last.size(); ++b)
    if (last[b] != kNone && kept[b] == 0) {
      Range& r = s.ops[static_cast<std::size_t>(last[b])].releases;
      s.released[static_cast<std::size_t>(r.end++)] = static_cast<BufferId>(b);
    }
}

}  // namespace gpuplan

#include "tools/answers/fitting_first.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>

namespace gpuplan {

std::vector<SweepRow> fitting_first(std::vector<SweepRow> rows) {
  std::erase_if(rows, [](const SweepRow& row) { return !row.figures; });
  std::ranges::stable_sort(rows, {}, [](const SweepRow& row) {
    const SweepFigures& f = *row.figures;
    return std::tuple(!f.fits, f.fits ? -f.samples_per_second.value_or(0) : 0.0, f.fits ? 0 : f.device_bytes);
  });
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].point = static_cast<std::int64_t>(i);
  return rows;
}

}  // namespace gpuplan

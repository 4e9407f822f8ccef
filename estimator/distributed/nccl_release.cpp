#include "estimator/distributed/nccl_release.h"

#include <algorithm>
#include <array>
#include <utility>

namespace gpuplan {

NcclRelease nccl_of(PyTorchVersion pytorch) {
  constexpr std::array<std::pair<PyTorchVersion, NcclRelease>, 11> kFirst = {{{0, {14, "2.14.3"}},
                                                                              {201, {18, "2.18.1"}},
                                                                              {202, {19, "2.19.3"}},
                                                                              {203, {20, "2.20.5"}},
                                                                              {205, {21, "2.21.5"}},
                                                                              {207, {26, "2.26.2"}},
                                                                              {208, {27, "2.27.3"}},
                                                                              {209, {27, "2.27.5"}},
                                                                              {211, {28, "2.28.9"}},
                                                                              {212, {29, "2.29.7"}},
                                                                              {214, {30, "2.30.7"}}}};
  const auto after = std::ranges::upper_bound(kFirst, pytorch, {}, [](const auto& row) { return row.first; });
  return std::prev(after)->second;
}

}  // namespace gpuplan

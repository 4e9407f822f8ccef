#include "estimator/parallel/ddp_buckets.h"

#include <algorithm>
#include <cstddef>

namespace gpuplan {

std::vector<std::int64_t> ddp_buckets(std::span<const GradientSize> gradients, std::int64_t first_bytes,
                                      std::int64_t cap_bytes) {
  struct Filling {
    DType dtype;
    std::int64_t bytes;
    std::int64_t limit;
    std::size_t first;  // index of its first gradient
  };
  struct Closed {
    std::size_t first;
    std::int64_t bytes;
  };
  std::vector<Filling> filling;  // one a type
  std::vector<Closed> closed;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const GradientSize& g = gradients[i];
    auto bucket = std::ranges::find(filling, g.dtype, &Filling::dtype);
    if (bucket == filling.end()) bucket = filling.insert(filling.end(), {g.dtype, 0, first_bytes, i});
    if (bucket->bytes == 0) bucket->first = i;
    bucket->bytes += g.elements * size_of(g.dtype);
    if (bucket->bytes < bucket->limit) continue;
    closed.push_back({bucket->first, bucket->bytes});
    bucket->bytes = 0;
    bucket->limit = cap_bytes;
  }
  for (const Filling& f : filling)
    if (f.bytes > 0) closed.push_back({f.first, f.bytes});
  std::ranges::stable_sort(closed, {}, &Closed::first);
  std::vector<std::int64_t> bytes;
  for (const Closed& c : closed) bytes.push_back(c.bytes);
  return bytes;
}

}  // namespace gpuplan

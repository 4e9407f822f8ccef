#include "estimator/distributed/ddp_buckets.h"

#include <algorithm>

namespace gpuplan {

std::vector<DdpBucket> ddp_buckets(std::span<const GradientSize> gradients, std::int64_t first_bytes,
                                   std::int64_t cap_bytes) {
  struct Filling {
    DType dtype;
    std::int64_t bytes;
    std::int64_t limit;
    std::size_t first, last;  // indices of its gradients
    std::int32_t gradients;
  };
  std::vector<Filling> filling;  // one a type
  std::vector<Filling> closed;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const GradientSize& g = gradients[i];
    auto bucket = std::ranges::find(filling, g.dtype, &Filling::dtype);
    if (bucket == filling.end()) bucket = filling.insert(filling.end(), {g.dtype, 0, first_bytes, i, i, 0});
    if (bucket->bytes == 0) bucket->first = i;
    bucket->last = i;
    bucket->gradients += 1;
    bucket->bytes += g.elements * size_of(g.dtype);
    if (bucket->bytes < bucket->limit) continue;
    closed.push_back(*bucket);
    bucket->bytes = 0;
    bucket->gradients = 0;
    bucket->limit = cap_bytes;
  }
  for (const Filling& f : filling)
    if (f.bytes > 0) closed.push_back(f);
  std::ranges::stable_sort(closed, {}, &Filling::first);
  std::vector<DdpBucket> buckets;
  for (const Filling& c : closed) buckets.push_back({c.bytes, c.last, c.gradients});
  return buckets;
}

}  // namespace gpuplan

#include "estimator/distributed/broadcast.h"

#include <cstdint>
#include <vector>

namespace gpuplan {

void broadcast_coalesced(CollectiveWriter& writer, std::span<const GradientSize> tensors) {
  constexpr std::int64_t kBroadcastBytes = std::int64_t{250} << 20;
  constexpr std::size_t kBroadcastsAtOnce = 2;
  std::vector<std::int32_t> under_way;
  for (const DdpBucket& bucket : ddp_buckets(tensors, kBroadcastBytes, kBroadcastBytes)) {
    under_way.push_back(writer.new_slot());
    writer.allocate(under_way.back(), bucket.bytes, Category::gradients);
    if (under_way.size() < kBroadcastsAtOnce) continue;
    writer.free(under_way.front());
    under_way.erase(under_way.begin());
  }
  for (const std::int32_t slot : under_way) writer.free(slot);
}

}  // namespace gpuplan

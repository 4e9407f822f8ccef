#include "estimator/distributed/deepspeed_saving.h"

#include <array>
#include <cstdint>

namespace gpuplan {

void write_barrier(CollectiveWriter& writer, bool first) {
  constexpr std::int64_t kKept = 4;
  const std::int32_t barrier = writer.new_slot();
  writer.allocate(barrier, 1, Category::gradients);
  if (first) writer.allocate(writer.new_slot(), kKept, Category::gradients);
  writer.free(barrier);
}

void write_tag_validation(CollectiveWriter& writer) {
  constexpr std::int64_t kDigest = 20;   // bytes
  std::array<std::int32_t, 3> hashes{};  // its own, the largest and the smallest of all ranks
  for (std::int32_t& hash : hashes) writer.allocate(hash = writer.new_slot(), kDigest, Category::gradients);
  const std::int32_t equal = writer.new_slot();  // which bytes are equal, twice
  for (int i = 0; i < 2; ++i) {
    writer.allocate(equal, kDigest, Category::gradients);
    writer.free(equal);
  }
  for (const std::int32_t hash : hashes) writer.free(hash);
}

}  // namespace gpuplan

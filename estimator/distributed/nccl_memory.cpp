#include "estimator/distributed/nccl_memory.h"

#include <array>

#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

std::int64_t of_communicator(std::int64_t ranks) {
  if (ranks < 2) return 0;
  return ranks == 2 ? kNcclBytesOfTwo : kNcclBytesOfMore;
}
std::int64_t most_of_communicator(std::int64_t ranks) { return ranks < 2 ? 0 : kMostNcclBytes; }

std::array<std::int64_t, 7> communicators(const Strategy& s) {
  const std::int64_t of_experts = s.experts > 1 ? s.group(true).ranks : 1;
  return {s.shards(), s.replicas, s.tensor, s.pipeline, s.experts, of_experts, s.context};
}

}  // namespace

std::int64_t nccl_bytes(const Strategy& strategy) {
  std::int64_t bytes = 0;
  for (const std::int64_t ranks : communicators(strategy)) bytes += of_communicator(ranks);
  return bytes;
}

std::int64_t most_nccl_bytes(const Strategy& strategy) {
  std::int64_t bytes = 0;
  for (const std::int64_t ranks : communicators(strategy)) bytes += most_of_communicator(ranks);
  return bytes;
}

std::int64_t context_bytes(const RunConfig& run, const Gpu& gpu, const Strategy& strategy) {
  if (run.context_bytes) return *run.context_bytes;
  return checked_add(gpu.context_bytes.value_or(kAssumedContextBytes), nccl_bytes(strategy));
}

}  // namespace gpuplan

#include "estimator/distributed/nccl_memory.h"

#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

std::int64_t of_communicator(std::int64_t ranks) {
  if (ranks < 2) return 0;
  return ranks == 2 ? kNcclBytesOfTwo : kNcclBytesOfMore;
}
std::int64_t most_of_communicator(std::int64_t ranks) { return ranks < 2 ? 0 : kMostNcclBytes; }

}  // namespace

std::int64_t nccl_bytes(const Strategy& strategy) {
  return of_communicator(strategy.shards()) + of_communicator(strategy.replicas) + of_communicator(strategy.tensor) +
         of_communicator(strategy.pipeline);
}

std::int64_t most_nccl_bytes(const Strategy& strategy) {
  return most_of_communicator(strategy.shards()) + most_of_communicator(strategy.replicas) +
         most_of_communicator(strategy.tensor) + most_of_communicator(strategy.pipeline);
}

std::int64_t context_bytes(const RunConfig& run, const Gpu& gpu, const Strategy& strategy) {
  if (run.context_bytes) return *run.context_bytes;
  return checked_add(gpu.context_bytes.value_or(kAssumedContextBytes), nccl_bytes(strategy));
}

}  // namespace gpuplan

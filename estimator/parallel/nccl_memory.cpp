#include "estimator/parallel/nccl_memory.h"

namespace gpuplan {
namespace {

std::int64_t of_communicator(std::int64_t ranks) {
  if (ranks < 2) return 0;
  return ranks == 2 ? kNcclBytesOfTwo : kNcclBytesOfMore;
}

}  // namespace

std::int64_t nccl_bytes(const Strategy& strategy) {
  return of_communicator(strategy.ranks()) + of_communicator(strategy.tensor) + of_communicator(strategy.pipeline);
}

}  // namespace gpuplan

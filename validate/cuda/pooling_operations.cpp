// Pooling.
#include <array>

#include "validate/cuda/kernels/pooling.h"
#include "validate/cuda/operation.h"

namespace gpuplan::cuda {
namespace {

constexpr std::size_t kWindowNumbers = 8;

Window window_of(const Kernel& k) {
  const auto n = [&](std::size_t i) { return static_cast<std::int32_t>(number(k, i)); };
  return {n(0), n(1), n(2), n(3), n(4), n(5), n(6), n(7)};
}

void run_max_pool(const Machine& m, const Kernel& k) {
  max_pool(m.launch, k.reads[0], k.writes[0], k.writes[1], window_of(k));
}

void run_max_pool_backward(const Machine& m, const Kernel& k) {
  max_pool_backward(m.launch, k.reads[0], k.reads[2], k.writes[0], window_of(k));
}

void run_average(const Machine& m, const Kernel& k) { adaptive_average_pool(m.launch, k.reads[0], k.writes[0]); }

void run_average_backward(const Machine& m, const Kernel& k) {
  adaptive_average_pool_backward(m.launch, k.reads[0], k.writes[0]);
}

std::string refuse_max_pool(const Kernel& k) {
  return k.numbers.size() < kWindowNumbers ? "the plan does not say over which windows" : "";
}

constexpr std::array kOperations{Operation{"max_pool2d_with_indices", run_max_pool, refuse_max_pool},
                                 Operation{"max_pool2d_with_indices_backward", run_max_pool_backward, refuse_max_pool},
                                 Operation{"_adaptive_avg_pool2d", run_average},
                                 Operation{"_adaptive_avg_pool2d_backward", run_average_backward}};

}  // namespace

std::span<const Operation> pooling_operations() { return kOperations; }

}  // namespace gpuplan::cuda

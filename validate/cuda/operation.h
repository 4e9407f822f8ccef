// How CudaDevice finds what runs an operation.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "validate/cuda/kernels/launch.h"
#include "validate/cuda/lacks.h"
#include "validate/executor/kernel.h"

namespace gpuplan::cuda {

class Products;
class Convolutions;
class Recurrences;

/// What operations run with.
struct Machine {
  const LaunchContext& launch;
  Products& products;
  Convolutions& convolutions;
  Recurrences& recurrences;
  Lacks& lacks;  // Device::remarks()
};

struct Operation {
  std::string_view name;  // without "aten::"
  void (*run)(const Machine& machine, const Kernel& kernel);
  /// "" or what keeps it from running; null: nothing does.
  std::string (*refusal)(const Kernel& kernel) = nullptr;
};

/// Null where there is none.
const Operation* find_operation(std::string_view name);

/// By the file that defines them.
std::span<const Operation> pointwise_operations();
std::span<const Operation> copy_operations();
std::span<const Operation> product_operations();
std::span<const Operation> convolution_operations();
std::span<const Operation> reduction_operations();
std::span<const Operation> batch_norm_operations();
std::span<const Operation> normalization_operations();
std::span<const Operation> pooling_operations();
std::span<const Operation> lookup_operations();
std::span<const Operation> attention_operations();
std::span<const Operation> loss_operations();
std::span<const Operation> routing_operations();
std::span<const Operation> recurrent_operations();

/// What the operation writes: in place, that is what it reads first.
inline const KernelTensor& result(const Kernel& k) { return k.writes.empty() ? k.reads[0] : k.writes[0]; }

/// The n-th of an operation's tensors that may be absent: an empty one where it has not so many.
inline KernelTensor optional(std::span<const KernelTensor> tensors, std::size_t n) {
  return n < tensors.size() ? tensors[n] : KernelTensor{};
}

/// The number, or what it is where it is not given.
inline double number(const Kernel& k, std::size_t n, double otherwise = 0) {
  return n < k.numbers.size() ? k.numbers[n] : otherwise;
}

/// The results that {which of three gradients, from number `first` on} says are there, in their order; the others are
/// absent.
inline std::array<KernelTensor, 3> wanted_gradients(const Kernel& k, std::size_t first) {
  std::array<KernelTensor, 3> gradients;
  std::size_t next = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (number(k, first + i) != 0) gradients[i] = optional(k.writes, next++);
  return gradients;
}

/// Scratch that holds at least `bytes` while the kernel runs; null where there is none.
inline void* scratch_of(const Kernel& k, std::int64_t bytes) {
  for (const KernelScratch& s : k.scratch)
    if (s.data != nullptr && s.bytes >= bytes) return s.data;
  return nullptr;
}

}  // namespace gpuplan::cuda

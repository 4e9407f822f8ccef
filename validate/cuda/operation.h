// How CudaDevice finds what runs an operation.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

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
  Operator op;
  void (*run)(const Machine& machine, const Kernel& kernel);
  /// "" or what keeps it from running; null: nothing does.
  std::string (*refusal)(const Kernel& kernel) = nullptr;
};

/// Null where there is none.
const Operation* find_operation(Operator op);

/// By the file that defines them, a family each.
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

/// The dimension that it goes along, of `rank`.
inline int dimension(const Kernel& k, int rank) {
  const int dim = static_cast<int>(k.number(Attribute::dim));
  return dim < 0 ? dim + rank : dim;
}

/// The gradients of input, weight and bias that are among the results, in their order; the others are absent.
inline std::array<KernelTensor, 3> wanted_gradients(const Kernel& k) {
  std::array<KernelTensor, 3> gradients;
  std::size_t next = 0;
  for (std::size_t i = 0;
       const Attribute wanted : {Attribute::wants_input, Attribute::wants_weight, Attribute::wants_bias}) {
    if (k.number(wanted) != 0) gradients[i] = optional(k.writes, next++);
    ++i;
  }
  return gradients;
}

/// Scratch that holds at least `bytes` while the kernel runs; null where there is none.
inline void* scratch_of(const Kernel& k, std::int64_t bytes) {
  for (const KernelScratch& s : k.scratch)
    if (s.data != nullptr && s.bytes >= bytes) return s.data;
  return nullptr;
}

}  // namespace gpuplan::cuda

// One operation as a device is asked to run it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "estimator/operators/primitive.h"
#include "validate/executor/kernel_tensor.h"

namespace gpuplan {

/// Memory that the operation has while it runs: an allocation of its scratch program, in order. data is null for one
/// that the program has freed before the kernel runs.
struct KernelScratch {
  void* data = nullptr;
  std::int64_t bytes = 0;
};

/// validate/executor/operators.h says what each operation has in reads, beside, writes and numbers.
struct Kernel {
  std::string_view name;   // PyTorch's, "aten::add_"; what it writes in place is reads[0]
  std::string_view layer;  // path of the layer, for messages
  const Primitive* what = nullptr;
  std::span<const KernelTensor> reads, beside, writes;
  std::span<const double> numbers;
  std::span<const KernelScratch> scratch;
  std::uint64_t seed = 0;  // of what it draws (dropout); the same for an operation that is run again in backward
  bool tf32 = false;       // matrix products of fp32 may compute in TF32
};

/// One parameter's update by the optimizer. States are PyTorch's, in the order that they are allocated in.
struct ParameterUpdate {
  KernelTensor parameter, gradient;
  std::span<const KernelTensor> states;
};

/// A GradScaler's values on the device, one each.
struct ScalerValues {
  void* scale = nullptr;           // fp32
  void* growth_tracker = nullptr;  // int32: steps since the scale has changed
  void* found_inf = nullptr;       // fp32: 1 where a gradient is not finite
};

}  // namespace gpuplan

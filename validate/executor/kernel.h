// One operation as a device is asked to run it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "estimator/operators/operators.h"
#include "estimator/operators/primitive.h"
#include "validate/executor/kernel_tensor.h"

namespace gpuplan {

/// Memory that the operation has while it runs: an allocation of its scratch program, in order. data is null for one
/// that the program has freed before the kernel runs.
struct KernelScratch {
  void* data = nullptr;
  std::int64_t bytes = 0;
};

/// estimator/operators/operators.inc says what each operator has in reads, extra, writes and attributes.
struct Kernel {
  Operator op = Operator::locals_die;  // what one in place writes is reads[0]
  std::string_view layer;              // path of the layer, for messages
  const Primitive* what = nullptr;
  std::span<const KernelTensor> reads, extra, writes;
  std::span<const AttributeValue> attributes;
  std::span<const KernelScratch> scratch;
  std::uint64_t seed = 0;   // of what it draws (dropout); the same for an operation that is run again in backward
  bool tf32 = false;        // matrix products of fp32 may compute in TF32
  bool repeatable = false;  // the same bits in every run, whatever memory that takes beside the plan's

  bool has(Attribute a, int n = 0) const { return find_attribute(attributes, a, n) != nullptr; }
  /// The n-th of that name, or what it is where it is not given.
  double number(Attribute a, double otherwise = 0, int n = 0) const {
    const AttributeValue* const found = find_attribute(attributes, a, n);
    return found == nullptr ? otherwise : found->value;
  }
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

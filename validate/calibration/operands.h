// Memory of the device that measured operations read and write: random values for what is read, since a multiplier
// takes less power, and its clock is higher, where it is given zeros.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>

#include "estimator/base/dtype.h"
#include "validate/executor/device.h"

namespace gpuplan {

constexpr std::int64_t kLeastOperandBytes = std::int64_t{64} << 20;
constexpr std::int64_t kMemoryPage = std::int64_t{2} << 20;  // what cudaMalloc takes its memory in

/// Tensors one behind the other in one block of the device's memory.
class Operands {
 public:
  /// As many bytes as there are, up to `most`; throws Error (environment) where there is no room for 64 MiB.
  Operands(Device& device, std::int64_t most);
  ~Operands();
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;

  /// Uniform values within 1 of a floating-point type everywhere.
  void randomize(DType type);
  /// All tensors are gone.
  void clear() { used_ = 0; }
  /// A tensor with these sizes, row-major or its channels last; nothing where there is no room.
  std::optional<KernelTensor> tensor(DType type, std::initializer_list<std::int64_t> sizes, bool channels_last = false);
  std::optional<KernelScratch> bytes(std::int64_t bytes);
  std::int64_t capacity() const { return capacity_; }

 private:
  Device& device_;
  std::uint64_t address_ = 0;
  std::int64_t capacity_ = 0, used_ = 0;
};

}  // namespace gpuplan

// Where a plan is run: memory by segments, as the allocator asks for them, and the operations. CudaDevice is the real
// one; tests have one that only keeps books and one that computes on the host.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "estimator/memory/allocator.h"
#include "estimator/run_config.h"
#include "validate/executor/kernel.h"

namespace gpuplan {

/// Bytes, of the whole device.
struct DeviceMemory {
  std::int64_t free_bytes = 0, total_bytes = 0;
};

/// What a plan has to know of the device it is made for; zeros where the device has no such thing.
struct DeviceDescription {
  std::string name;  // "NVIDIA H200"
  int compute_major = 0, compute_minor = 0;
  int sm_count = 0;
  std::string versions;  // "driver 580.65, CUDA 13.0, cuBLAS 13.1, cuDNN 9.26"
};

class Device : public SegmentSource {
 public:
  /// "" where run() can execute such an operation, else why not. Shapes and strides are right, data is null.
  virtual std::string refusal(const Kernel& kernel) const = 0;
  /// Enqueues the operation. Throws Error with the operation, its layer and its shapes when the device refuses.
  virtual void run(const Kernel& kernel) = 0;
  /// One optimizer.step() (`step` counts from 1) of all parameters; `clip`: clip_grad_norm_(1.0) first.
  virtual void update(const OptimizerConfig& config, std::int64_t step,
                      std::span<const ParameterUpdate> parameters) = 0;
  virtual void clip_gradients(std::span<const KernelTensor> gradients) = 0;

  /// Sets every byte. Poison is 0xFF: a NaN in every floating-point type.
  virtual void fill_bytes(void* address, std::int64_t bytes, unsigned char value) = 0;
  virtual void copy_to_device(void* to, const void* from, std::int64_t bytes) = 0;
  virtual void copy_to_host(void* to, const void* from, std::int64_t bytes) = 0;
  /// Waits for everything enqueued. Throws Error for what failed since.
  virtual void synchronize() = 0;
  virtual DeviceMemory memory() = 0;
  virtual DeviceDescription description() const { return {}; }
  /// A moment in the order of what is enqueued, and the time between two of them once synchronize() has returned; 0 of
  /// a device without a clock.
  virtual int mark() { return 0; }
  virtual double milliseconds(int from, int to) { return static_cast<double>(from - to) * 0; }
};

}  // namespace gpuplan

// Device: the interface on which a plan is executed. It provides memory segments for the allocator, and runs
// operations. CudaDevice is the real one; the tests have a recording fake and one that computes on the host.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/allocator/allocator.h"
#include "estimator/base/error.h"
#include "estimator/spec/run_config.h"
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
  int max_threads_per_sm = 0;
  std::int64_t l2_cache_bytes = 0;
  int memory_bus_bits = 0, sm_clock_khz = 0, memory_clock_khz = 0;  // the highest clocks
  std::string versions;            // "driver 580.65, CUDA 13.0, cuBLAS 13.1, cuDNN 9.26"
  std::string pci_bus_id;          // "0000:3b:00.0", by which NVML finds it
  std::int64_t context_bytes = 0;  // of the whole device once the context was there, before any library
};

class Device : public SegmentSource {
 public:
  /// "" where run() can execute such an operation, else why not. Shapes and strides are right, data is null.
  virtual std::string refusal(const Kernel& kernel) const = 0;
  /// Enqueues the operation. Throws Error with the reason when the device refuses; who runs it says which it was.
  virtual void run(const Kernel& kernel) = 0;
  /// One optimizer.step() (`step` counts from 1) of all parameters; `clip`: clip_grad_norm_(1.0) first.
  virtual void update(const OptimizerConfig& config, std::int64_t step,
                      std::span<const ParameterUpdate> parameters) = 0;
  virtual void clip_gradients(std::span<const KernelTensor> gradients) = 0;
  /// torch.amp.GradScaler: divides the gradients by the scale, found_inf becomes 1 where one of them is not finite ...
  virtual void unscale_gradients(std::span<const KernelTensor> /*gradients*/, const ScalerValues& /*values*/) {
    throw Error("this device runs no GradScaler");
  }
  /// ... and the next step's scale is found, by found_inf and the growth tracker.
  virtual void update_scale(const ScalerValues& /*values*/) { throw Error("this device runs no GradScaler"); }

  /// Sets every byte. Poison is 0xFF: a NaN in every floating-point type.
  virtual void fill_bytes(void* address, std::int64_t bytes, unsigned char value) = 0;
  virtual void copy_to_device(void* to, const void* from, std::int64_t bytes) = 0;
  virtual void copy_to_host(void* to, const void* from, std::int64_t bytes) = 0;
  /// Page-locked memory of the host, which copies need no detour for; for release_pinned(). Null where there is none.
  virtual void* allocate_pinned(std::int64_t) { return nullptr; }
  virtual void release_pinned(void*) {}
  /// Waits for everything enqueued. Throws Error for what failed since.
  virtual void synchronize() = 0;
  virtual DeviceMemory memory() = 0;
  virtual DeviceDescription description() const { return {}; }
  /// Where what it ran is not what the plan says, a sentence each without a full stop.
  virtual std::vector<std::string> remarks() const { return {}; }
  /// A moment in the order of what is enqueued, and the time between two of them once synchronize() has returned; 0 of
  /// a device without a clock.
  virtual int mark() { return 0; }
  virtual double milliseconds(int from, int to) { return static_cast<double>(from - to) * 0; }
  /// What marks there are is of no use any more; the next ones may take their place.
  virtual void forget_marks() {}
  /// Every segment goes back, whatever is in it.
  virtual void release_all() = 0;
};

}  // namespace gpuplan

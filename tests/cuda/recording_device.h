// A device that passes everything on to another one, writes it down and looks at each operand.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/cuda/events.h"
#include "validate/executor/device.h"

namespace gpuplan {

/// An operation, the launches that it made and the memory that they may touch.
struct Work {
  std::string what;
  std::int64_t first_launch = 0, end_launch = 0;
  std::vector<Extent> extents;
};

/// To be executed with ExecutionOptions::poison, which fills each block when it comes and when it goes: that is how
/// blocks are seen.
class RecordingDevice final : public Device {
 public:
  explicit RecordingDevice(Device& device);

  EventLog log;
  std::vector<Work> works;
  std::vector<std::string> wrong;

  std::uint64_t allocate(std::int64_t bytes) override;
  void release(std::uint64_t address, std::int64_t bytes) override;
  std::uint64_t reserve(std::int64_t bytes) override;
  bool map(std::uint64_t address, std::int64_t bytes) override;
  void unmap(std::uint64_t address, std::int64_t bytes) override;

  std::string refusal(const Kernel& kernel) const override { return device_.refusal(kernel); }
  void run(const Kernel& kernel) override;
  void update(const OptimizerConfig& config, std::int64_t step, std::span<const ParameterUpdate> parameters) override;
  void clip_gradients(std::span<const KernelTensor> gradients) override;
  void unscale_gradients(std::span<const KernelTensor> gradients, const ScalerValues& values) override;
  void update_scale(const ScalerValues& values) override;
  void fill_bytes(void* address, std::int64_t bytes, unsigned char value) override;
  void copy_to_device(void* to, const void* from, std::int64_t bytes) override;
  void copy_to_host(void* to, const void* from, std::int64_t bytes) override;
  void synchronize() override { device_.synchronize(); }
  DeviceMemory memory() override { return device_.memory(); }
  DeviceDescription description() const override { return device_.description(); }
  void release_all() override { device_.release_all(); }

 private:
  void check_bytes();
  void check_live(const Extent& extent, const std::string& what);
  template <class Run>
  void launch(std::string what, const std::vector<KernelTensor>& tensors, std::span<const KernelScratch> scratch,
              Run run);

  Device& device_;
  std::int64_t used_before_;                      // by the shadow runtime's own count
  std::map<std::uint64_t, std::int64_t> blocks_;  // bytes by address
};

/// Of the shadow runtime that this process runs under; throws Error where it does not.
std::int64_t shadow_launches();
std::int64_t shadow_used_bytes();

}  // namespace gpuplan

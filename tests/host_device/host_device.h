// A device in ordinary memory that runs every operation plainly, in double: what the others are compared with, and what
// shows without a GPU that a plan releases nothing too early. Results are rounded to their types.
#pragma once

#include <map>
#include <string>

#include "validate/executor/device.h"

namespace gpuplan {

class HostDevice : public Device {
 public:
  /// So much memory in all.
  explicit HostDevice(std::int64_t bytes = std::int64_t{1} << 30) : bytes_(bytes) {}
  ~HostDevice() override;
  HostDevice(const HostDevice&) = delete;
  HostDevice& operator=(const HostDevice&) = delete;

  std::uint64_t allocate(std::int64_t bytes) override;
  void release(std::uint64_t address, std::int64_t bytes) override;
  /// Expandable segments need memory that is mapped page by page; there is none here.
  std::uint64_t reserve(std::int64_t) override { return 0; }
  bool map(std::uint64_t, std::int64_t) override { return false; }
  void unmap(std::uint64_t, std::int64_t) override {}

  std::string refusal(const Kernel& kernel) const override;
  void run(const Kernel& kernel) override;
  void update(const OptimizerConfig& config, std::int64_t step, std::span<const ParameterUpdate> parameters) override;
  void clip_gradients(std::span<const KernelTensor> gradients) override;
  void unscale_gradients(std::span<const KernelTensor> gradients, const ScalerValues& values) override;
  void update_scale(const ScalerValues& values) override;

  void fill_bytes(void* address, std::int64_t bytes, unsigned char value) override;
  void copy_to_device(void* to, const void* from, std::int64_t bytes) override;
  void copy_to_host(void* to, const void* from, std::int64_t bytes) override;
  void synchronize() override {}
  void release_all() override;
  DeviceMemory memory() override { return {bytes_ - used_, bytes_}; }

 private:
  std::int64_t bytes_, used_ = 0;
  std::map<std::uint64_t, std::int64_t> segments_;
};

}  // namespace gpuplan

// A device without memory that keeps books: which segments and blocks there are, what runs in which order, and whether
// every operand lies in a block that is there.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "validate/executor/device.h"

namespace gpuplan {

class RecordingFake final : public Device {
 public:
  explicit RecordingFake(std::int64_t bytes = std::int64_t{1} << 50) : bytes_(bytes), segments_(bytes) {}

  std::int64_t fails_at = -1;       // the kernel, counted from 0, that it refuses to run
  std::vector<std::string> events;  // "run aten::mm of fc", "update 1", "clip", "unscale", "scale"
  std::vector<std::string> wrong;   // what a device's memory would not have stood
  std::int64_t poisoned = 0;        // fills with poison, two of each block that came and went

  std::uint64_t allocate(std::int64_t bytes) override { return segments_.allocate(bytes); }
  void release(std::uint64_t address, std::int64_t bytes) override { segments_.release(address, bytes); }
  std::uint64_t reserve(std::int64_t bytes) override { return segments_.reserve(bytes); }
  bool map(std::uint64_t address, std::int64_t bytes) override { return segments_.map(address, bytes); }
  void unmap(std::uint64_t address, std::int64_t bytes) override { segments_.unmap(address, bytes); }

  std::string refusal(const Kernel&) const override { return ""; }
  void run(const Kernel& kernel) override;
  void update(const OptimizerConfig&, std::int64_t step, std::span<const ParameterUpdate> parameters) override;
  void clip_gradients(std::span<const KernelTensor> gradients) override;
  void unscale_gradients(std::span<const KernelTensor> gradients, const ScalerValues& values) override;
  void update_scale(const ScalerValues& values) override;

  /// With poison the execution fills a block when it comes and when it goes, so this is where blocks are seen.
  void fill_bytes(void* address, std::int64_t bytes, unsigned char value) override;
  void copy_to_device(void* to, const void* from, std::int64_t bytes) override;
  void copy_to_host(void* to, const void* from, std::int64_t bytes) override;
  void synchronize() override {}
  void release_all() override { segments_ = ArithmeticSegments(bytes_); }
  DeviceMemory memory() override { return {INT64_MAX - segments_.used_bytes(), INT64_MAX}; }
  std::size_t live_blocks() const { return blocks_.size(); }

 private:
  void check_inside(const void* address, std::int64_t bytes, const std::string& what);
  void check(const KernelTensor& t, const std::string& what);

  std::int64_t bytes_;
  ArithmeticSegments segments_;
  std::map<std::uint64_t, std::int64_t> blocks_;
  std::int64_t kernels_ = 0;
};

}  // namespace gpuplan

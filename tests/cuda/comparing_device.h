// A device that runs every operation twice: on the device that is tested and, from the same operands in double, on the
// host device of tests/host_device. What differs by more than rounding explains is kept as a finding. An execution on
// it checks each operation from what the tested device has computed so far, so that errors do not add up.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/host_device/host_device.h"
#include "validate/executor/device.h"

namespace gpuplan::comparison {

/// The largest difference of an operation's results in one type, in units of what is allowed.
struct Finding {
  std::string operation;
  DType dtype = DType::fp32;
  std::int64_t runs = 0, elements = 0;
  double worst = 0;
  std::string where;  // of the worst: shape, element, both values
};

/// What the operands of an operation are filled with before it runs, where a test has not filled them.
enum class Draws : std::uint8_t { no, yes };

class ComparingDevice final : public Device {
 public:
  explicit ComparingDevice(Device& device) : device_(device) {}

  /// From now on.
  void draw(Draws draws) { draws_ = draws; }
  /// By operation and type.
  const std::map<std::string, Finding>& findings() const { return findings_; }

  std::uint64_t allocate(std::int64_t bytes) override { return device_.allocate(bytes); }
  void release(std::uint64_t address, std::int64_t bytes) override { device_.release(address, bytes); }
  std::uint64_t reserve(std::int64_t bytes) override { return device_.reserve(bytes); }
  bool map(std::uint64_t address, std::int64_t bytes) override { return device_.map(address, bytes); }
  void unmap(std::uint64_t address, std::int64_t bytes) override { device_.unmap(address, bytes); }

  std::string refusal(const Kernel& kernel) const override;
  void run(const Kernel& kernel) override;
  void update(const OptimizerConfig& config, std::int64_t step, std::span<const ParameterUpdate> parameters) override;
  void clip_gradients(std::span<const KernelTensor> gradients) override;
  void unscale_gradients(std::span<const KernelTensor> gradients, const ScalerValues& values) override;
  void update_scale(const ScalerValues& values) override;

  void fill_bytes(void* address, std::int64_t bytes, unsigned char value) override;
  void copy_to_device(void* to, const void* from, std::int64_t bytes) override {
    device_.copy_to_device(to, from, bytes);
  }
  void copy_to_host(void* to, const void* from, std::int64_t bytes) override { device_.copy_to_host(to, from, bytes); }
  void synchronize() override { device_.synchronize(); }
  DeviceMemory memory() override { return device_.memory(); }
  DeviceDescription description() const override { return device_.description(); }
  void release_all() override { device_.release_all(); }

 private:
  class Shadows;
  void compare(const std::string& operation, std::string_view layer, Shadows& shadows, std::int64_t seen,
               double between);
  void keep(const std::string& operation, DType dtype, std::int64_t elements, double worst, const std::string& where);

  Device& device_;
  HostDevice host_;
  Draws draws_ = Draws::no;
  std::uint64_t drawn_ = 0;
  std::map<std::string, Finding> findings_;
};

}  // namespace gpuplan::comparison

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/device/find_gpu.h"
#include "validate/calibration/calibration.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

// "Compute capabilities" in the CUDA C++ Programming Guide; the first capability of each name.
constexpr std::array<std::pair<int, std::string_view>, 9> kArchitectures{{{50, "Maxwell"},
                                                                          {60, "Pascal"},
                                                                          {70, "Volta"},
                                                                          {75, "Turing"},
                                                                          {80, "Ampere"},
                                                                          {89, "Ada"},
                                                                          {90, "Hopper"},
                                                                          {100, "Blackwell"},
                                                                          {130, "unknown"}}};

std::string architecture(int capability) {
  std::string_view name = "unknown";
  for (const auto& [first, called] : kArchitectures)
    if (capability >= first) name = called;
  return std::string(name);
}

// What cudaDeviceProp says beside it, where the file says nothing.
Gpu with_properties(Gpu gpu, const DeviceDescription& d) {
  const auto fill = [](auto& known, auto value) {
    if (!known && value > 0) known = value;
  };
  fill(gpu.l2_cache_bytes, d.l2_cache_bytes);
  fill(gpu.memory_bus_bits, d.memory_bus_bits);
  fill(gpu.sm_clock_khz, d.sm_clock_khz);
  fill(gpu.memory_clock_khz, d.memory_clock_khz);
  return gpu;
}

}  // namespace

Gpu describe_gpu(Device& device, const std::vector<Gpu>& catalog) {
  const DeviceDescription d = device.description();
  if (d.name.empty() || d.sm_count <= 0) throw Error("the device does not say what it is", ErrorKind::environment);
  const auto named = std::ranges::find(catalog, d.name, &Gpu::cuda_name);
  const Gpu* const known = named != catalog.end() ? &*named : find_gpu(catalog, d.name);
  if (known != nullptr) return with_properties(*known, d);
  Gpu gpu;
  gpu.name = gpu.title = gpu.cuda_name = d.name;
  gpu.architecture = architecture(10 * d.compute_major + d.compute_minor);
  gpu.capability_major = d.compute_major;
  gpu.capability_minor = d.compute_minor;
  gpu.sm_count = d.sm_count;
  gpu.max_threads_per_sm = d.max_threads_per_sm;
  gpu.cuda_total_bytes = device.memory().total_bytes;
  gpu.memory_bytes = (*gpu.cuda_total_bytes + kMebibyte - 1) / kMebibyte * kMebibyte;
  gpu.source = "cudaDeviceProp; memory_mib is cuda_total_bytes, nvidia-smi's memory.total is larger";
  return with_properties(std::move(gpu), d);
}

}  // namespace gpuplan

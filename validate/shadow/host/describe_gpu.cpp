#include "validate/shadow/host/describe_gpu.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

namespace gpuplan::shadow {
namespace {

constexpr int kKiB = 1024;

// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": maximum shared memory per
// multiprocessor and per thread block, maximum resident blocks; "1 KB of shared memory is reserved for system use per
// thread block" from 8.0 on (Ampere tuning guide).
constexpr std::array<CapabilityLimits, 13> kLimits = {{
    {50, 64 * kKiB, 48 * kKiB, 0, 32},
    {52, 96 * kKiB, 48 * kKiB, 0, 32},
    {60, 64 * kKiB, 48 * kKiB, 0, 32},
    {61, 96 * kKiB, 48 * kKiB, 0, 32},
    {70, 96 * kKiB, 96 * kKiB, 0, 32},
    {75, 64 * kKiB, 64 * kKiB, 0, 16},
    {80, 164 * kKiB, 163 * kKiB, kKiB, 32},
    {86, 100 * kKiB, 99 * kKiB, kKiB, 16},
    {87, 164 * kKiB, 163 * kKiB, kKiB, 16},
    {89, 100 * kKiB, 99 * kKiB, kKiB, 24},
    {90, 228 * kKiB, 227 * kKiB, kKiB, 32},
    {100, 228 * kKiB, 227 * kKiB, kKiB, 32},
    {120, 100 * kKiB, 99 * kKiB, kKiB, 24},
}};

template <typename T>
T known_or(const std::optional<T>& figure, const std::optional<T>& other, const char* what, const Gpu& gpu,
           const Gpu& stand_in, std::vector<std::string>& assumed) {
  if (figure) return *figure;
  assumed.push_back("the " + std::string(what) + " of " + gpu.title + " is not in its file: taken as that of " +
                    stand_in.title);
  return other.value_or(T{});
}

// Properties that a datasheet has too; the memory's bus and clock are on none.
std::optional<std::int64_t> l2_cache_bytes(const Gpu& gpu) {
  if (gpu.l2_cache_bytes || !gpu.datasheet || !gpu.datasheet->l2_mib) return gpu.l2_cache_bytes;
  return static_cast<std::int64_t>(*gpu.datasheet->l2_mib * (1 << 20));
}

std::optional<int> sm_clock_khz(const Gpu& gpu) {
  if (gpu.sm_clock_khz || !gpu.datasheet || !gpu.datasheet->boost_clock_mhz) return gpu.sm_clock_khz;
  return *gpu.datasheet->boost_clock_mhz * 1000;
}

}  // namespace

CapabilityLimits limits_of(int capability) {
  const auto newer =
      std::ranges::find_if(kLimits, [&](const CapabilityLimits& limits) { return limits.capability > capability; });
  return newer == kLimits.begin() ? kLimits.front() : *std::prev(newer);
}

std::int64_t capacity_of(const Gpu& gpu) { return usable_bytes(gpu); }

DescribedGpu describe(const Gpu& gpu, const Gpu& stand_in) {
  DescribedGpu out;
  GpuDescription& d = out.description;
  const CapabilityLimits limits = limits_of(10 * gpu.capability_major + gpu.capability_minor);
  const auto known = [&](const auto& figure, const auto& other, const char* what) {
    return known_or(figure, other, what, gpu, stand_in, out.assumed);
  };
  d.key = gpu.name;
  d.name = gpu.cuda_name.empty() ? gpu.title : gpu.cuda_name;
  d.major = gpu.capability_major;
  d.minor = gpu.capability_minor;
  d.multi_processor_count = gpu.sm_count;
  d.total_global_mem = capacity_of(gpu);
  d.reserved_memory = std::max<std::int64_t>(0, gpu.memory_bytes - d.total_global_mem);
  d.shared_mem_per_multiprocessor = limits.shared_per_sm;
  d.shared_mem_per_block_optin = limits.shared_per_block;
  d.reserved_shared_mem_per_block = limits.reserved_per_block;
  d.max_threads_per_multi_processor = gpu.max_threads_per_sm;
  d.max_blocks_per_multi_processor = limits.blocks_per_sm;
  d.l2_cache_size = known(l2_cache_bytes(gpu), stand_in.l2_cache_bytes, "L2 cache");
  d.memory_bus_width = known(gpu.memory_bus_bits, stand_in.memory_bus_bits, "memory bus");
  d.nvlink = gpu.datasheet && gpu.datasheet->nvlink_gb_s;
  d.clock_rate = known(sm_clock_khz(gpu), stand_in.sm_clock_khz, "clock");
  d.memory_clock_rate = known(gpu.memory_clock_khz, stand_in.memory_clock_khz, "memory clock");
  return out;
}

}  // namespace gpuplan::shadow

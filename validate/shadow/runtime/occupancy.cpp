#include "validate/shadow/runtime/occupancy.h"

#include <algorithm>

namespace gpuplan::shadow {
namespace {

// The calculator's constants for compute capability 7.0 and newer.
constexpr int kWarp = 32;
constexpr int kRegisters = 65536;    // of a multiprocessor
constexpr int kRegisterUnit = 256;   // registers are given to a warp in such units
constexpr int kWarpGranularity = 4;  // warps are spread over four schedulers

constexpr std::size_t up_to(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

int warps_by_registers(int registers) {
  if (registers == 0) return kRegisters;
  const auto a_warp = static_cast<int>(up_to(static_cast<std::size_t>(registers) * kWarp, kRegisterUnit));
  return kRegisters / a_warp / kWarpGranularity * kWarpGranularity;
}

}  // namespace

int resident_blocks(const KernelResources& kernel, const GpuDescription& gpu, int threads, std::size_t dynamic_shared) {
  if (threads < 1 || threads > largest_block(kernel)) return 0;
  const int warps = (threads + kWarp - 1) / kWarp;
  const int by_threads = gpu.max_threads_per_multi_processor / kWarp / warps;
  const int by_registers = warps_by_registers(kernel.registers) / warps;
  const std::size_t unit = gpu.major >= 8 ? 128 : 256;
  const std::size_t shared =
      up_to(kernel.static_shared + dynamic_shared + static_cast<std::size_t>(gpu.reserved_shared_mem_per_block), unit);
  const int by_shared = shared == 0
                            ? gpu.max_blocks_per_multi_processor
                            : static_cast<int>(static_cast<std::size_t>(gpu.shared_mem_per_multiprocessor) / shared);
  return std::min({gpu.max_blocks_per_multi_processor, by_threads, by_registers, by_shared});
}

int largest_block(const KernelResources& kernel) {
  return std::min(kernel.max_threads, warps_by_registers(kernel.registers) * kWarp);
}

}  // namespace gpuplan::shadow

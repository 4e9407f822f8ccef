#include "estimator/distributed/nccl_fabric.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

namespace gpuplan {
namespace {

int capability_of(const Gpu& gpu) { return 10 * gpu.capability_major + gpu.capability_minor; }

// GB/s that a channel may have, as src/graph/search.cc tries them.
std::span<const double> speeds(int capability) {
  static constexpr double kBefore[] = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
  static constexpr double kHopper[] = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
  static constexpr double kBlackwell[] = {90, 80, 70, 60, 50, 40, 30, 24, 20, 19, 18};
  if (capability >= 100) return kBlackwell;
  return capability >= 90 ? std::span<const double>(kHopper) : std::span<const double>(kBefore);
}

struct NvLink {
  double published = 0, counted = 0;  // GB/s of a link in one direction
};
NvLink nvlink_of(int capability) {
  if (capability >= 100) return {50, 40.1};
  if (capability >= 90) return {25, 20.6};
  if (capability == 86) return {14.0625, 12};
  if (capability >= 70) return {25, 20};
  return {20, 18};
}

constexpr double kThirdGenerationGbPerSecond = 12;
constexpr std::int64_t kMostChannels = 32;  // of a communicator of one node (MAXCHANNELS until 2.25)

}  // namespace

std::int64_t nccl_channels(double gb_per_second, int capability) {
  constexpr double kLeastOfBest = 0.49;  // slower channels are not tried
  constexpr double kHalvedFrom = 25, kHalvedOfManyFrom = 50;
  double best_speed = 0;
  std::int64_t channels = 0;
  for (const double speed : speeds(capability)) {
    if (speed > gb_per_second) continue;
    if (channels > 0 && speed / best_speed <= kLeastOfBest) break;
    const auto fitting = static_cast<std::int64_t>(std::floor(gb_per_second / speed + 1e-9));
    const double used = speed * static_cast<double>(fitting);
    if (used > best_speed * static_cast<double>(channels)) best_speed = speed, channels = fitting;
    if (used >= gb_per_second) break;
  }
  if (channels == 0) return 2;
  const bool narrow = capability > 80 && best_speed < kHalvedOfManyFrom && channels > 4;
  if (best_speed >= kHalvedFrom && !narrow) channels *= 2;
  return std::min(2 * channels, kMostChannels);
}

bool has_nvlink(const Gpu& gpu, std::int64_t ranks) {
  if (!gpu.datasheet) return true;
  if (!gpu.datasheet->nvlink_gb_s) return false;
  const auto called = [&](const char* word) { return gpu.name.find(word) != std::string::npos; };
  const bool bridges = called("-pcie") || called("-nvl") || gpu.name == "a30" ||
                       (gpu.capability_major >= 7 && gpu.capability_minor >= 5);  // GeForce and workstations
  return !bridges || ranks <= 2;
}

std::optional<double> pcie_bytes_per_second(const Gpu& gpu) {
  if (!gpu.datasheet || !gpu.datasheet->pcie_gen) return std::nullopt;
  const double generations = std::exp2(*gpu.datasheet->pcie_gen - 3);
  return kThirdGenerationGbPerSecond * 1e9 * generations * gpu.datasheet->pcie_lanes.value_or(16) / 16.0;
}

std::optional<NcclFabric> nccl_fabric(const Gpu& gpu, std::int64_t ranks) {
  if (!gpu.datasheet) return std::nullopt;
  if (has_nvlink(gpu, ranks)) {
    const NvLink link = nvlink_of(capability_of(gpu));
    const double gb = *gpu.datasheet->nvlink_gb_s / 2 / link.published * link.counted;
    return NcclFabric{true, gb * 1e9, nccl_channels(gb, capability_of(gpu))};
  }
  const std::optional<double> rate = pcie_bytes_per_second(gpu);
  if (!rate) return std::nullopt;
  return NcclFabric{false, *rate, nccl_channels(*rate / 1e9, capability_of(gpu))};
}

}  // namespace gpuplan

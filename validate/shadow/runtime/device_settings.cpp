// What a program sets of a device: flags, limits, access to other devices. Held to be asked for again.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "validate/shadow/runtime/abi.h"
#include "validate/shadow/runtime/device.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow {
namespace {

// cudaLimit by number: a thread's stack, printf's buffer, malloc's heap, depth of synchronisation, pending launches,
// bytes that L2 fetches at once, bytes that persist in L2. Defaults are those of the CUDA programming guide, the last
// two a GPU's own.
constexpr std::array<std::size_t, 7> kDefaultLimits{1024, 1 << 20, 8 << 20, 2, 2048, 128, 0};

struct DeviceSettings {
  std::atomic<unsigned> flags{0};
  std::atomic<std::uint64_t> peers{0};  // a bit for each device whose memory this one may reach
  std::array<std::atomic<std::size_t>, kDefaultLimits.size()> limits{};  // 0: not set
};
static_assert(kMaxDevices <= 64);

DeviceSettings& of_device(int device) {
  static auto* const all = new std::array<DeviceSettings, kMaxDevices>;
  return (*all)[static_cast<std::size_t>(device)];
}

bool exists(int device) { return device >= 0 && device < visible_devices(); }
bool is_limit(int limit) { return limit >= 0 && limit < static_cast<int>(kDefaultLimits.size()); }
bool is_peer(int device) { return exists(device) && device != current_device(); }

}  // namespace

SHADOW_API cudaError_t cudaSetDeviceFlags(unsigned flags) {
  of_device(current_device()).flags = flags;
  return cudaSuccess;
}
SHADOW_API cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  if (flags == nullptr) return fail(cudaErrorInvalidValue);
  *flags = of_device(current_device()).flags;
  return cudaSuccess;
}
SHADOW_API cudaError_t cudaDeviceReset() {
  if (counters().devices[physical_device(current_device())].used > 0) {
    note_unknown("cudaDeviceReset: memory that was not freed before stays counted");
  }
  return cudaSuccess;
}
SHADOW_API cudaError_t cudaDeviceSetCacheConfig(int) { return cudaSuccess; }  // a wish that a GPU may ignore

SHADOW_API cudaError_t cudaDeviceGetLimit(std::size_t* value, int limit) {
  if (value == nullptr || !is_limit(limit)) return fail(cudaErrorInvalidValue);
  const auto index = static_cast<std::size_t>(limit);
  const std::size_t set = of_device(current_device()).limits[index];
  *value = set != 0 ? set : kDefaultLimits[index];
  return cudaSuccess;
}
SHADOW_API cudaError_t cudaDeviceSetLimit(int limit, std::size_t value) {
  if (!is_limit(limit)) return fail(cudaErrorInvalidValue);
  note_unknown("cudaDeviceSetLimit: device memory that a limit reserves (stacks, malloc, printf) is not counted");
  of_device(current_device()).limits[static_cast<std::size_t>(limit)] = value;
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (can == nullptr) return fail(cudaErrorInvalidValue);
  if (!exists(device) || !exists(peer)) return fail(cudaErrorInvalidDevice);
  *can = device != peer ? 1 : 0;
  return cudaSuccess;
}
SHADOW_API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (flags != 0) return fail(cudaErrorInvalidValue);
  if (!is_peer(peer)) return fail(cudaErrorInvalidDevice);
  const std::uint64_t bit = std::uint64_t{1} << peer;
  const bool enabled = (of_device(current_device()).peers.fetch_or(bit) & bit) != 0;
  return enabled ? fail(cudaErrorPeerAccessAlreadyEnabled) : cudaSuccess;
}
SHADOW_API cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  if (!is_peer(peer)) return fail(cudaErrorInvalidDevice);
  const std::uint64_t bit = std::uint64_t{1} << peer;
  const bool enabled = (of_device(current_device()).peers.fetch_and(~bit) & bit) != 0;
  return enabled ? cudaSuccess : fail(cudaErrorPeerAccessNotEnabled);
}

SHADOW_API cudaError_t cudaProfilerStart() { return cudaSuccess; }
SHADOW_API cudaError_t cudaProfilerStop() { return cudaSuccess; }

}  // namespace gpuplan::shadow

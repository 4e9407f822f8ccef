#include "estimator/operators/cub.h"

#include <bit>

#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kAlign = 256;  // of every part of a temporary; the whole asks for 255 more to align itself
constexpr std::int64_t kStatePadding = 32;
constexpr std::int64_t kBitsPerPass = 8;
constexpr std::int64_t kBins = 256;
constexpr std::int64_t kKeyBytes = 8;

std::int64_t temporary(std::int64_t parts_bytes) { return parts_bytes + kAlign - 1; }

// Onesweep: 256 bins of 8 B a pass, a look-back of 256 counters of 4 B a tile, second buffers of keys and values where
// one pass is not enough and the caller gives none, and counters.
std::int64_t sort_bytes(std::int64_t n, std::int64_t key_bits, const Gpu& gpu) {
  const std::int64_t tile = gpu.capability_major >= 9 ? 4608 : gpu.capability_major == 8 ? 3840 : 2816;
  const std::int64_t passes = ceil_div(key_bits, kBitsPerPass);
  const std::int64_t second_buffers = passes > 1 ? 2 * round_up(checked_mul(n, kKeyBytes), kAlign) : 0;
  return temporary(passes * kBins * 8 + ceil_div(n, tile) * kBins * 4 + second_buffers + round_up(passes * 4, kAlign));
}

}  // namespace

std::int64_t cub_sort_bytes(std::int64_t n, std::int64_t largest_key, const Gpu& gpu, PyTorchVersion pytorch) {
  // One block of 256 threads sorts 9 keys a thread without memory of its own (read off recordings: 1 byte up to 2304).
  constexpr std::int64_t kSingleTile = 256 * 9;
  if (n <= kSingleTile) return 1;
  // The key bits that can be set; 2.8 sorts all 64.
  const auto bits = static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(largest_key)));
  return sort_bytes(n, is_recent_cub(pytorch) ? bits : 64, gpu);
}

std::int64_t cub_sort_bytes(std::int64_t n, const Gpu& gpu) { return sort_bytes(n, 64, gpu); }

std::int64_t cub_scan_bytes(std::int64_t n, std::int64_t tile, PyTorchVersion pytorch, std::int64_t state_bytes) {
  const std::int64_t states = round_up((ceil_div(n, tile) + kStatePadding) * state_bytes, kAlign);
  // Recent cub aligns them as a temporary within the temporary.
  return temporary(is_recent_cub(pytorch) ? states + kAlign : states);
}

}  // namespace gpuplan

#include "estimator/distributed/nccl_buffers.h"

#include <algorithm>
#include <bit>

#include "estimator/base/integers.h"
#include "estimator/distributed/nccl_fabric.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kSimple = 4 * kMiB, kLowLatency = 512 << 10;
constexpr std::int64_t kLowLatency128 = std::int64_t{120} * 640 * 8 * 8;  // elements, threads, steps, bytes
constexpr std::int64_t kHead = 4096;                                      // ncclSendMem, ncclRecvMem

std::int64_t rounded(std::int64_t bytes) { return (bytes + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB); }

// Of one channel between two GPUs.
struct Connection {
  std::int64_t sender = 0, receiver = 0;
  std::int64_t both() const { return sender + receiver; }
};
Connection connection_of(const Gpu& gpu, bool nvlink) {
  const bool reads = nvlink && gpu.capability_major == 8 && gpu.capability_minor == 0;  // graph/paths.cc
  const std::int64_t of_sender = reads ? kSimple : 0;
  return {rounded(kHead + of_sender), rounded(kHead + kLowLatency + kLowLatency128 + kSimple - of_sender)};
}

std::int64_t channels_between_nodes(const NcclFabric& fabric) {
  // 16 of 24 A100s with eight adapters a node (nccl issue 820) and of 24 H100s (issue 1453), 2 of PCIe.
  return fabric.nvlink ? 16 : std::min<std::int64_t>(fabric.channels, 4);
}

// Of all GPUs of a node: NVLS_NCHANNELS, NVLS_CHUNKSIZE times 8 steps, and the flags beside each buffer.
std::int64_t switch_bytes(const NcclGroup& group, const Gpu& gpu, const NcclRelease& release, std::int64_t channels) {
  if (gpu.capability_major < 9 || release.minor < 18 || group.local_ranks < 3) return 0;
  const std::int64_t of_hopper = 16, flags = 2 * kMiB;
  std::int64_t used = of_hopper, buffer = kMiB;
  if (release.minor < 20) buffer = kSimple + flags;
  if (release.minor == 20) used = channels, buffer = kSimple + flags;
  if (release.minor == 21) used = channels, buffer = kMiB + flags;
  if (release.minor >= 26 && gpu.capability_major >= 10) used = group.ranks > group.local_ranks ? 32 : 24;
  return used * 2 * buffer * group.local_ranks;
}

void add_collectives(const NcclGroup& group, const Gpu& gpu, const NcclRelease& release, const NcclFabric& fabric,
                     NcclBuffers& sum) {
  const bool one_node = group.ranks <= group.local_ranks;
  const std::int64_t channels = one_node ? fabric.channels : channels_between_nodes(fabric);
  const Connection each = connection_of(gpu, fabric.nvlink);
  const std::int64_t ring = channels * each.both();
  const std::int64_t tree_end = group.ranks > 2 ? channels * each.receiver : 0;
  const std::int64_t tree_most = group.ranks > 2 ? channels * each.both() * (one_node ? 1 : 2) : 0;
  const std::int64_t of_switch = fabric.nvlink ? switch_bytes(group, gpu, release, channels) : 0;
  const bool chooses_switch = one_node || !release.connects_late();
  const bool has_tree = !release.connects_late() || !one_node;
  sum.least += ring + (release.connects_late() ? 0 : std::min(tree_end, channels * each.sender));
  sum.planned += ring + (has_tree ? tree_end : 0) + (chooses_switch ? of_switch : 0);
  sum.most += ring + tree_most + of_switch;
  if (release.connects_late()) return;
  const auto sends = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(channels)));
  const bool wide = fabric.nvlink && one_node && release.minor >= 16;
  const std::int64_t shared = sends * 16 * (wide ? 512 << 10 : 128 << 10);
  sum.least += shared, sum.planned += shared, sum.most += shared;
}

void add_peers(const NcclGroup& group, const Gpu& gpu, const NcclFabric& fabric, NcclBuffers& sum) {
  const bool one_node = group.ranks <= group.local_ranks;
  const std::int64_t most =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(fabric.channels, 1))));
  const std::int64_t channels = one_node && fabric.nvlink ? most : 2;
  const std::int64_t bytes = checked_mul(group.peers * channels, connection_of(gpu, fabric.nvlink).both());
  sum.least += bytes / std::max<std::int64_t>(channels, 1);  // a small message has one channel
  sum.planned += bytes, sum.most += bytes;
}

}  // namespace

NcclBuffers nccl_buffers(const NcclGroup& group, const Gpu& gpu, const NcclRelease& release) {
  NcclBuffers sum;
  if (group.ranks < 2) return sum;
  const NcclFabric none_named{true, 240e9, 24}, unknown_pcie{false, 0, 2};  // an A100's; the fewest channels
  const NcclFabric fabric =
      nccl_fabric(gpu, group.span()).value_or(has_nvlink(gpu, group.span()) ? none_named : unknown_pcie);
  if (group.collectives) add_collectives(group, gpu, release, fabric, sum);
  if (group.peers > 0) add_peers(group, gpu, fabric, sum);
  if (!fabric.nvlink) sum.least = 0;  // through the host's memory
  return sum;
}

}  // namespace gpuplan

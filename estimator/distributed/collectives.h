// Time of collectives on a link, by NCCL's ring algorithm. Bytes are those of the whole tensor, before a reduce-scatter
// or after an all-gather; seconds are for one call that all ranks start together.
#pragma once

#include <cstdint>
#include <optional>

#include "estimator/device/gpu.h"

namespace gpuplan {

enum class Collective : std::uint8_t { all_reduce, reduce_scatter, all_gather, broadcast, send, all_to_all };

struct Link {
  double bytes_per_second = 0;  // in one direction
  double latency_seconds = 0;   // a hop; 0 where it is not known
};

/// What one rank sends, and as much receives, in a ring of `ranks`: an all-reduce is a reduce-scatter and an
/// all-gather, 2 (n - 1) / n of the bytes; each half and a broadcast as much as passes through a rank.
double ring_bytes(Collective what, double bytes, std::int64_t ranks);
/// Those bytes over the link, and the hops: 2 (n - 1) of an all-reduce, n - 1 of the others.
double ring_seconds(Collective what, double bytes, std::int64_t ranks, const Link& link);

/// What connects GPUs. Unknown is absent.
struct Topology {
  std::int64_t gpus_per_node = 8;
  std::optional<Link> within_node;    // of one GPU
  std::optional<Link> between_nodes;  // of a node, all of its adapters together
};

/// NVLink where the GPU has one (half of what is published for both directions together), else its PCIe link, over
/// which peers reach each other at most at that rate. Absent where neither is known.
std::optional<Link> link_within_node(const Gpu& gpu);

/// The narrowest link of a ring of `ranks` GPUs, of which neighbours are `stride` apart: within a node while all are in
/// one, else a node's network, shared by the groups that have members in it. Absent where that link is not known.
std::optional<Link> link_of_group(const Topology& topology, std::int64_t ranks, std::int64_t stride = 1);

}  // namespace gpuplan

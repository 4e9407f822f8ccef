// Time of collectives on a link, by NCCL's ring algorithm. Bytes are those of the whole tensor, before a reduce-scatter
// or after an all-gather; seconds are for calls that all ranks start together.
#pragma once

#include <cstdint>
#include <optional>

#include "estimator/device/gpu.h"

namespace gpuplan {

enum class Collective : std::uint8_t { all_reduce, reduce_scatter, all_gather, broadcast, send, all_to_all };

/// What NCCL's own model knows latencies of; `given`: a rate that somebody says, of whatever it is.
enum class Medium : std::uint8_t { given, nvlink, pcie, network };

struct Link {
  double bytes_per_second = 0;  // in one direction
  double latency_seconds = 0;   // a hop of what is given; 0 where it is not known
  Medium medium = Medium::given;
  Medium inside = Medium::given;  // of a ring through several nodes: what is within them; `given` has no latency
  std::int64_t nodes = 1;         // that a ring goes through
  double most_of_ll = 0;          // bytes a second that LL carries at most, where the medium is known
  bool has_ll128 = false;         // over NVLink: of GPUs of capability 7.0 or more
};

/// What one rank sends, and as much receives, in a ring of `ranks`: an all-reduce is a reduce-scatter and an
/// all-gather, 2 (n - 1) / n of the bytes; each half and a broadcast as much as passes through a rank.
double ring_bytes(Collective what, double bytes, std::int64_t ranks);
/// Those bytes, of so many calls together, over the link, and the hops: 2 (n - 1) of an all-reduce, n - 1 of the
/// others. Where the medium is known, what NCCL itself counts with when it chooses a protocol (src/graph/tuning.cc,
/// ncclTopoTuneModel; 2.27 to 2.30): of LL, LL128 and Simple the fastest at the size of a call, each with what a call
/// and a hop take and its share of the link's rate. Earlier releases differ: LL128 is not of 7.5, 8.6 and 8.9 until
/// 2.26; an all-reduce has two more hops over the network, and one rank a node no latency of its own, until 2.22; LL
/// has less of the rate, and 87.7 GB/s at most on Hopper, until 2.20.
///
/// Left out is what else the model has: trees, NVLS and PAT, which are faster for small calls or where switches add up;
/// of rings through several nodes 1.4 times the latency of Simple (1.9 before Ampere) for large all-reduces, the least
/// that a hop within a node takes (1 us of an Intel host, 3 of Simple), and an adapter's own latency; and that a
/// broadcast has a hop for each rank.
double ring_seconds(Collective what, double bytes, std::int64_t ranks, const Link& link, std::int64_t calls = 1);

/// What connects GPUs. Unknown is absent.
struct Topology {
  std::int64_t gpus_per_node = 8;
  std::optional<Link> within_node;    // of one GPU
  std::optional<Link> within_pair;    // of two neighbours, where they have a better one
  std::optional<Link> between_nodes;  // of a node, all of its adapters together
};

/// NVLink where `gpus` of a node have it, else PCIe, at the rate that NCCL's rings reach (nccl_fabric.h). Its
/// maintainers say so of H100s: 370 GB/s of 450 (github.com/NVIDIA/nccl-tests/issues/212). Absent where neither is
/// known.
std::optional<Link> link_within_node(const Gpu& gpu, std::int64_t gpus);
/// The bridge that joins two PCIe cards; absent where all GPUs of a node have the same link.
std::optional<Link> link_within_pair(const Gpu& gpu);
/// A node's adapters together, in Gbit/s as published.
Link network_link(double gbit_per_second);

/// The narrowest link of a ring of `ranks` GPUs, of which neighbours are `stride` apart: a bridge where it joins two
/// that are side by side, what is within a node while all are in one, else a node's network, shared by the groups that
/// have members in it. Absent where that link is not known.
std::optional<Link> link_of_group(const Topology& topology, std::int64_t ranks, std::int64_t stride = 1);

}  // namespace gpuplan

#include "estimator/distributed/collectives.h"

#include <algorithm>
#include <limits>

#include "estimator/distributed/nccl_fabric.h"

namespace gpuplan {
namespace {

// Microseconds that a call of a ring takes, and each of its hops over NVLink, PCIe and a network: baseLat and hwLat of
// src/graph/tuning.cc. `alone`: over the network where a node has one rank, for which the Tree's is taken. `share`: of
// the link's rate.
struct Protocol {
  double share, call, nvlink, pcie, network, alone;
};
constexpr Protocol kLL{0.5, 6.6, 0.6, 1.0, 2.7, 5.0}, kLL128{0.92, 14.0, 1.9, 2.5, 4.0, 8.5},
    kSimple{1, 8.4, 3.4, 5.7, 14.0, 14.0};
constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// llMaxBws of the same file: of one node by the GPU's generation, of several by their number and the host's processors,
// which are taken to be Intel's (AMD's: 22.5 and 19).
constexpr double kMostOfLLOnVolta = 39e9, kMostOfLLOnAmpere = 87.7e9, kMostOfLLOnHopper = 141e9,
                 kMostOfLLOnBlackwell = 282e9, kMostOfLLOfTwoNodes = 39e9, kMostOfLLOfMoreNodes = 20.4e9;

double most_of_ll(const Gpu& gpu) {
  if (gpu.capability_major >= 10) return kMostOfLLOnBlackwell;
  if (gpu.capability_major >= 9) return kMostOfLLOnHopper;
  return gpu.capability_major >= 8 ? kMostOfLLOnAmpere : kMostOfLLOnVolta;
}

// Of what is given, no latency is known.
double hop_of(const Protocol& p, Medium medium) {
  if (medium == Medium::given) return 0;
  return medium == Medium::nvlink ? p.nvlink : p.pcie;
}

bool is_sent(Collective what) { return what == Collective::send || what == Collective::all_to_all; }

// Of a ring through several nodes, those over the network: nInterSteps of ncclTopoTuneModel.
double far_hops(Collective what, double hops, const Link& link) {
  if (link.medium != Medium::network) return 0;
  if (is_sent(what)) return hops;
  const auto between = static_cast<double>(link.nodes - 1);
  return std::min(hops, what == Collective::all_reduce ? 2 * between : between);
}

// What is sent is Simple: LL is for 16 KiB a channel at most (src/enqueue.cc, NCCL_P2P_LL_THRESHOLD), and left out.
double fastest_call(Collective what, double sent, double hops, std::int64_t ranks, const Link& link) {
  const Medium inside = link.medium == Medium::network ? link.inside : link.medium;
  const double far = far_hops(what, hops, link);
  const bool alone = ranks <= link.nodes;
  const auto seconds = [&](const Protocol& p, double most) {
    const double waits = p.call + (hops - far) * hop_of(p, inside) + far * (alone ? p.alone : p.network);
    return waits * 1e-6 + sent / std::min(link.bytes_per_second * p.share, most);
  };
  double fastest = seconds(kSimple, kUnlimited);
  if (is_sent(what)) return fastest;
  fastest = std::min(fastest, seconds(kLL, link.most_of_ll));
  return inside == Medium::nvlink && link.has_ll128 ? std::min(fastest, seconds(kLL128, kUnlimited)) : fastest;
}

}  // namespace

double ring_bytes(Collective what, double bytes, std::int64_t ranks) {
  if (ranks < 2) return 0;
  const auto n = static_cast<double>(ranks);
  switch (what) {
    case Collective::all_reduce: return 2 * (n - 1) / n * bytes;
    case Collective::reduce_scatter:
    case Collective::all_to_all:
    case Collective::all_gather: return (n - 1) / n * bytes;
    case Collective::broadcast:
    case Collective::send: break;
  }
  return bytes;
}

double ring_seconds(Collective what, double bytes, std::int64_t ranks, const Link& link, std::int64_t calls) {
  if (ranks < 2) return 0;
  const auto n = static_cast<double>(ranks), times = static_cast<double>(std::max<std::int64_t>(calls, 1));
  double hops = n - 1;
  if (what == Collective::all_reduce) hops = 2 * (n - 1);
  if (is_sent(what)) hops = 1;
  const double sent = ring_bytes(what, bytes, ranks);
  if (link.medium != Medium::given) return times * fastest_call(what, sent / times, hops, ranks, link);
  if (what == Collective::all_to_all) hops = n - 1;
  return sent / link.bytes_per_second + times * hops * link.latency_seconds;
}

std::optional<Link> link_within_node(const Gpu& gpu, std::int64_t gpus) {
  const std::optional<NcclFabric> fabric = nccl_fabric(gpu, gpus);
  if (!fabric) return std::nullopt;
  return Link{.bytes_per_second = fabric->bytes_per_second,
              .medium = fabric->nvlink ? Medium::nvlink : Medium::pcie,
              .most_of_ll = most_of_ll(gpu),
              .has_ll128 = gpu.capability_major >= 7};  // minCompCap of ncclTopoTuneModel
}

std::optional<Link> link_within_pair(const Gpu& gpu) {
  return has_nvlink(gpu, 2) && !has_nvlink(gpu, 3) ? link_within_node(gpu, 2) : std::nullopt;
}

Link network_link(double gbit_per_second) {
  return {.bytes_per_second = gbit_per_second * 1e9 / 8, .medium = Medium::network, .most_of_ll = kMostOfLLOfMoreNodes};
}

std::optional<Link> link_of_group(const Topology& topology, std::int64_t ranks, std::int64_t stride) {
  const std::int64_t span = (ranks - 1) * stride + 1;
  if (span == 2 && topology.gpus_per_node > 1 && topology.within_pair) return topology.within_pair;
  if (span <= topology.gpus_per_node) return topology.within_node;
  if (!topology.between_nodes) return std::nullopt;
  const std::int64_t members = std::max<std::int64_t>(1, topology.gpus_per_node / stride);  // in each node
  Link link = *topology.between_nodes;
  link.nodes = (ranks + members - 1) / members;
  link.most_of_ll = link.nodes > 2 ? kMostOfLLOfMoreNodes : kMostOfLLOfTwoNodes;
  if (topology.within_node) {
    link.inside = topology.within_node->medium;
    link.has_ll128 = topology.within_node->has_ll128;
  }
  link.bytes_per_second *= static_cast<double>(members) / static_cast<double>(topology.gpus_per_node);
  if (members > 1) {
    if (!topology.within_node) return std::nullopt;
    link.bytes_per_second = std::min(link.bytes_per_second, topology.within_node->bytes_per_second);
  }
  return link;
}

}  // namespace gpuplan

#include "estimator/distributed/collectives.h"

#include <algorithm>

#include "estimator/distributed/nccl_fabric.h"

namespace gpuplan {
namespace {

// Microseconds that a call of a ring takes, and each of its hops over NVLink, PCIe and a network: baseLat and hwLat of
// src/graph/tuning.cc. `share`: of the link's rate.
struct Protocol {
  double share, call, nvlink, pcie, network;
};
constexpr Protocol kLL{0.5, 6.6, 0.6, 1.0, 2.7}, kLL128{0.92, 14.0, 1.9, 2.5, 4.0}, kSimple{1, 8.4, 3.4, 5.7, 14.0};

// llMaxBws of the same file, of one node by the GPU's generation, and of several.
constexpr double kMostOfLLOnVolta = 39e9, kMostOfLLOnAmpere = 87.7e9, kMostOfLLOnHopper = 141e9,
                 kMostOfLLBetweenNodes = 20.4e9;

double hop_of(const Protocol& p, Medium medium) {
  if (medium == Medium::network) return p.network;
  return medium == Medium::nvlink ? p.nvlink : p.pcie;
}

// Of a ring through several nodes two hops a node are the network's in an all-reduce, and one for each but one in
// others. LL128 needs NVLink. Sends are Simple.
double fastest_call(Collective what, double sent, double hops, const Link& link) {
  const Medium inside = link.medium == Medium::network && link.inside != Medium::given ? link.inside : link.medium;
  const auto nodes = static_cast<double>(link.nodes);
  const double far = link.medium != Medium::network   ? 0
                     : hops <= 1                      ? hops
                     : what == Collective::all_reduce ? std::min(hops, 2 * nodes)
                                                      : std::min(hops, nodes - 1);
  const auto seconds = [&](const Protocol& p) {
    const double waits = p.call + (hops - far) * hop_of(p, inside) + far * p.network;
    const double rate = link.bytes_per_second * p.share;
    return waits * 1e-6 + sent / (p.share == kLL.share ? std::min(rate, link.most_of_ll) : rate);
  };
  double fastest = seconds(kSimple);
  if (what == Collective::send || what == Collective::all_to_all) return fastest;
  fastest = std::min(fastest, seconds(kLL));
  return inside == Medium::nvlink ? std::min(fastest, seconds(kLL128)) : fastest;
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
  if (what == Collective::send || what == Collective::all_to_all) hops = 1;
  const double sent = ring_bytes(what, bytes, ranks);
  if (link.medium != Medium::given) return times * fastest_call(what, sent / times, hops, link);
  if (what == Collective::all_to_all) hops = n - 1;
  return sent / link.bytes_per_second + times * hops * link.latency_seconds;
}

std::optional<Link> link_within_node(const Gpu& gpu, std::int64_t gpus) {
  const std::optional<NcclFabric> fabric = nccl_fabric(gpu, gpus);
  if (!fabric) return std::nullopt;
  return Link{.bytes_per_second = fabric->bytes_per_second,
              .medium = fabric->nvlink ? Medium::nvlink : Medium::pcie,
              .most_of_ll = gpu.capability_major >= 9   ? kMostOfLLOnHopper
                            : gpu.capability_major >= 8 ? kMostOfLLOnAmpere
                                                        : kMostOfLLOnVolta};
}

Link network_link(double gbit_per_second) {
  return {
      .bytes_per_second = gbit_per_second * 1e9 / 8, .medium = Medium::network, .most_of_ll = kMostOfLLBetweenNodes};
}

std::optional<Link> link_of_group(const Topology& topology, std::int64_t ranks, std::int64_t stride) {
  const std::int64_t span = (ranks - 1) * stride + 1;
  if (span <= topology.gpus_per_node) return topology.within_node;
  if (!topology.between_nodes) return std::nullopt;
  const std::int64_t members = std::max<std::int64_t>(1, topology.gpus_per_node / stride);  // in each node
  Link link = *topology.between_nodes;
  link.nodes = (ranks + members - 1) / members;
  if (topology.within_node) link.inside = topology.within_node->medium;
  link.bytes_per_second *= static_cast<double>(members) / static_cast<double>(topology.gpus_per_node);
  if (members > 1) {
    if (!topology.within_node) return std::nullopt;
    link.bytes_per_second = std::min(link.bytes_per_second, topology.within_node->bytes_per_second);
  }
  return link;
}

}  // namespace gpuplan

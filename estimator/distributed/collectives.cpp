#include "estimator/distributed/collectives.h"

#include <algorithm>

namespace gpuplan {

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

double ring_seconds(Collective what, double bytes, std::int64_t ranks, const Link& link) {
  if (ranks < 2) return 0;
  const auto n = static_cast<double>(ranks);
  double hops = n - 1;
  if (what == Collective::all_reduce) hops = 2 * (n - 1);
  if (what == Collective::send) hops = 1;
  return ring_bytes(what, bytes, ranks) / link.bytes_per_second + hops * link.latency_seconds;
}

std::optional<Link> link_within_node(const Gpu& gpu) {
  if (!gpu.datasheet) return std::nullopt;
  if (gpu.datasheet->nvlink_gb_s) return Link{*gpu.datasheet->nvlink_gb_s * 1e9 / 2, 0};
  if (gpu.datasheet->host_link_gb_s) return Link{*gpu.datasheet->host_link_gb_s * 1e9, 0};
  return std::nullopt;
}

std::optional<Link> link_of_group(const Topology& topology, std::int64_t ranks, std::int64_t stride) {
  const std::int64_t span = (ranks - 1) * stride + 1;
  if (span <= topology.gpus_per_node) return topology.within_node;
  if (!topology.between_nodes) return std::nullopt;
  const std::int64_t members = std::max<std::int64_t>(1, topology.gpus_per_node / stride);  // in each node
  Link link = *topology.between_nodes;
  link.bytes_per_second *= static_cast<double>(members) / static_cast<double>(topology.gpus_per_node);
  if (members > 1) {
    if (!topology.within_node) return std::nullopt;
    link.bytes_per_second = std::min(link.bytes_per_second, topology.within_node->bytes_per_second);
  }
  return link;
}

}  // namespace gpuplan

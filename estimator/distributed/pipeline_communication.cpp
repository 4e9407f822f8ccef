#include "estimator/distributed/pipeline_communication.h"

#include <algorithm>

#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

CommunicationRow neighbour_row(std::string_view what, std::int64_t bytes, std::int64_t micro_batches, Phase beside,
                               const std::optional<Link>& link) {
  CommunicationRow row{what, Collective::send, checked_mul(bytes, micro_batches), 0, std::nullopt, beside, 0};
  row.sent_bytes = row.bytes;
  if (link)
    row.seconds =
        static_cast<double>(micro_batches) * ring_seconds(Collective::send, static_cast<double>(bytes), 2, *link);
  return row;
}

}  // namespace

std::optional<Link> link_to_next_stage(const Strategy& strategy, std::int64_t stage, const Topology& topology) {
  const std::int64_t width = strategy.ranks() * strategy.tensor, node = topology.gpus_per_node;
  const std::int64_t from = stage * width + strategy.rank * strategy.tensor;
  if (from / node == (from + width) / node) return topology.within_node;
  if (!topology.between_nodes) return std::nullopt;
  Link link = *topology.between_nodes;
  link.bytes_per_second /= static_cast<double>(std::min(width, node));
  return link;
}

std::int64_t received_bytes(const RankStep& step) {
  if (step.strategy.pipelining.stage == 0) return 0;
  return step.graph.buffers[index(buffer_of(step.graph, step.graph.inputs.front()))].bytes;
}

std::int64_t sent_on_bytes(const RankStep& step) {
  if (step.strategy.pipelining.stage + 1 == step.strategy.pipeline) return 0;
  return step.graph.buffers[index(buffer_of(step.graph, step.graph.output))].bytes;
}

std::vector<CommunicationRow> stage_rows(const RankStep& step, const Topology& topology) {
  const Strategy& strategy = step.strategy;
  std::vector<CommunicationRow> rows;
  const std::int64_t stage = strategy.pipelining.stage, micro_batches = step.run.micro_batches;
  if (const std::int64_t bytes = sent_on_bytes(step); bytes > 0)
    rows.push_back(neighbour_row("hidden states, to the next stage", bytes, micro_batches, Phase::forward,
                                 link_to_next_stage(strategy, stage, topology)));
  if (const std::int64_t bytes = received_bytes(step); bytes > 0)
    rows.push_back(neighbour_row("their gradients, to the stage before", bytes, micro_batches, Phase::backward,
                                 link_to_next_stage(strategy, stage - 1, topology)));
  return rows;
}

}  // namespace gpuplan

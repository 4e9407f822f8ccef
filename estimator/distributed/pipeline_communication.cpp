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
  const auto gpu_of = [&](std::int64_t s) { return strategy.place_of(s) * width + strategy.rank * strategy.tensor; };
  if (gpu_of(stage) / node == gpu_of(stage + 1) / node) return topology.within_node;
  if (!topology.between_nodes) return std::nullopt;
  Link link = *topology.between_nodes;
  link.bytes_per_second /= static_cast<double>(std::min(width, node));
  return link;
}

std::int64_t received_bytes(const RankStep& step, const RankStage& stage) {
  if (!stage.first && step.strategy.place_of(stage.number - 1) == step.strategy.pipelining.stage) return 0;
  return stage.first ? 0 : step.schedule().buffers[index(stage.states)].bytes;
}

std::int64_t sent_on_bytes(const RankStep& step, const RankStage& stage) {
  if (!stage.last && step.strategy.place_of(stage.number + 1) == step.strategy.pipelining.stage) return 0;
  return stage.last ? 0 : step.schedule().buffers[index(stage.loss)].bytes;
}

std::vector<CommunicationRow> stage_rows(const RankStep& step, const Topology& topology) {
  std::vector<CommunicationRow> rows;
  const auto to_next = [&](std::int64_t number) { return link_to_next_stage(step.strategy, number, topology); };
  const std::int64_t parts = step.run.micro_batches;
  for (const RankStage& stage : step.stages)
    if (const std::int64_t bytes = sent_on_bytes(step, stage); bytes > 0)
      add_row(rows,
              neighbour_row("hidden states, to the next stage", bytes, parts, Phase::forward, to_next(stage.number)));
  for (const RankStage& stage : step.stages)
    if (const std::int64_t bytes = received_bytes(step, stage); bytes > 0)
      add_row(rows, neighbour_row("their gradients, to the stage before", bytes, parts, Phase::backward,
                                  to_next(stage.number - 1)));
  return rows;
}

}  // namespace gpuplan

#include "estimator/parallel/communication.h"

#include <algorithm>
#include <array>

#include "estimator/parallel/unused_parameters.h"

namespace gpuplan {
namespace {

constexpr std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

std::int64_t parameter_bytes(const Graph& graph, bool trained) {
  std::int64_t bytes = 0;
  for (const ParameterTensor& p : graph.parameters) {
    if (trained && !p.trainable) continue;
    const Tensor& t = graph.tensor(p.tensor);
    bytes += t.shape.elements() * size_of(t.dtype);
  }
  return bytes;
}

// DeepSpeed's defaults, elements.
constexpr std::int64_t kPrefetchedElements = 50'000'000, kReducedElements = 500'000'000;

// See CommunicationRow.
struct Hidden {
  std::optional<Phase> beside;
  std::int64_t alone_bytes = 0;
};

std::int64_t largest_parameter_type(const Graph& graph) {
  std::int64_t size = 0;
  for (const ParameterTensor& p : graph.parameters) size = std::max(size, size_of(graph.tensor(p.tensor).dtype));
  return size;
}

}  // namespace

std::string_view name_of(Collective collective) {
  constexpr std::array<std::string_view, 5> names = {"all-reduce", "reduce-scatter", "all-gather", "broadcast", "send"};
  return names[static_cast<std::size_t>(collective)];
}

std::vector<CommunicationRow> communication(const Graph& graph, const Schedule& schedule,
                                            std::span<const FsdpUnit> units, const Strategy& strategy,
                                            std::int64_t micro_batches, const Topology& topology) {
  const std::int64_t ranks = strategy.ranks();
  const std::optional<Link> link = link_of_group(topology, ranks, strategy.tensor);
  std::vector<CommunicationRow> rows;
  const auto add = [&](std::string_view what, Collective collective, std::int64_t bytes, const Hidden& hidden = {}) {
    if (bytes == 0 || ranks < 2) return;
    CommunicationRow row{what, collective, bytes, 0, std::nullopt, hidden.beside, 0};
    row.alone_bytes = std::min(bytes, hidden.alone_bytes);
    row.sent_bytes = static_cast<std::int64_t>(ring_bytes(collective, static_cast<double>(bytes), ranks));
    if (link) row.seconds = ring_seconds(collective, static_cast<double>(bytes), ranks, *link);
    rows.push_back(row);
  };
  const std::int64_t parameters = parameter_bytes(graph, false), gradients = parameter_bytes(graph, true);
  std::int64_t buffers = 0;
  for (const TensorId t : graph.model_storage)
    if (const Buffer& b = graph.buffers[index(graph.tensor(t).buffer)]; b.category == Category::buffers)
      buffers += b.bytes;

  switch (strategy.data) {
    case DataParallel::none: break;
    case DataParallel::ddp:
    case DataParallel::zero1: {
      add("buffers", Collective::broadcast, buffers);
      add(kGradientsRow, Collective::all_reduce, gradients);
      if (strategy.find_unused_parameters) add("which are used", Collective::all_reduce, unused_map_bytes(graph));
      if (strategy.data == DataParallel::zero1) add("parameters", Collective::broadcast, gradients);
      break;
    }
    case DataParallel::zero2:
      add(kGradientsRow, Collective::reduce_scatter, gradients * micro_batches);  // it keeps a part of them only
      add("parameters", Collective::all_gather, gradients);
      break;
    case DataParallel::zero3: {
      const std::int64_t type = largest_parameter_type(graph) * micro_batches;
      const Hidden ahead{Phase::forward, kPrefetchedElements * type};
      add(kForwardGathersRow, Collective::all_gather, parameters * micro_batches, ahead);
      add(kBackwardGathersRow, Collective::all_gather, parameters * micro_batches, {Phase::backward, 0});
      add(kGradientsRow, Collective::reduce_scatter, gradients * micro_batches,
          {Phase::backward, kReducedElements * type});
      break;
    }
    case DataParallel::fsdp: {
      std::int64_t forward = 0, backward = 0, reduced = 0;
      for (const FsdpUnit& unit : units) {
        const std::int64_t whole = gathered_bytes(graph, unit, ranks);
        forward += whole;
        if (strategy.reshard_after_forward && !unit.path.empty()) backward += whole;
        reduced += reduced_bytes(graph, schedule, unit, ranks);
      }
      add(kForwardGathersRow, Collective::all_gather, forward * micro_batches);
      add(kBackwardGathersRow, Collective::all_gather, backward * micro_batches);
      add(kGradientsRow, Collective::reduce_scatter, reduced * micro_batches);
      break;
    }
  }
  return rows;
}

}  // namespace gpuplan

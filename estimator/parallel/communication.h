// What a step of data parallelism sends, and how long the links take for it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "estimator/graph/graph.h"
#include "estimator/parallel/collectives.h"
#include "estimator/parallel/fsdp_units.h"
#include "estimator/parallel/strategy.h"

namespace gpuplan {

struct CommunicationRow {
  std::string_view what;  // "gradients", "parameters, forward", "parameters, backward", "buffers"
  Collective collective = Collective::all_reduce;
  std::int64_t bytes = 0;         // of the whole tensors, a step
  std::int64_t sent_bytes = 0;    // by one rank, and as many received
  std::optional<double> seconds;  // of all of them one after another; nothing where the link is not known
};
std::string_view name_of(Collective collective);

/// Rows of a step. DDP, ZeRO-1 and 2 reduce once a step (with no_sync() for all micro-batches but the last), FSDP2 and
/// ZeRO-3 gather and reduce with every micro-batch. ZeRO-1 (ZeroRedundancyOptimizer) sends each updated parameter from
/// its owner. `units`: FSDP2's.
std::vector<CommunicationRow> communication(const Graph& graph, std::span<const FsdpUnit> units,
                                            const Strategy& strategy, std::int64_t micro_batches,
                                            const Topology& topology);

/// Step time on one GPU over what it takes per GPU with `communication_seconds` of sending, of which backward, that
/// long, hides all but the last part where it can: 1 is perfect. Nothing is hidden beyond `hidden_by_seconds`.
double scaling_efficiency(double step_seconds, double communication_seconds, double hidden_by_seconds);

}  // namespace gpuplan

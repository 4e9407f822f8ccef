#include "estimator/time/time_rank.h"

#include <algorithm>

#include "estimator/distributed/fsdp_units.h"
#include "estimator/distributed/rank_share.h"
#include "estimator/distributed/transfers.h"
#include "estimator/graph/build.h"
#include "estimator/optimizer/optimizer_work.h"
#include "estimator/time/measured_time.h"
#include "estimator/time/operation_time.h"
#include "estimator/time/step_time.h"

namespace gpuplan {
namespace {

StepUpdate update_of(const Graph& graph, const Schedule& schedule, const RunConfig& run, const Gpu& gpu) {
  return step_update(graph, schedule, optimizer_work(graph, schedule, run, gpu));
}

StepUpdate update_of_rank(const Graph& graph, const Schedule& schedule, const RunConfig& run, const Gpu& gpu,
                          const Strategy& strategy) {
  const SteppedShare own = stepped_by(graph, schedule, strategy);
  return update_of(own.graph, own.schedule, run, gpu);
}

}  // namespace

std::optional<RankTime> time_rank(const Model& model, Catalog catalog, const RunConfig& whole, const Strategy& strategy,
                                  std::span<const CommunicationRow> communication, const Gpu& gpu, HostCopy copy,
                                  const TimeModel& constants) {
  if (!why_no_time(whole, gpu, copy).empty() ||
      !std::ranges::all_of(communication, [](const CommunicationRow& row) { return row.seconds.has_value(); }))
    return std::nullopt;
  const RunConfig run = run_of_rank(whole, strategy);
  const Graph graph = build_graph(model, catalog, run, gpu);
  const Passes passes = make_passes(graph, run, gpu);
  const Schedule& first = passes.schedules.front();
  auto own = timed_step(graph, passes, update_of_rank(graph, first, run, gpu, strategy), run, gpu, copy, constants);
  const auto alone = step_time(graph, passes, update_of(graph, first, run, gpu), run, gpu, copy, constants);
  if (!own || !alone) return std::nullopt;
  const Schedule& last = passes.schedules.back();
  std::vector<FsdpUnit> units;
  if (strategy.data == DataParallel::fsdp) units = fsdp_units(model, catalog, run, gpu, graph, last, strategy);
  const Processor on = make_processor(gpu, constants);
  const auto copying = [&](std::int64_t bytes) -> StepWork {
    const double moved = 2 * static_cast<double>(bytes);
    return {constants.host_backward, kernel_seconds(on) + moved / achieved_bandwidth(2 * bytes, on)};
  };
  return rank_time(communication, own->time, alone->seconds(),
                   {transfers(graph, last, units, strategy), std::move(own->last_micro_batch), copying});
}

}  // namespace gpuplan

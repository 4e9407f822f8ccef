#include "tools/answers/mesh_planner.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"
#include "estimator/search/device_bytes.h"
#include "estimator/search/figures.h"
#include "layers/catalog.h"
#include "tools/answers/every_rank.h"
#include "tools/answers/every_stage.h"
#include "tools/answers/shared_planning.h"
#include "tools/options/words.h"

namespace gpuplan {
namespace {

class WayPlanner {
 public:
  WayPlanner(const MeshQuestion& question, const MeshWay& way) : question_(question), way_(way), run_(question.run) {
    if (!way.checkpoint.empty()) run_.checkpoint = way.checkpoint;
    strategy_ = strategy_of(way.several).value_or(Strategy{});
    if (sharing_of(run_, strategy_) == Sharing::formulas)
      throw Error("its layers are not shared as transformers shares those of decoders", ErrorKind::usage);
  }

  SweepRow row() {
    if (!question_.micro_batches || !question_.run.micro_batches.empty()) return planned(question_.run.micro_batches);
    return strategy_.runs_stages() ? fastest() : fewest();
  }

  std::optional<FittingWay> fitting() {
    const bool asks = question_.micro_batches && question_.run.micro_batches.empty();
    std::optional<SweepRow> found;
    if (asks && !strategy_.runs_stages())
      found = fewest_fitting();
    else if (!asks || stages_fit())
      found = row();
    if (!found || !found->figures->fits) return std::nullopt;
    return FittingWay{way_, asks ? parts_ : "", *std::move(found->figures)};
  }

  SweepFigures worst(const std::string& micro_batches) const {
    RunOptions run = run_;
    if (!micro_batches.empty()) run.micro_batches = micro_batches;
    const auto [planning, strategy] = prepare_shared(run, way_.several);
    const Topology topology = topology_of(way_.several, planning.gpu);
    if (!strategy) return one_gpu(planning);
    if (strategy->runs_stages()) return stages(planning, *strategy, topology);
    return shared(planning, plan_worst_rank(planning, *strategy, topology));
  }

 private:
  std::int64_t samples() const {
    return question_.run.batch.empty() ? 1 : whole_number("--batch", question_.run.batch, 1, INT64_MAX);
  }

  // As few micro-batches as fit; else as many as there can be. More of them need less, so that their number is halved
  // in between.
  SweepRow fewest() {
    SweepRow row = of_parts(0);
    std::int64_t most = most_doublings();
    if (row.figures->fits || most == 0) return row;
    row = of_parts(most);
    if (!row.figures->fits) return row;
    for (std::int64_t too_few = 0; most - too_few > 1;) {
      const std::int64_t middle = (too_few + most) / 2;
      SweepRow between = of_parts(middle);
      (between.figures->fits ? most : too_few) = middle;
      if (between.figures->fits) row = std::move(between);
    }
    return row;
  }

  // The first of the few that fit as well: what a step takes follows from the size of a micro-batch, and more than two
  // of them only take longer to plan.
  std::optional<SweepRow> fewest_fitting() {
    std::int64_t most = most_doublings(), too_few = -1;
    if (!two_parts_fit(most)) return std::nullopt;
    while (most - too_few > 1) {
      const std::int64_t middle = too_few < 0 ? 0 : (too_few + most) / 2;
      (two_parts_fit(middle) ? most : too_few) = middle;
    }
    for (; most <= most_doublings(); ++most)
      if (SweepRow row = of_parts(most); row.figures->fits) return row;
    return std::nullopt;
  }
  std::int64_t most_doublings() const {
    std::int64_t most = 0;
    while (samples() % (strategy_.ranks() << (most + 1)) == 0) ++most;
    return most;
  }
  bool two_parts_fit(std::int64_t doublings) {
    const std::int64_t parts = std::int64_t{1} << doublings, planned = std::min<std::int64_t>(parts, 2);
    RunOptions run = run_;
    run.batch = std::to_string(samples() / parts * planned);
    run.micro_batches = planned > 1 ? std::to_string(planned) : "";
    const auto [planning, strategy] = prepare_shared(run, way_.several);
    return device_bytes(make_plan(planning.model, make_catalog(), planning.run, &*planning.gpu,
                                  strategy.value_or(Strategy{}))) <= usable_bytes(*planning.gpu);
  }
  SweepRow of_parts(std::int64_t doublings) {
    return planned(doublings == 0 ? "" : std::to_string(std::int64_t{1} << doublings));
  }

  static constexpr std::int64_t kMostRounds = 8;  // a bubble of an eighth; more of them only make kernels smaller
  // More of them fill the pipeline, and make kernels small; fewer than stages 1F1B refuses. The first stage, which has
  // the most in flight, says at once where they are too few.
  SweepRow fastest() {
    std::optional<SweepRow> best;
    std::int64_t last = strategy_.pipeline;
    const std::int64_t most = kMostRounds * strategy_.pipeline;
    for (std::int64_t parts = last; parts <= most && samples() % (strategy_.ranks() * parts) == 0; parts *= 2) {
      last = parts;
      if (!first_stage_fits(parts)) continue;
      SweepRow row = planned(std::to_string(parts));
      if (best && best->figures->fits && !faster(row, *best)) break;
      best = std::move(row);
    }
    return best ? *std::move(best) : planned(std::to_string(last));
  }

  // With any number of micro-batches.
  bool stages_fit() {
    bool fits = false;
    for (std::int64_t parts = strategy_.pipeline; !fits && parts <= kMostRounds * strategy_.pipeline; parts *= 2)
      fits = samples() % (strategy_.ranks() * parts) == 0 && first_stage_fits(parts);
    return fits;
  }

  static bool faster(const SweepRow& a, const SweepRow& b) {
    return a.figures->samples_per_second.value_or(0) > b.figures->samples_per_second.value_or(0);
  }

  // What it holds follows from the size of a micro-batch and how many are in flight: as many as there are stages do.
  bool first_stage_fits(std::int64_t parts) {
    RunOptions run = run_;
    run.batch = std::to_string(samples() / parts * strategy_.pipeline);
    run.micro_batches = std::to_string(strategy_.pipeline);
    auto [planning, strategy] = prepare_shared(run, way_.several);
    strategy->pipelining.stage = 0;
    return device_bytes(make_plan(planning.model, make_catalog(), planning.run, &*planning.gpu, *strategy)) <=
           usable_bytes(*planning.gpu);
  }

  SweepRow planned(const std::string& micro_batches) {
    RunOptions run = run_;
    run.micro_batches = micro_batches;
    const auto [planning, strategy] = prepare_shared(run, way_.several);
    const Topology topology = topology_of(way_.several, planning.gpu);
    SweepRow row;
    parts_ = micro_batches;
    row.values = {flags_of(way_, question_.run.micro_batches.empty() ? micro_batches : "")};
    row.figures = !strategy                 ? one_gpu(planning)
                  : strategy->runs_stages() ? stages(planning, *strategy, topology)
                                            : ranks(planning, *strategy, topology);
    return row;
  }

  static SweepFigures one_gpu(const Planning& planning) {
    const Report report = make_report(planning);
    SweepFigures f = sweep_figures(report);
    if (!report.time || report.time->seconds() <= 0) return f;
    f.step_seconds = report.time->seconds();
    f.samples_per_second = static_cast<double>(planning.run.batch) / *f.step_seconds;
    return f;
  }

  static SweepFigures ranks(const Planning& planning, const Strategy& strategy, const Topology& topology) {
    const bool timed = !planning.gpu_is_limit;
    return rank_figures(planning.model, make_catalog(), planning.run, strategy, topology, &*planning.gpu,
                        timed ? std::optional(planning.copy) : std::nullopt)
        .figures;
  }

  static SweepFigures stages(const Planning& planning, const Strategy& strategy, const Topology& topology) {
    return shared(planning, plan_worst_stage(planning, strategy, topology));
  }

  static SweepFigures shared(const Planning& planning, const PlannedReport& worst) {
    SweepFigures f = sweep_figures(worst.report);
    f.sent_bytes = 0;
    for (const CommunicationRow& row : worst.report.rank->communication)
      f.sent_bytes = checked_add(*f.sent_bytes, row.sent_bytes);
    const std::optional<RankTime>& time = worst.report.rank->time;
    if (!time || time->step.seconds() <= 0) return f;
    f.step_seconds = time->step.seconds();
    f.samples_per_second = static_cast<double>(planning.run.batch) / time->step.seconds();
    f.communication_seconds = time->step.communication_seconds + time->step.bubble_seconds;
    f.scaling_efficiency = time->efficiency();
    return f;
  }

  const MeshQuestion& question_;
  const MeshWay& way_;
  RunOptions run_;
  Strategy strategy_;
  std::string parts_;  // micro-batches of the last row
};

}  // namespace

SweepRow planned_way(const MeshQuestion& question, const MeshWay& way) { return WayPlanner(question, way).row(); }

std::optional<FittingWay> fitting_way(const MeshQuestion& question, const MeshWay& way) {
  return WayPlanner(question, way).fitting();
}

SweepFigures figures_of_worst(const MeshQuestion& question, const FittingWay& fitting) {
  return WayPlanner(question, fitting.way).worst(fitting.micro_batches);
}

}  // namespace gpuplan

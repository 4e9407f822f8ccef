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

  PlannedWay any() {
    if (!asks()) return planned(question_.run.micro_batches);
    if (!strategy_.runs_stages()) return fewest();
    std::optional<PlannedWay> best = fastest();
    return best ? *std::move(best) : planned(std::to_string(last_parts_));
  }

  std::optional<PlannedWay> fitting() {
    std::optional<PlannedWay> found;
    if (!asks())
      found = planned(question_.run.micro_batches);
    else
      found = strategy_.runs_stages() ? fastest() : fewest_fitting();
    if (found && !found->figures.fits) found.reset();
    return found;
  }

  SweepFigures worst(const std::string& micro_batches) const {
    RunOptions run = run_;
    run.micro_batches = micro_batches;
    const auto [planning, strategy] = prepare_shared(run, way_.several);
    const Topology topology = topology_of(way_.several, planning.gpu);
    if (!strategy) return one_gpu(planning);
    if (strategy->runs_stages()) return stages(planning, *strategy, topology);
    return shared(planning, plan_worst_rank(planning, *strategy, topology));
  }

 private:
  bool asks() const { return question_.micro_batches && question_.run.micro_batches.empty(); }
  std::int64_t samples() const {
    return question_.run.batch.empty() ? 1 : whole_number("--batch", question_.run.batch, 1, INT64_MAX);
  }

  // As few micro-batches as fit; else as many as there can be. More of them need less, so that their number is halved
  // in between.
  PlannedWay fewest() {
    PlannedWay found = of_parts(0);
    std::int64_t most = most_doublings();
    if (found.figures.fits || most == 0) return found;
    found = of_parts(most);
    if (!found.figures.fits) return found;
    for (std::int64_t too_few = 0; most - too_few > 1;) {
      const std::int64_t middle = (too_few + most) / 2;
      PlannedWay between = of_parts(middle);
      (between.figures.fits ? most : too_few) = middle;
      if (between.figures.fits) found = std::move(between);
    }
    return found;
  }

  // Two micro-batches hold what more of them of that size do, and are planned sooner.
  std::optional<PlannedWay> fewest_fitting() {
    std::int64_t most = most_doublings(), too_few = -1;
    if (!two_parts_fit(most)) return std::nullopt;
    while (most - too_few > 1) {
      const std::int64_t middle = too_few < 0 ? 0 : (too_few + most) / 2;
      (two_parts_fit(middle) ? most : too_few) = middle;
    }
    for (; most <= most_doublings(); ++most)
      if (PlannedWay found = of_parts(most); found.figures.fits) return found;
    return std::nullopt;
  }
  std::int64_t most_doublings() const {
    std::int64_t most = 0;
    while (samples() % (strategy_.sample_groups() << (most + 1)) == 0) ++most;
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
  PlannedWay of_parts(std::int64_t doublings) {
    return planned(doublings == 0 ? "" : std::to_string(std::int64_t{1} << doublings));
  }

  static constexpr std::int64_t kMostRounds = 8;  // a bubble of an eighth; more of them only make kernels smaller
  // More of them fill the pipeline, and make kernels small; fewer than stages 1F1B refuses. The first stage, which has
  // the most in flight, says at once where they are too few.
  std::optional<PlannedWay> fastest() {
    std::optional<PlannedWay> best;
    last_parts_ = strategy_.pipeline;
    const std::int64_t most = kMostRounds * strategy_.pipeline;
    for (std::int64_t parts = last_parts_; parts <= most && samples() % (strategy_.ranks() * parts) == 0; parts *= 2) {
      last_parts_ = parts;
      if (!first_stage_fits(parts)) continue;
      PlannedWay next = planned(std::to_string(parts));
      if (best && best->figures.fits && !faster(next, *best)) break;
      best = std::move(next);
    }
    return best;
  }

  static bool faster(const PlannedWay& a, const PlannedWay& b) {
    return a.figures.samples_per_second.value_or(0) > b.figures.samples_per_second.value_or(0);
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

  PlannedWay planned(const std::string& micro_batches) {
    RunOptions run = run_;
    run.micro_batches = micro_batches;
    const auto [planning, strategy] = prepare_shared(run, way_.several);
    const Topology topology = topology_of(way_.several, planning.gpu);
    return {way_, micro_batches,
            !strategy                 ? one_gpu(planning)
            : strategy->runs_stages() ? stages(planning, *strategy, topology)
                                      : ranks(planning, *strategy, topology)};
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
  std::int64_t last_parts_ = 1;  // of those that fastest() asked of
};

}  // namespace

std::string flags_of(const MeshQuestion& question, const PlannedWay& planned) {
  return flags_of(planned.way, question.run.micro_batches.empty() ? planned.micro_batches : "");
}

PlannedWay planned_way(const MeshQuestion& question, const MeshWay& way) { return WayPlanner(question, way).any(); }

std::optional<PlannedWay> fitting_way(const MeshQuestion& question, const MeshWay& way) {
  return WayPlanner(question, way).fitting();
}

SweepFigures figures_of_worst(const MeshQuestion& question, const PlannedWay& planned) {
  return WayPlanner(question, planned.way).worst(planned.micro_batches);
}

}  // namespace gpuplan

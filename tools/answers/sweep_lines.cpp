// Which points of a sweep share a plan, or what it is made of.
#include <algorithm>

#include "estimator/device/arithmetic.h"
#include "layers/catalog.h"
#include "tools/answers/planning.h"
#include "tools/answers/sweep_points.h"

namespace gpuplan {

// The values of all flags that a group shares; of GPUs the one that others reserve as.
std::string SweepPoints::names_but(std::size_t point, bool batch) const {
  const std::vector<std::string> values = values_of(point);
  std::string names, on;
  for (std::size_t i = 0; i < flags_.size(); ++i) {
    if (flags_[i].name == "gpu")
      on = gpus_.at(values[i]).alike;
    else if (flags_[i].name != "host-copy" && !(batch && flags_[i].name == "batch"))
      names += values[i] + '\n';
  }
  return names + on;
}

std::string SweepPoints::group_of(std::size_t point) const { return names_but(point, false); }

std::string SweepPoints::line_of(std::size_t point) const {
  const bool batches = std::ranges::any_of(flags_, [](const SweptFlag& flag) { return flag.name == "batch"; });
  if (!batches || strategy_of(options_of(point).several)) return {};
  return "line " + names_but(point, true);
}

void SweepPoints::plan_line(std::vector<std::vector<std::size_t>> groups, const TakeRows& take) {
  if (groups.size() < static_cast<std::size_t>(AffineStep::kFewest)) {
    for (const std::vector<std::size_t>& points : groups) take(plan_points(points));
    return;
  }
  std::vector<BatchGroup> in_line;
  for (std::vector<std::size_t>& points : groups) {
    std::optional<RunConfig> run;
    try {
      run = run_config(options_of(points.front()).run);
    } catch (const Error&) {  // its row says why
    }
    if (run && run->micro_batches > 0 && run->batch % run->micro_batches == 0)
      in_line.push_back({run->batch, std::move(points)});
    else
      take(plan_points(points));
  }
  std::ranges::sort(in_line, {}, &BatchGroup::batch);
  plan_between(in_line, take);
}

AffineStep::Found SweepPoints::line_through(std::span<const BatchGroup> groups) {
  try {
    const PointOptions options = options_of(groups.front().points.front());
    const RunConfig run = run_config(options.run);
    if (on_host(run)) return {};
    const SweptGpu* const on = options.run.gpu.empty() ? nullptr : &gpus_.at(options.run.gpu);
    if (on != nullptr) refuse_arithmetic(run, on->gpu);
    const auto is_timed = [&](std::size_t point) { return has_times(options_of(point).run); };
    const bool timed = std::ranges::any_of(
        groups, [&](const BatchGroup& group) { return std::ranges::any_of(group.points, is_timed); });
    return AffineStep::through(*model_of(options).model, make_catalog(), run, on == nullptr ? assumed_gpu() : on->gpu,
                               groups.front().batch, groups.back().batch, timed);
  } catch (const Error&) {  // its rows say why
    return {};
  }
}

// Halves a range that no line leads through: there may be one on either side of a limit.
void SweepPoints::plan_between(std::span<const BatchGroup> groups, const TakeRows& take) {
  const bool enough = groups.size() >= static_cast<std::size_t>(AffineStep::kFewest);
  auto [line, parts_may] = enough ? line_through(groups) : AffineStep::Found{};
  if (parts_may) {
    plan_between(groups.first(groups.size() / 2), take);
    return plan_between(groups.subspan(groups.size() / 2), take);
  }
  for (const BatchGroup& group : groups) take(plan_group(group.points, line ? line->at(group.batch) : nullptr));
}

}  // namespace gpuplan

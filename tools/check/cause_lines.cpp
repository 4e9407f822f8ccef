#include "tools/check/cause_lines.h"

#include <algorithm>
#include <iterator>

#include "estimator/compare/attribute.h"
#include "estimator/compare/cause_models.h"
#include "layers/catalog.h"
#include "tools/check/changes.h"
#include "tools/check/settings.h"
#include "tools/options/commit_model.h"

namespace gpuplan {
namespace {

// The base's check with some settings as they are now.
Check mixed_check(const Check& base, const Check& head, const std::vector<std::string>& now) {
  Check mix = base;
  const auto is_now = [&](const Setting& s) { return std::ranges::find(now, s.key) != now.end(); };
  std::erase_if(mix.settings, is_now);
  std::ranges::copy_if(head.settings, std::back_inserter(mix.settings), is_now);
  return mix;
}

// The worst first; what could not be planned by itself last.
void tell_effects(const Attribution& attribution, bool of_floor, CheckResult& result) {
  if (attribution.effects.empty()) return;
  std::vector<Effect> effects = attribution.effects;
  std::ranges::stable_sort(
      effects, [&](const Effect& a, const Effect& b) { return of_floor ? a.delta < b.delta : a.delta > b.delta; });
  std::vector<CauseLine> lines;
  std::vector<bool> told(result.causes.size(), false);
  for (const Effect& effect : effects)
    for (const std::size_t i : effect.changes) {
      CauseLine& line = lines.emplace_back(result.causes[i]);
      told[i] = true;
      line.with_previous = i != effect.changes.front();
      if (!line.with_previous) line.effect = effect.delta;
    }
  for (std::size_t i = 0; i < told.size(); ++i)
    if (!told[i]) lines.push_back(result.causes[i]);
  result.causes = std::move(lines);
  result.together = attribution.together;
}

}  // namespace

CheckCauses check_causes(const CheckSide& head, const CheckSide& base) {
  CheckCauses all;
  all.lines = changed_settings(head.check, base.check);
  all.settings = all.lines.size();
  std::vector<Cause> list = causes(base.written, head.written, make_catalog());
  std::erase_if(list, [](const Cause& cause) { return cause.at.file.empty(); });  // of --set: a setting
  for (const Cause& cause : list)
    all.lines.push_back({.file = cause.at.file,
                         .line = cause.at.line,
                         .column = cause.at.column,
                         .what = cause.what + (cause.kind == Cause::Kind::moved ? " moved" : ""),
                         .from = cause.from,
                         .to = cause.to});
  if (kBoundsOfCheck.allow(all.lines.size(), head.report.layers.size()))
    all.models.emplace(base.written, head.written, list);
  return all;
}

void tell_causes(const CheckCauses& causes, const CheckSide& head, const CheckSide& base, const Assertion& broken,
                 const OtherPlans& plans, CheckResult& result) {
  result.causes = causes.lines;
  if (!causes.models || !broken.base) return;
  const auto trial = [&](const std::vector<bool>& made) -> std::optional<std::int64_t> {
    std::vector<std::string> now;
    for (std::size_t i = 0; i < causes.settings; ++i)
      if (made[i]) now.push_back(causes.lines[i].what);
    // What another model changes is lines of it.
    if (std::ranges::find(now, "model") != now.end()) return std::nullopt;
    const Check check = mixed_check(base.check, head.check, now);
    try {
      const RunOptions options = options_of(check);
      Planning planning = plans.prepare(check);
      return causes.models->amount({made.begin() + static_cast<std::ptrdiff_t>(causes.settings), made.end()},
                                   variables_of(options), [&](const Model& model) {
                                     planning.model = model;
                                     return plans.figure(planning, check);
                                   });
    } catch (const Error&) {
      return std::nullopt;
    }
  };
  tell_effects(attribute(causes.lines.size(), *broken.base, broken.value, trial), broken.kind == Assertion::Kind::min,
               result);
}

}  // namespace gpuplan

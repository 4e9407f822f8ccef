#include "tools/check/changes.h"

#include <algorithm>
#include <map>

namespace gpuplan {
namespace {

// What is said under a name, and where.
struct Said {
  std::string text;
  SourceMark mark;
};
using Sayings = std::map<std::string, Said>;

Sayings settings_of_check(const Check& check) {
  Sayings said;  // of a key that stands in the defaults too, the check's own
  for (const Setting& s : check.settings) said[s.key] = {s.text, s.mark};
  said["model"] = {check.model, check.model_mark};
  return said;
}

std::string_view name_of(Level level) { return level == Level::off ? "off" : level == Level::warn ? "warn" : "error"; }

std::string text_of(const GrowthBound& bound) {
  std::string text;
  if (bound.hundredths) text = percentage_text(*bound.hundredths);
  if (bound.amount) text += (text.empty() ? "" : " and ") + std::to_string(*bound.amount);
  return text;
}

void say_thresholds(const std::vector<Threshold>& limits, const std::string& prefix, Sayings& said) {
  for (const Threshold& t : limits) {
    const std::string name = prefix + std::string(name_of(t.figure));
    const Limit& any = t.max ? *t.max : t.min ? *t.min : *t.warn;
    if (t.max) said[name] = {t.max->text, t.max->mark};
    if (t.min) said[name + " min"] = {t.min->text, t.min->mark};
    if (t.warn) said[name + " warn"] = {t.warn->text, t.warn->mark};
    if (t.level != Level::error) said[name + " level"] = {std::string(name_of(t.level)), any.mark};
  }
}

Sayings limits_of_check(const Check& check) {
  Sayings said;
  say_thresholds(check.limits, "", said);
  for (const Growth& g : check.growth) {
    const std::string name = "growth of " + std::string(name_of(g.figure));
    if (g.fail) said[name] = {text_of(*g.fail), g.fail->mark};
    if (g.warn) said[name + " warn"] = {text_of(*g.warn), g.warn->mark};
  }
  for (const FitsOn& on : check.fits) said["fits " + on.gpu] = {on.gpu, on.mark};
  for (const ModuleBudget& module : check.modules) say_thresholds(module.limits, module.pattern + " ", said);
  if (check.margin_hundredths > 0) said["margin"] = {percentage_text(check.margin_hundredths), check.mark};
  if (check.inherited != Level::error) said["inherited"] = {std::string(name_of(check.inherited)), check.mark};
  if (check.skip_until) said["skip_until"] = {date_text(*check.skip_until), check.skip_mark};
  return said;
}

// What has gone is shown at the check.
std::vector<CauseLine> differences_of(const Sayings& now, const Sayings& before, const SourceMark& check) {
  std::vector<CauseLine> list;
  const auto add = [&](const std::string& what, const SourceMark& mark, const std::string& from,
                       const std::string& to) {
    if (from != to && mark.source != nullptr)
      list.push_back(
          {.file = mark.source->name, .line = mark.line, .column = mark.column, .what = what, .from = from, .to = to});
  };
  for (const auto& [what, said] : now) {
    const auto at = before.find(what);
    add(what, said.mark.source != nullptr ? said.mark : check, at == before.end() ? "" : at->second.text, said.text);
  }
  for (const auto& [what, said] : before)
    if (!now.contains(what)) add(what, check, said.text, "");
  std::ranges::stable_sort(list, {}, &CauseLine::line);
  return list;
}

}  // namespace

std::vector<CauseLine> changed_settings(const Check& head, const Check& base) {
  std::vector<CauseLine> list = differences_of(settings_of_check(head), settings_of_check(base), head.mark);
  for (CauseLine& line : list)
    line.of_run = line.what != "model" && !line.what.starts_with("set.") && line.what != "seq";
  return list;
}

std::vector<CauseLine> changed_limits(const Check& head, const Check& base) {
  return differences_of(limits_of_check(head), limits_of_check(base), head.mark);
}

}  // namespace gpuplan

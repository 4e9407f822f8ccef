#include "tools/answers/why_not_rented.h"

#include <algorithm>

#include "estimator/report/instance_list.h"
#include "estimator/search/offers.h"

namespace gpuplan {

namespace {

constexpr const char* kLeaves = " leaves no instance with it";

// Any instance of what fits, whatever it costs.
bool rents_any(const FitReport& report, const FitQuestion& question, std::span<const Instance> instances) {
  return std::ranges::any_of(report.fit.rows, [&](const FitRow& row) {
    return row.fits && !offers_of(rentable(row.gpu, question, instances), row.strategy.gpus, question).empty();
  });
}

// The cheapest of what fits, where that is above the budget.
std::string too_expensive(const FitReport& report) {
  const FitRow* cheapest = nullptr;
  for (const FitRow& row : report.fit.rows)
    if (row.fits && row.usd && (cheapest == nullptr || *row.usd < *cheapest->usd)) cheapest = &row;
  if (cheapest == nullptr || !report.question.most_usd) return "";
  return "--budget" + std::string(kLeaves) + ": the cheapest is " + cheapest->instance->provider + " " +
         cheapest->instance->name + " at " + format_usd(cheapest->usd) + " USD/h";
}

std::string listed(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ",") + word;
  return list;
}

}  // namespace

std::string why_not_rented(const FitReport& report, std::span<const Instance> instances) {
  if (const std::string why = too_expensive(report); !why.empty()) return why;
  const FitQuestion& asked = report.question;
  FitQuestion free = asked;
  struct Flag {
    std::string words, why;
    FitQuestion without;
  };
  std::vector<Flag> flags;
  const auto add = [&](std::string words, std::string why, const auto& change) {
    FitQuestion without = asked;
    change(without);
    change(free);
    flags.push_back({std::move(words), std::move(why), std::move(without)});
  };
  if (asked.spot) add("--spot", ": no spot price is known", [](FitQuestion& q) { q.spot = false; });
  if (!asked.providers.empty())
    add("--provider " + listed(asked.providers), "", [](FitQuestion& q) { q.providers.clear(); });
  if (!asked.region.empty()) add("--region \"" + asked.region + "\"", "", [](FitQuestion& q) { q.region.clear(); });
  if (!rents_any(report, free, instances)) return "no price of an instance with it is known";
  std::string all;
  for (const Flag& flag : flags) {
    if (rents_any(report, flag.without, instances)) return flag.words + std::string(kLeaves) + flag.why;
    all += (all.empty() ? "" : " and ") + flag.words;
  }
  return all + " together leave no instance with it";
}

}  // namespace gpuplan

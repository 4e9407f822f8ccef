#include "estimator/search/fit_choice.h"

#include <algorithm>
#include <cmath>

namespace gpuplan {
namespace {

bool within_budget(const FitRow& row, const FitQuestion& question) {
  return !question.most_usd || (row.usd && *row.usd <= *question.most_usd);
}

// Where the user names a cloud or a budget, what has no price is no answer.
bool may_be_chosen(const FitRow& row, const FitQuestion& question) {
  const bool needs_price =
      question.most_usd || !question.providers.empty() || !question.region.empty() || question.spot;
  return row.fits && within_budget(row, question) && (!needs_price || row.usd);
}

// Known before unknown, and of what is known the least.
int compare(const std::optional<double>& a, const std::optional<double>& b) {
  if (a.has_value() != b.has_value()) return a.has_value() ? -1 : 1;
  return !a || *a == *b ? 0 : *a < *b ? -1 : 1;
}

bool better(const FitRow& a, const FitRow& b, const FitQuestion& question) {
  if (const int by_sample = compare(usd_per_million(a, question), usd_per_million(b, question)); by_sample != 0)
    return by_sample < 0;
  if (const int by_hour = compare(a.usd, b.usd); by_hour != 0) return by_hour < 0;
  return a.usable_bytes * a.strategy.gpus < b.usable_bytes * b.strategy.gpus;
}

void choose_row(Fit& fit, const FitQuestion& question) {
  for (std::size_t i = 0; i < fit.rows.size(); ++i)
    if (may_be_chosen(fit.rows[i], question) && (!fit.chosen || better(fit.rows[i], fit.rows[*fit.chosen], question)))
      fit.chosen = i;
  if (!fit.chosen) return;
  const FitRow& row = fit.rows[*fit.chosen];
  fit.why = fit.rows.size() == 1             ? "fits"
            : usd_per_million(row, question) ? "lowest cost per sample"
            : row.usd                        ? "the cheapest that fits"
                                             : "the smallest that fits";
}

// Time against money: what another row is as good at, and better at one, is no choice of anyone's.
void mark_pareto(Fit& fit, const FitQuestion& question) {
  const auto known = [&](const FitRow& row) {
    return may_be_chosen(row, question) && usd_per_million(row, question).has_value();
  };
  for (FitRow& row : fit.rows) {
    if (!known(row)) continue;
    const double speed = *samples_per_second(row, question), usd = *usd_per_million(row, question);
    row.pareto = std::ranges::none_of(fit.rows, [&](const FitRow& other) {
      if (!known(other)) return false;
      const double s = *samples_per_second(other, question), u = *usd_per_million(other, question);
      return s >= speed && u <= usd && (s > speed || u < usd);
    });
  }
}

}  // namespace

std::int64_t limit_bytes(const Gpu& gpu, const FitQuestion& question) {
  return static_cast<std::int64_t>(std::floor(static_cast<double>(usable_bytes(gpu)) * (1 - question.margin)));
}

std::int64_t batch_of(const FitRow& row, const FitQuestion& question) {
  return question.batch.value_or(row.largest.samples);
}

std::optional<double> samples_per_second(const FitRow& row, const FitQuestion& question) {
  if (!row.step_seconds || *row.step_seconds <= 0) return std::nullopt;
  return static_cast<double>(batch_of(row, question)) / *row.step_seconds;
}

std::optional<double> usd_for(const FitRow& row, std::optional<double> seconds) {
  if (!seconds || !row.usd) return std::nullopt;
  return *row.usd / 3600 * *seconds;
}

std::optional<double> usd_per_million(const FitRow& row, const FitQuestion& question) {
  const std::optional<double> speed = samples_per_second(row, question);
  return usd_for(row, speed ? std::optional(1e6 / *speed) : std::nullopt);
}

std::optional<double> epoch_seconds(const FitRow& row, const FitQuestion& question) {
  const std::optional<double> speed = samples_per_second(row, question);
  if (!speed || !question.samples) return std::nullopt;
  return *question.samples / *speed;
}

void choose(Fit& fit, const FitQuestion& question) {
  choose_row(fit, question);
  mark_pareto(fit, question);
}

}  // namespace gpuplan

#include "estimator/search/fit.h"

#include <algorithm>
#include <map>
#include <utility>

#include "estimator/device/arithmetic.h"
#include "estimator/error.h"
#include "estimator/integers.h"
#include "estimator/search/device_bytes.h"
#include "estimator/search/workers.h"

namespace gpuplan {
namespace {

// The plans of GPUs that reserve alike, each batch planned once.
class Reservations {
 public:
  Reservations(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu)
      : model_(model), catalog_(catalog), run_(run), gpu_(gpu) {}

  // Of micro-batches of so many samples each; nothing where that cannot be run.
  std::optional<std::int64_t> of(std::int64_t samples) {
    const auto [at, is_new] = known_.try_emplace(samples);
    if (is_new) {
      try {
        run_.batch = checked_mul(samples, run_.micro_batches);
        at->second = reserved_bytes(model_, catalog_, run_, gpu_);
      } catch (const Error& error) {
        if (!refusal_) refusal_ = error;
      }
    }
    return at->second;
  }

  // Why nothing can be run, where nothing can.
  void throw_refusal() const {
    const bool any = std::ranges::any_of(known_, [](const auto& entry) { return entry.second.has_value(); });
    if (!any && refusal_) throw *refusal_;
  }

 private:
  const Model& model_;
  Catalog catalog_;
  RunConfig run_;
  const Gpu& gpu_;
  std::map<std::int64_t, std::optional<std::int64_t>> known_;
  std::optional<Error> refusal_;
};

// Samples of a micro-batch into those of the batch.
FittingBatch whole(const FittingBatch& part, std::int64_t micro_batches) {
  return {.samples = part.samples * micro_batches, .bytes = part.bytes, .least = part.least * micro_batches};
}

void fill_row(FitRow& row, const FitQuestion& question, Reservations& reservations) {
  const std::int64_t parts = question.run.micro_batches;
  const std::int64_t context = context_bytes(question.run, row.gpu);
  const NeedOfBatch need = [&](std::int64_t samples) -> std::optional<std::int64_t> {
    const std::optional<std::int64_t> reserved = reservations.of(samples);
    return reserved ? std::optional(*reserved + context) : std::nullopt;
  };
  const FittingBatch largest = largest_batch(need, row.usable_bytes, question.most / parts);
  row.largest = whole(largest, parts);
  row.power_of_two = whole(largest_power_of_two(need, row.usable_bytes, largest.samples), parts);
  row.fits = row.largest.samples > 0;
  if (question.batch) {
    row.asked_bytes = need(*question.batch / parts).value_or(0);
    row.fits = row.asked_bytes > 0 && row.asked_bytes <= row.usable_bytes;
  }
  reservations.throw_refusal();
}

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

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
  return a.usable_bytes < b.usable_bytes;
}

void choose(Fit& fit, const FitQuestion& question) {
  for (std::size_t i = 0; i < fit.rows.size(); ++i)
    if (may_be_chosen(fit.rows[i], question) && (!fit.chosen || better(fit.rows[i], fit.rows[*fit.chosen], question)))
      fit.chosen = i;
  if (!fit.chosen) return;
  const FitRow& row = fit.rows[*fit.chosen];
  fit.why = fit.rows.size() == 1             ? "fits"
            : usd_per_million(row, question) ? "costs least a sample"
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

// Those that share their plans, a worker's piece each.
std::vector<std::vector<std::size_t>> alike(const std::vector<FitRow>& rows) {
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto group = std::ranges::find_if(
        groups, [&](const auto& members) { return reserve_alike(rows[members.front()].gpu, rows[i].gpu); });
    group == groups.end() ? groups.push_back({i}) : group->push_back(i);
  }
  return groups;
}

}  // namespace

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

std::optional<double> price_of(const Instance& instance, const FitQuestion& question) {
  return question.spot ? instance.spot_usd : instance.usd;
}

// A share of a GPU has a share of its memory, and is none of these.
std::vector<Instance> rentable(const Gpu& gpu, const FitQuestion& question, std::span<const Instance> instances) {
  std::vector<Instance> list;
  for (const Instance& i : instances) {
    if (i.gpu != gpu.name || i.gpu_count < 1 || !price_of(i, question)) continue;
    if (!question.providers.empty() && !contains(question.providers, i.provider)) continue;
    if (!question.region.empty() && i.region != question.region) continue;
    list.push_back(i);
  }
  std::ranges::stable_sort(list, {}, [&](const Instance& i) { return *price_of(i, question); });
  return list;
}

Fit find_fit(const Model& model, Catalog catalog, const FitQuestion& question, std::span<const Gpu> gpus,
             std::span<const Instance> instances, std::size_t threads, const StepSeconds& step_seconds) {
  Fit fit;
  for (const Gpu& gpu : gpus) {
    FitRow row;
    row.gpu = gpu;
    row.usable_bytes = usable_bytes(gpu);
    if (std::vector<Instance> rented = rentable(gpu, question, instances); !rented.empty()) {
      row.usd = price_of(rented.front(), question);
      row.instance = std::move(rented.front());
    }
    try {
      refuse_arithmetic(question.run, gpu);
    } catch (const Error& error) {
      row.refused = error.message();
    }
    if (const auto emulated = emulated_arithmetic(question.run, gpu); row.refused.empty() && !emulated.empty())
      row.refused = emulated.front();
    fit.rows.push_back(std::move(row));
  }
  std::vector<std::vector<std::size_t>> groups = alike(fit.rows);
  for (auto& group : groups) std::erase_if(group, [&](std::size_t i) { return !fit.rows[i].refused.empty(); });
  std::erase_if(groups, [](const auto& group) { return group.empty(); });
  run_on_workers(groups.size(), threads, [&](std::size_t g) {
    Reservations reservations(model, catalog, question.run, fit.rows[groups[g].front()].gpu);
    for (const std::size_t i : groups[g]) {
      FitRow& row = fit.rows[i];
      fill_row(row, question, reservations);
      if (!step_seconds || !row.fits) continue;
      RunConfig run = question.run;
      run.batch = batch_of(row, question);
      row.step_seconds = step_seconds(run, row.gpu);
    }
  });
  choose(fit, question);
  mark_pareto(fit, question);
  return fit;
}

}  // namespace gpuplan

#include "estimator/search/fit.h"

#include <algorithm>
#include <map>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"
#include "estimator/device/arithmetic.h"
#include "estimator/distributed/nccl_memory.h"
#include "estimator/plan/plan.h"
#include "estimator/search/device_bytes.h"
#include "estimator/search/fit_choice.h"
#include "estimator/search/offers.h"
#include "estimator/search/workers.h"
#include "estimator/spec/work.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kPlansOfRank = 2;  // its own steps, and the share of the optimizer's

// The plans of GPUs that reserve alike, each batch planned once.
class Reservations {
 public:
  Reservations(const Model& model, Catalog catalog, const RunConfig& run, const Strategy& strategy, const Gpu& gpu,
               WorkBudget& work)
      : model_(model), catalog_(catalog), run_(run), strategy_(strategy), gpu_(gpu), work_(work) {}

  // Of micro-batches of so many samples each, on every GPU; nothing where that cannot be run.
  std::optional<std::int64_t> of(std::int64_t samples) {
    if (!known_.contains(samples) && !work_.take(strategy_.shares() ? kPlansOfRank : 1)) return std::nullopt;
    const std::optional<Needs>& needs = planned(samples);
    return needs ? std::optional(needs->reserved) : std::nullopt;
  }

  // Of one GPU: the most samples whose tensors alone, without workspaces and cache, take no more than so many bytes.
  std::int64_t most_by_tensors(std::int64_t bytes, std::int64_t most) {
    const NeedOfBatch tensors = [&](std::int64_t samples) -> std::optional<std::int64_t> {
      const std::optional<Needs>& needs = planned(samples);
      return needs ? std::optional(needs->tensors) : std::nullopt;
    };
    return largest_batch(tensors, bytes, most).samples;
  }

  // Why nothing can be run, where nothing can.
  void throw_refusal() const {
    const bool any = std::ranges::any_of(known_, [](const auto& entry) { return entry.second.has_value(); });
    if (!any && refusal_) throw *refusal_;
  }

 private:
  struct Needs {
    std::int64_t reserved = 0, tensors = 0;
  };

  const std::optional<Needs>& planned(std::int64_t samples) {
    const auto [at, is_new] = known_.try_emplace(samples);
    if (!is_new) return at->second;
    try {
      run_.batch = checked_mul(checked_mul(samples, run_.micro_batches), strategy_.gpus);
      const Plan plan = make_plan(model_, catalog_, run_, &gpu_, strategy_);
      at->second = {reserved_bytes(plan), plan.live_bytes.peak};
    } catch (const Error& error) {
      if (!refusal_) refusal_ = error;
    }
    return at->second;
  }

  const Model& model_;
  Catalog catalog_;
  RunConfig run_;
  Strategy strategy_;
  const Gpu& gpu_;
  WorkBudget& work_;
  std::map<std::int64_t, std::optional<Needs>> known_;
  std::optional<Error> refusal_;
};

// Samples of a micro-batch of one GPU into those of the batch.
FittingBatch whole(const FittingBatch& part, std::int64_t parts) {
  return {.samples = part.samples * parts, .bytes = part.bytes, .least = part.least * parts};
}

// Beyond the largest: a batch that fits again.
FittingBatch fits_again(const FitRow& row, const NeedOfBatch& need, std::int64_t largest, std::int64_t most,
                        std::int64_t context, Reservations& reservations) {
  const bool shares = row.strategy.shares();
  most = std::min(most, largest + 1 + (shares ? kAskedOfSeveral : kAskedAgain));
  if (largest == 0 || most < largest + 2) return {};
  if (!shares) most = reservations.most_by_tensors(row.limit_bytes - context, most);
  return largest_again(need, row.limit_bytes, largest + 2, most);
}

void fill_row(FitRow& row, const FitQuestion& question, Reservations& reservations, bool asks_again) {
  const std::int64_t parts = checked_mul(question.run.micro_batches, row.strategy.gpus);
  const std::int64_t context = context_bytes(question.run, row.gpu, row.strategy);
  const NeedOfBatch need = [&](std::int64_t samples) -> std::optional<std::int64_t> {
    const std::optional<std::int64_t> reserved = reservations.of(samples);
    return reserved ? std::optional(*reserved + context) : std::nullopt;
  };
  const FittingBatch largest = largest_batch(need, row.limit_bytes, question.most / parts);
  row.largest = whole(largest, parts);
  FittingBatch again;
  if (asks_again) again = fits_again(row, need, largest.samples, question.most / parts, context, reservations);
  row.again = whole(again, parts);
  const std::int64_t most = std::max(largest.samples, again.samples);
  row.power_of_two = whole(largest_power_of_two(need, row.limit_bytes, most), parts);
  row.fits = row.largest.samples > 0;
  if (question.batch) {
    row.asked_bytes = *question.batch % parts == 0 ? need(*question.batch / parts).value_or(0) : 0;
    row.fits = row.asked_bytes > 0 && row.asked_bytes <= row.limit_bytes;
  }
  reservations.throw_refusal();
}

// Rows whose plans are the same, of which each batch is planned once. DDP takes as much on every GPU however many there
// are (ddp_memory.cpp).
bool plan_alike(const FitRow& a, const FitRow& b) {
  if (a.strategy.data != b.strategy.data || !reserve_alike(a.gpu, b.gpu)) return false;
  return a.strategy.gpus == b.strategy.gpus || a.strategy.data == DataParallel::ddp;
}

std::vector<std::vector<std::size_t>> alike(const std::vector<FitRow>& rows, const auto& wanted) {
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].refused.empty() || !wanted(rows[i])) continue;
    const auto group =
        std::ranges::find_if(groups, [&](const auto& members) { return plan_alike(rows[members.front()], rows[i]); });
    group == groups.end() ? groups.push_back({i}) : group->push_back(i);
  }
  return groups;
}

class Finder {
 public:
  Finder(const Model& model, Catalog catalog, const FitQuestion& question, std::size_t threads)
      : model_(model), catalog_(catalog), question_(question), threads_(threads), work_(model, question.run) {}

  void add_rows(const Gpu& gpu, std::span<const Instance> instances) {
    const std::vector<Instance>& rented = rented_[gpu.name] = rentable(gpu, question_, instances);
    for (const std::int64_t gpus : question_.gpus.empty() ? counts_offered(rented) : question_.gpus) {
      if (question_.gpus.empty() && !(shares_batch(gpus) && shares_experts(gpus))) continue;
      const std::vector<Offer> offers = offers_of(rented, gpus, question_);
      const std::optional<Offer> offer = offers.empty() ? std::nullopt : std::optional(offers.front());
      add_rows(gpu, gpus, offer);
      const bool idle = offer && offer->gpus() > gpus && shares_experts(offer->gpus());
      if (idle && question_.uses_idle && shares_batch(offer->gpus())) add_rows(gpu, offer->gpus(), offer);
    }
  }

  bool shares_batch(std::int64_t gpus) const {
    return !question_.batch || *question_.batch % checked_mul(question_.run.micro_batches, gpus) == 0;
  }

  bool shares_experts(std::int64_t gpus) const {
    return gpus % (question_.strategy.experts * question_.strategy.replicas) == 0 || question_.strategy.experts == 1;
  }

  void plan_rows() {
    constexpr std::int64_t kLeastPlans = 2;  // a sample, and more of them
    const auto groups = alike(fit_.rows, [](const FitRow&) { return true; });
    if (!work_.has_left(kLeastPlans * static_cast<std::int64_t>(groups.size()))) throw too_much();
    plan(groups, fit_.rows);
    std::erase_if(fit_.rows, [](const FitRow& row) { return row.strategy.gpus == 0; });
    if (question_.kinds.empty()) plan_as_fsdp();
  }

  void time_rows(const ThroughputOf& throughput) {
    if (!throughput) return;
    run_on_workers(fit_.rows.size(), threads_, [&](std::size_t i) {
      FitRow& row = fit_.rows[i];
      if (!row.fits || !work_.take()) return;
      RunConfig run = question_.run;
      run.batch = batch_of(row, question_);
      const ThroughputOn on = throughput(run, row.gpu, row.strategy);
      FitRow cheapest = row;
      time_row(cheapest, on);
      // As many GPUs in other instances may cost less a sample, though their link is slower.
      std::vector<Offer> offers;
      if (row.strategy.gpus > 1 && row.instance)
        offers = offers_of(rented_.at(row.gpu.name), row.strategy.gpus, question_);
      for (const Offer& offer : offers) {
        FitRow other = row;
        rent(other, offer);
        if (offer.usd >= *row.usd) continue;
        time_row(other, on);
        const auto usd = usd_per_million(other, question_), least = usd_per_million(cheapest, question_);
        if (usd && (!least || *usd < *least)) cheapest = std::move(other);
      }
      row = std::move(cheapest);
    });
  }

  // What was not planned for want of it looks as if it did not fit.
  void refuse_exceeded_work() const {
    if (work_.exceeded()) throw too_much();
  }

  Fit& fit() { return fit_; }

 private:
  Error too_much() const {
    return too_much_work(model_, "each GPU and batch that is tried plans all of them")
        .help("--on names fewer GPUs; gpuplan plan plans one batch");
  }

  static void rent(FitRow& row, const Offer& offer) {
    row.instance = offer.instance;
    row.instances = offer.count;
    row.usd = offer.usd;
  }

  void time_row(FitRow& row, const ThroughputOn& throughput) const {
    std::optional<Offer> offer;
    if (row.instance) offer = Offer{*row.instance, row.instances, *row.usd};
    const Topology topology = topology_of(row.gpu, offer ? &*offer : nullptr, question_, row.strategy.gpus);
    const std::optional<StepThroughput> of_step = throughput(topology);
    if (!of_step) return;
    row.step_seconds = of_step->seconds;
    if (row.strategy.gpus > 1 && of_step->seconds > 0) row.efficiency = of_step->alone_seconds / of_step->seconds;
  }

  void add_rows(const Gpu& gpu, std::int64_t gpus, const std::optional<Offer>& offer) {
    FitRow row = row_of(gpu);
    row.strategy.gpus = gpus;
    if (offer) rent(row, *offer);
    std::vector<DataParallel> kinds = question_.kinds;
    if (kinds.empty()) kinds = {DataParallel::ddp};
    if (gpus == 1 && question_.one_alone) kinds = {DataParallel::none};
    for (const DataParallel kind : kinds) {
      row.strategy.data = kind;
      fit_.rows.push_back(row);
    }
  }

  FitRow row_of(const Gpu& gpu) const {
    FitRow row;
    row.gpu = gpu;
    row.strategy = question_.strategy;
    row.usable_bytes = usable_bytes(gpu);
    row.limit_bytes = limit_bytes(gpu, question_);
    try {
      refuse_arithmetic(question_.run, gpu);
    } catch (const Error& error) {
      row.refused = error.message();
    }
    if (const auto emulated = emulated_arithmetic(question_.run, gpu); row.refused.empty() && !emulated.empty())
      row.refused = emulated.front();
    return row;
  }

  void plan(const std::vector<std::vector<std::size_t>>& groups, std::vector<FitRow>& rows) {
    // By what there is to plan, not by what is left of the budget, which depends on the threads.
    const std::int64_t most_asked = kAskedAgain * static_cast<std::int64_t>(rows.size());
    const bool asks_again = planning_work(model_, question_.run) <= kMostLayersPlanned / 2 / most_asked;
    run_on_workers(groups.size(), threads_, [&](std::size_t g) {
      const FitRow& first = rows[groups[g].front()];
      Reservations reservations(model_, catalog_, question_.run, first.strategy, first.gpu, work_);
      try {
        for (const std::size_t i : groups[g]) fill_row(rows[i], question_, reservations, asks_again);
      } catch (const Error&) {
        if (!question_.uses_idle || first.strategy.gpus == 1) throw;
        for (const std::size_t i : groups[g]) rows[i].strategy.gpus = 0;  // nobody asked for these
      }
    });
  }

  // Nobody said how several GPUs share a step: what DDP is too large for may fit in shards.
  void plan_as_fsdp() {
    std::vector<FitRow> rows = fit_.rows;
    for (FitRow& row : rows) row.strategy.data = DataParallel::fsdp;
    try {
      plan(alike(rows, [&](const FitRow& row) { return row.strategy.gpus > 1 && !row.fits; }), rows);
    } catch (const Error&) {
      return;  // a loop that FSDP2 is not planned with
    }
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (rows[i].strategy.gpus > 1 && !fit_.rows[i].fits && fit_.rows[i].refused.empty()) fit_.rows[i] = rows[i];
  }

  const Model& model_;
  Catalog catalog_;
  const FitQuestion& question_;
  std::size_t threads_;
  WorkBudget work_;
  std::map<std::string, std::vector<Instance>> rented_;  // what is rented of each GPU, by its name
  Fit fit_;
};

void refuse_unshared(const FitQuestion& question, const Finder& finder) {
  if (question.gpus.empty() || std::ranges::any_of(question.gpus, [&](auto n) { return finder.shares_batch(n); }))
    return;
  const std::int64_t parts = checked_mul(question.run.micro_batches, question.gpus.front());
  throw Error("a batch of " + std::to_string(*question.batch) + " cannot be divided equally among " +
                  std::to_string(question.gpus.front()) + " GPUs",
              ErrorKind::usage)
      .help("--batch is the whole step's; " + std::to_string(round_up(*question.batch, parts)) + " is the next one");
}

}  // namespace

Fit find_fit(const Model& model, Catalog catalog, const FitQuestion& question, std::span<const Gpu> gpus,
             std::span<const Instance> instances, std::size_t threads, const ThroughputOf& throughput) {
  Finder finder(model, catalog, question, threads);
  refuse_unshared(question, finder);
  for (const Gpu& gpu : gpus) finder.add_rows(gpu, instances);
  finder.plan_rows();
  finder.refuse_exceeded_work();
  finder.time_rows(throughput);
  finder.refuse_exceeded_work();
  choose(finder.fit(), question);
  return std::move(finder.fit());
}

}  // namespace gpuplan

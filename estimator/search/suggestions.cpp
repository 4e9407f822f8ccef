#include "estimator/search/suggestions.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"
#include "estimator/device/arithmetic.h"
#include "estimator/distributed/context_plan.h"
#include "estimator/distributed/stage_split.h"
#include "estimator/plan/plan.h"
#include "estimator/plan/verdict.h"
#include "estimator/search/best_pair.h"
#include "estimator/search/changed_runs.h"
#include "estimator/search/device_bytes.h"
#include "estimator/search/gpus_needed.h"
#include "estimator/spec/work.h"

namespace gpuplan {
namespace {

// What does not fit.
struct Case {
  const Model& model;
  Catalog catalog;
  const RunConfig& run;  // of all GPUs together
  const Gpu& gpu;
  const Strategy& strategy;
  // What a batch is a multiple of.
  std::int64_t parts() const { return run.micro_batches * strategy.sample_groups(); }
};

// Of the stages of a pipeline, or of the ranks of a context, the one that needs the most.
Plan worst_plan(const Case& c, const RunConfig& run) {
  const auto plan_of = [&](const Strategy& strategy) { return make_plan(c.model, c.catalog, run, &c.gpu, strategy); };
  if (!c.strategy.runs_stages()) {
    Plan worst = plan_of(c.strategy);
    for (const Strategy& rank : ranks_of_context(c.strategy))
      if (Plan next = plan_of(rank); device_bytes(next) > device_bytes(worst)) worst = std::move(next);
    return worst;
  }
  Strategy stage = c.strategy;
  stage.pipelining.stage = 0;
  Plan worst = plan_of(stage);
  for (const std::int64_t kind : kinds_of_stages(worst.step.part.all_blocks, stage)) {
    if (kind == 0) continue;
    stage.pipelining.stage = kind;
    if (Plan next = plan_of(stage); device_bytes(next) > device_bytes(worst)) worst = std::move(next);
  }
  return worst;
}

// The report of `run`, or nothing when it cannot be run at all.
std::optional<Report> try_plan(const Case& c, const RunConfig& run) {
  try {
    return report_of(worst_plan(c, run));
  } catch (const Error&) {
    return std::nullopt;
  }
}

// What `run` needs on the device, or nothing when it cannot be run at all.
std::optional<std::int64_t> needs(const Case& c, const RunConfig& run) {
  try {
    return device_bytes(worst_plan(c, run));
  } catch (const Error&) {
    return std::nullopt;
  }
}

// The largest batch, in as many micro-batches, below the run's for which `good` holds; it does for `known_good`, or
// that is 0. What a step needs grows with the batch, so halving the interval finds it.
template <typename Good>
std::int64_t largest_batch(const Case& c, std::int64_t known_good, Good&& good) {
  RunConfig run = c.run;
  std::int64_t right = known_good / c.parts(), too_big = run.batch / c.parts();
  while (too_big - right > 1) {
    const std::int64_t samples = right + (too_big - right) / 2;
    run.batch = samples * c.parts();
    const std::optional<Report> report = try_plan(c, run);
    (report && good(*report) ? right : too_big) = samples;
  }
  return right * c.parts();
}

Suggestion suggest_batch(const Case& c, std::int64_t batch) {
  RunConfig run = c.run;
  run.batch = batch;
  const Report report = try_plan(c, run).value();
  return {.flags = "--batch " + std::to_string(batch),
          .device_bytes = report.peak.device_bytes,
          .retries = report.within_memory ? report.within_memory->retries : 0};
}

// The largest batch that fits; where the step does not even run, also the largest that does where that is larger.
std::vector<Suggestion> smaller_batches(const Case& c, bool runs_now) {
  const std::int64_t fits = largest_batch(c, 0, [](const Report& r) { return verdict(r).fits; });
  std::vector<Suggestion> suggestions;
  if (fits > 0) suggestions.push_back(suggest_batch(c, fits));
  if (runs_now) return suggestions;
  const std::int64_t runs = largest_batch(c, fits, [](const Report& r) { return verdict(r).runs; });
  if (runs > fits) suggestions.push_back(suggest_batch(c, runs));
  return suggestions;
}

// The fewest micro-batches that fit. Needs shrink with them down to what a single sample takes.
std::optional<Suggestion> more_micro_batches(const Case& c, std::int64_t usable_bytes) {
  RunConfig run = c.run;
  if (run.mode != Mode::train || run.optimizer_in_backward) return std::nullopt;
  for (run.micro_batches = 2 * c.run.micro_batches; run.batch % (run.micro_batches * c.strategy.sample_groups()) == 0;
       run.micro_batches *= 2) {
    const std::optional<std::int64_t> bytes = needs(c, run);
    if (bytes && *bytes <= usable_bytes)
      return Suggestion{.flags = "--micro-batches " + std::to_string(run.micro_batches), .device_bytes = *bytes};
  }
  return std::nullopt;
}

// The one with the least memory, of those that nothing has to be emulated on.
std::optional<Suggestion> bigger_gpu(const Case& c, std::span<const Gpu> others) {
  std::vector<Gpu> bigger;
  for (const Gpu& other : others)
    if (usable_bytes(other) > usable_bytes(c.gpu) && emulated_arithmetic(c.run, other).empty()) bigger.push_back(other);
  std::ranges::stable_sort(bigger, {}, [](const Gpu& gpu) { return usable_bytes(gpu); });
  for (const Gpu& gpu : bigger) {
    const std::optional<std::int64_t> bytes = needs({c.model, c.catalog, c.run, gpu, c.strategy}, c.run);
    if (bytes && *bytes <= usable_bytes(gpu)) return Suggestion{.flags = "--gpu " + gpu.name, .device_bytes = *bytes};
  }
  return std::nullopt;
}

// Of a pipeline whose last stage keeps what all micro-batches return.
std::optional<Suggestion> drop_outputs(const Case& c, std::int64_t usable_bytes) {
  if (!c.strategy.runs_stages() || !c.strategy.pipelining.returns_outputs) return std::nullopt;
  Strategy drops = c.strategy;
  drops.pipelining.returns_outputs = false;
  const std::optional<std::int64_t> bytes = needs({c.model, c.catalog, c.run, c.gpu, drops}, c.run);
  if (!bytes || *bytes > usable_bytes) return std::nullopt;
  return Suggestion{.flags = "--pp-schedule " + pipeline_words(drops.pipelining), .device_bytes = *bytes};
}

// Of samples that are too long, one a rank: as few neighbours as fit share the tokens of one, and have as many more
// micro-batches.
std::optional<Suggestion> share_tokens(const Case& c, std::int64_t usable_bytes, const PartOfContext& part) {
  const Strategy& s = c.strategy;
  if (!part || c.run.mode != Mode::train || s.data != DataParallel::fsdp || s.flat || s.context > 1)
    return std::nullopt;
  if (c.run.batch != c.parts()) return std::nullopt;
  const std::int64_t most = std::min(s.shards(), s.gpus_per_node / s.tensor);
  for (std::int64_t ranks = 2; ranks <= most && s.shards() % ranks == 0; ranks *= 2) {
    Strategy shared = s;
    shared.context = ranks;
    shared.rank = 0;
    RunConfig run = c.run;
    run.micro_batches = checked_mul(run.micro_batches, ranks);
    std::optional<std::int64_t> bytes;
    try {
      const Model model = part(ranks);
      bytes = needs({model, c.catalog, run, c.gpu, shared}, run);
    } catch (const Error&) {
      return std::nullopt;
    }
    if (!bytes) return std::nullopt;
    if (*bytes <= usable_bytes)
      return Suggestion{
          .flags = "--cp " + std::to_string(ranks) + " --micro-batches " + std::to_string(run.micro_batches),
          .device_bytes = *bytes};
  }
  return std::nullopt;
}

// As many GPUs as it takes, each with its share of the batch: under DDP, and under FSDP2 where that takes fewer. Of
// several the same number may do under FSDP2.
void add_more_gpus(const Case& c, std::int64_t usable_bytes, std::vector<Suggestion>& suggestions) {
  if (c.run.mode != Mode::train || c.strategy.runs_stages()) return;
  const auto needed = [&](DataParallel kind) {
    Strategy strategy = c.strategy;
    strategy.data = kind;
    const bool as_many = c.strategy.gpus > 1 && c.strategy.data != kind;
    if (!as_many) strategy.gpus = 2 * c.strategy.gpus;
    return gpus_needed(c.model, c.catalog, c.run, strategy, c.gpu, usable_bytes);
  };
  const auto add = [&](const GpusNeeded& n, const char* kind) {
    const std::string batch = n.batch != c.run.batch ? " --batch " + std::to_string(n.batch) : "";
    suggestions.push_back({.flags = "--gpus " + std::to_string(n.gpus) + kind + batch, .device_bytes = n.device_bytes});
  };
  const std::optional<GpusNeeded> fsdp = needed(DataParallel::fsdp);
  if (c.strategy.data == DataParallel::fsdp) {  // the flags that are there say so
    if (fsdp) add(*fsdp, "");
    return;
  }
  const std::optional<GpusNeeded> ddp =
      c.strategy.tensor > 1 ? std::nullopt : needed(DataParallel::ddp);  // it shares no layers
  if (fsdp && (!ddp || fsdp->gpus < ddp->gpus)) add(*fsdp, " --zero fsdp");
  if (ddp) add(*ddp, "");
}

}  // namespace

std::vector<Suggestion> suggest(const Model& model, Catalog catalog, const Report& report, const Gpu& gpu,
                                std::span<const Gpu> others, const Strategy& strategy, const PartOfContext& part) {
  const Verdict v = verdict(report);
  if (!v.known || v.fits || !may_search(model, report.run)) return {};
  RunConfig whole = report.run;
  whole.batch *= strategy.sample_groups();
  const Case c{model, catalog, whole, gpu, strategy};
  std::vector<Suggestion> fitting = smaller_batches(c, v.runs);
  const std::int64_t now = report.peak.device_bytes;
  std::optional<Suggestion> closest;
  if (const std::optional<Suggestion> micro = more_micro_batches(c, v.usable_bytes)) fitting.push_back(*micro);
  for (const auto& [flags, run, reach] : changed_runs(c.run, gpu)) {
    const std::optional<std::int64_t> bytes = needs(c, run);
    if (!bytes) continue;
    const Suggestion suggestion{.flags = flags, .device_bytes = *bytes};
    if (suggestion.device_bytes < (closest ? closest->device_bytes : now)) closest = suggestion;
    if (suggestion.device_bytes <= v.usable_bytes && reach != Reach::batch) fitting.push_back(suggestion);
  }
  add_more_gpus(c, v.usable_bytes, fitting);
  if (const std::optional<Suggestion> shared = share_tokens(c, v.usable_bytes, part)) fitting.push_back(*shared);
  if (const std::optional<Suggestion> dropped = drop_outputs(c, v.usable_bytes)) fitting.push_back(*dropped);
  if (const std::optional<Suggestion> bigger = bigger_gpu(c, others)) fitting.push_back(*bigger);
  if (std::ranges::any_of(fitting, [&](const Suggestion& suggestion) { return suggestion.fits(v.usable_bytes); }))
    return fitting;
  const std::optional<ChangedPair> pair = best_pair(c.run, gpu, strategy.sample_groups(), v.usable_bytes,
                                                    [&](const RunConfig& run) { return needs(c, run); });
  if (pair && (!closest || pair->amount < closest->device_bytes))
    closest = Suggestion{.flags = pair->flags, .device_bytes = pair->amount, .pair = true};
  if (closest) fitting.insert(fitting.begin(), *closest);
  return fitting;
}

}  // namespace gpuplan

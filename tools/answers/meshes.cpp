#include "tools/answers/meshes.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"
#include "estimator/distributed/tensor_plan.h"
#include "estimator/search/device_bytes.h"
#include "estimator/search/figures.h"
#include "estimator/search/workers.h"
#include "layers/catalog.h"
#include "tools/answers/every_stage.h"
#include "tools/answers/fitting_first.h"
#include "tools/answers/shared_planning.h"
#include "tools/options/words.h"

namespace gpuplan {
namespace {

struct Way {
  SeveralGpusOptions several;
  std::string checkpoint;
};

std::string joined_words(const std::string& words, const std::string& more) {
  return words.empty() ? more : words + "," + more;
}

// Of the flags that share a step.
std::string flags_of(const Way& way, const std::string& micro_batches) {
  std::string flags;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) flags += (flags.empty() ? "" : " ") + std::string(name) + " " + value;
  };
  add("--tp", way.several.tensor);
  add("--pp", way.several.pipeline);
  add("--pp-schedule", way.several.pipeline_schedule);
  add("--ep", way.several.experts);
  add("--zero", way.several.zero);
  add("--fsdp", way.several.fsdp);
  add("--checkpoint", way.checkpoint);
  add("--micro-batches", micro_batches);
  return flags;
}

class Ways {
 public:
  explicit Ways(const MeshQuestion& question)
      : question_(question), base_(*strategy_of(question.several)), gpus_(base_.gpus) {}

  std::vector<Way> all() {
    add_data_parallel();
    if (has_experts(load_model(question_.run)))
      for (std::int64_t ranks = 2; ranks <= gpus_; ranks *= 2)
        if (gpus_ % ranks == 0) add_experts(ranks);
    for (std::int64_t ranks = 2; ranks <= std::min(gpus_, base_.gpus_per_node); ranks *= 2)
      if (gpus_ % ranks == 0) add_layers(ranks);
    for (std::int64_t ranks = 1; ranks <= std::min(gpus_, base_.gpus_per_node); ranks *= 2)
      for (std::int64_t stages = 2; stages * ranks <= gpus_; stages *= 2)
        if (gpus_ % (stages * ranks) == 0) add_pipeline(stages, ranks);
    return std::move(ways_);
  }

 private:
  void add(SeveralGpusOptions several) {
    const bool may = question_.checkpoints && question_.run.checkpoint.empty();
    ways_.push_back({several, ""});
    if (may) ways_.push_back({std::move(several), "block"});
  }

  // FSDP2 over `ranks`, as it is asked for, with `word`.
  SeveralGpusOptions sharded(const std::string& word) const {
    SeveralGpusOptions several = question_.several;
    several.fsdp = word.empty() ? several.fsdp : joined_words(several.fsdp, word);
    if (several.fsdp.empty()) several.zero = "fsdp";
    return several;
  }
  bool says(const char* key) const { return question_.several.fsdp.find(std::string(key) + "=") != std::string::npos; }

  void add_sharded(std::int64_t ranks, std::int64_t within_node, const std::string& tensor) {
    std::vector<std::string> words = {""};
    if (!says("reshard")) words.emplace_back("reshard=false");
    const bool nodes = within_node > 1 && ranks > within_node && ranks % within_node == 0;
    if (nodes && !says("replicate")) words.push_back("replicate=" + std::to_string(ranks / within_node));
    for (const std::string& word : words) {
      SeveralGpusOptions several = sharded(word);
      several.tensor = tensor;
      add(std::move(several));
    }
  }

  void add_data_parallel() {
    if (question_.several.fsdp.empty())
      for (const char* kind : {"ddp", "1"}) {
        SeveralGpusOptions several = question_.several;
        several.zero = kind;
        add(std::move(several));
      }
    add_sharded(gpus_, base_.gpus_per_node, "");
  }

  void add_layers(std::int64_t ranks) {
    const std::string tensor = std::to_string(ranks);
    if (gpus_ > ranks) return add_sharded(gpus_ / ranks, base_.gpus_per_node / ranks, tensor);
    SeveralGpusOptions several = question_.several;
    several.tensor = tensor;
    if (several.fsdp.empty()) add(std::move(several));
  }

  // Each has some of the experts; transformers says what is resharded.
  void add_experts(std::int64_t ranks) {
    if (says("reshard")) return;
    SeveralGpusOptions several = sharded("");
    several.experts = std::to_string(ranks);
    add(std::move(several));
  }

  void add_pipeline(std::int64_t stages, std::int64_t ranks) {
    SeveralGpusOptions several = question_.several;
    if (gpus_ > stages * ranks) several = says("reshard") ? sharded("") : sharded("reshard=false");
    if (several.zero == "fsdp") several.zero.clear();
    if (ranks > 1) several.tensor = std::to_string(ranks);
    several.pipeline = std::to_string(stages);
    several.pipeline_schedule = "1f1b,outputs=drop";
    add(std::move(several));
  }

  const MeshQuestion& question_;
  Strategy base_;
  std::int64_t gpus_;
  std::vector<Way> ways_;
};

class Planner {
 public:
  Planner(const MeshQuestion& question, const Way& way) : question_(question), way_(way), run_(question.run) {
    if (!way.checkpoint.empty()) run_.checkpoint = way.checkpoint;
    strategy_ = *strategy_of(way.several);
    if (sharing_of(run_, strategy_) == Sharing::formulas)
      throw Error("its layers are not shared as transformers shares those of decoders", ErrorKind::usage);
  }

  SweepRow row() {
    if (!question_.micro_batches || !question_.run.micro_batches.empty()) return planned(question_.run.micro_batches);
    return strategy_.runs_stages() ? fastest() : fewest();
  }

 private:
  std::int64_t samples() const {
    return question_.run.batch.empty() ? 1 : whole_number("--batch", question_.run.batch, 1, INT64_MAX);
  }

  // As few micro-batches as fit; else as many as there can be.
  SweepRow fewest() {
    std::optional<SweepRow> last;
    for (std::int64_t parts = 1; parts == 1 || samples() % (strategy_.ranks() * parts) == 0; parts *= 2) {
      last = planned(parts == 1 ? "" : std::to_string(parts));
      if (last->figures->fits || !question_.micro_batches) break;
    }
    return *std::move(last);
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
    row.values = {flags_of(way_, question_.run.micro_batches.empty() ? micro_batches : "")};
    row.figures =
        strategy->runs_stages() ? stages(planning, *strategy, topology) : ranks(planning, *strategy, topology);
    return row;
  }

  static SweepFigures ranks(const Planning& planning, const Strategy& strategy, const Topology& topology) {
    const bool timed = !planning.gpu_is_limit;
    return rank_figures(planning.model, make_catalog(), planning.run, strategy, topology, &*planning.gpu,
                        timed ? std::optional(planning.copy) : std::nullopt)
        .figures;
  }

  static SweepFigures stages(const Planning& planning, const Strategy& strategy, const Topology& topology) {
    const PlannedReport worst = plan_worst_stage(planning, strategy, topology);
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
  const Way& way_;
  RunOptions run_;
  Strategy strategy_;
};

}  // namespace

std::vector<SweepRow> meshes(const MeshQuestion& question,
                             const std::function<void(std::size_t done, std::size_t all)>& told) {
  if (question.run.gpu.empty())
    throw Error("--may needs one GPU", ErrorKind::usage).help("--gpu h100, or --gpu \"80 GB\"");
  const std::vector<Way> ways = Ways(question).all();
  std::vector<SweepRow> rows(ways.size());
  std::optional<Error> first_refused;
  run_on_workers(
      ways.size(), cores(),
      [&](std::size_t i) {
        try {
          rows[i] = Planner(question, ways[i]).row();
        } catch (const Error& e) {
          rows[i].error = e.message();
          if (i == 0) first_refused = e;
        }
      },
      [&](std::size_t done) {
        if (told) told(done, ways.size());
      });
  if (first_refused && std::ranges::none_of(rows, [](const SweepRow& row) { return row.figures.has_value(); }))
    throw Error(*first_refused);
  return fitting_first(std::move(rows));
}

}  // namespace gpuplan

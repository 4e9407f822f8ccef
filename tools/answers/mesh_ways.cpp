#include "tools/answers/mesh_ways.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "estimator/distributed/context_plan.h"
#include "estimator/distributed/tensor_plan.h"

namespace gpuplan {
namespace {

std::string joined_words(const std::string& words, const std::string& more) {
  return words.empty() ? more : words + "," + more;
}

std::int64_t most_layers(const Strategy& s) { return std::min(s.gpus, s.gpus_per_node); }

class Ways {
 public:
  Ways(const MeshQuestion& question, const Model& model)
      : question_(question), model_(model), base_(*strategy_of(question.several)) {}

  std::vector<MeshWay> of_ranks() {
    if (question_.several.fsdp.empty())
      for (const char* kind : {"ddp", "1"}) {
        SeveralGpusOptions several = question_.several;
        several.zero = kind;
        add(std::move(several));
      }
    add_sharded(gpus(), base_.gpus_per_node, "");
    if (has_experts(model_))
      for (std::int64_t ranks = 2; ranks <= gpus(); ranks *= 2)
        if (gpus() % ranks == 0) add_experts(ranks);
    return std::move(ways_);
  }

  std::vector<MeshWay> of_layers(std::int64_t ranks) {
    if (gpus() % ranks == 0 && ranks <= most_layers(base_)) add_layers(ranks);
    return std::move(ways_);
  }

  std::vector<MeshWay> of_context() {
    if (has_context(model_))
      for (std::int64_t ranks = 2; ranks <= most_layers(base_); ranks *= 2)
        if (gpus() % ranks == 0) add_context(ranks);
    return std::move(ways_);
  }

  std::vector<MeshWay> of_stages(std::int64_t stages, std::int64_t ranks) {
    if (gpus() % (stages * ranks) == 0) add_pipeline(stages, ranks);
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

  // As transformers shares layers, and then with sequence and loss parallelism, where that is planned: of dense models
  // of its tp_plan whose tokens the ranks divide.
  std::vector<std::string> plans_of(std::int64_t ranks) const {
    const std::string all = std::to_string(ranks);
    const auto tokens = std::ranges::find(model_.vars, "seq", &Variable::name);
    const bool divides = tokens != model_.vars.end() && tokens->value % ranks == 0;
    const bool planned = has_tensor_plan(model_) && !has_experts(model_) && question_.run.pytorch.empty();
    if (!divides || !planned) return {all};
    return {all, all + ",sequence,loss"};
  }

  // With FSDP2 in all its forms as what needs less, else as it is asked for.
  void add_layers(std::int64_t ranks) {
    const std::vector<std::string> plans = plans_of(ranks);
    for (const std::string& tensor : plans) {
      if (gpus() > ranks && tensor == plans.back()) {
        add_sharded(gpus() / ranks, base_.gpus_per_node / ranks, tensor);
        continue;
      }
      SeveralGpusOptions several = gpus() > ranks ? sharded("") : question_.several;
      several.tensor = tensor;
      if (gpus() > ranks || several.fsdp.empty()) add(std::move(several));
    }
  }

  // Each has some of the experts; transformers says what is resharded.
  void add_experts(std::int64_t ranks) {
    if (says("reshard")) return;
    SeveralGpusOptions several = sharded("");
    several.experts = std::to_string(ranks);
    add(std::move(several));
  }

  // Each has some of the tokens of a sample.
  void add_context(std::int64_t ranks) {
    SeveralGpusOptions several = sharded("");
    several.context = std::to_string(ranks);
    add(std::move(several));
  }

  void add_pipeline(std::int64_t stages, std::int64_t ranks) {
    add_pipeline(stages, ranks, ranks == 1 ? "" : plans_of(ranks).back());  // which needs less and sends as much
  }
  void add_pipeline(std::int64_t stages, std::int64_t ranks, const std::string& tensor) {
    SeveralGpusOptions several = question_.several;
    if (gpus() > stages * ranks) several = says("reshard") ? sharded("") : sharded("reshard=false");
    if (several.zero == "fsdp") several.zero.clear();
    several.tensor = tensor;
    several.pipeline = std::to_string(stages);
    several.pipeline_schedule = "1f1b,outputs=drop";
    add(std::move(several));
  }

  std::int64_t gpus() const { return base_.gpus; }

  const MeshQuestion& question_;
  const Model& model_;
  Strategy base_;
  std::vector<MeshWay> ways_;
};

}  // namespace

std::string flags_of(const MeshWay& way, const std::string& micro_batches) {
  std::string flags;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) flags += (flags.empty() ? "" : " ") + std::string(name) + " " + value;
  };
  add("--tp", way.several.tensor);
  add("--pp", way.several.pipeline);
  add("--pp-schedule", way.several.pipeline_schedule);
  add("--ep", way.several.experts);
  add("--cp", way.several.context);
  add("--zero", way.several.zero);
  add("--fsdp", way.several.fsdp);
  add("--checkpoint", way.checkpoint);
  add("--micro-batches", micro_batches);
  return flags;
}

std::vector<MeshWay> ways_of_ranks(const MeshQuestion& question, const Model& model) {
  if (!question.several.gpus.empty()) return Ways(question, model).of_ranks();
  std::vector<MeshWay> ways = {{question.several, ""}};
  if (question.checkpoints && question.run.checkpoint.empty()) ways.push_back({question.several, "block"});
  return ways;
}
std::vector<MeshWay> ways_of_layers(const MeshQuestion& question, const Model& model, std::int64_t tensor) {
  return Ways(question, model).of_layers(tensor);
}
std::vector<MeshWay> ways_of_stages(const MeshQuestion& question, const Model& model, std::int64_t stages,
                                    std::int64_t tensor) {
  return Ways(question, model).of_stages(stages, tensor);
}
std::vector<MeshWay> ways_of_context(const MeshQuestion& question, const Model& model) {
  return Ways(question, model).of_context();
}
std::int64_t most_layers(const MeshQuestion& question) { return most_layers(*strategy_of(question.several)); }

}  // namespace gpuplan

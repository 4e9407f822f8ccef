#include "tools/answers/batch_steps.h"

#include <algorithm>
#include <string_view>

#include "estimator/spec/read.h"
#include "layers/catalog.h"
#include "tools/importers/given_mask.h"
#include "tools/options/commit_model.h"

namespace gpuplan {
namespace {

constexpr std::string_view kPaddingVariable = "padded";  // the variable of a spec that has an attention_mask
constexpr std::size_t kMostKeptSteps = 256;

// Under no_grad(), in eval(), of a batch that is not run in parts.
RunConfig evaluation_of(RunConfig run) {
  run.mode = Mode::infer;
  run.evaluates = true;
  run.micro_batches = 1;
  run.clip_grad_norm = false;
  return run;
}

}  // namespace

BatchSteps::BatchSteps(const RunOptions& options, const Planning& planning, const std::vector<StepBatch>& batches)
    : written_(open_model(options)), planning_(planning), gpu_(planning.gpu ? *planning.gpu : assumed_gpu()) {
  const auto is_padded = [](const Variable& v) { return v.name == kPaddingVariable; };
  const bool asked = std::ranges::any_of(written_.options.set, is_padded);
  const bool padded = std::ranges::any_of(batches, &StepBatch::padded);
  if (std::shared_ptr<const Source> masked = padded && !asked ? with_attention_mask(*written_.source) : nullptr)
    written_.source = std::move(masked);
  const bool has_lengths = batches.front().tokens > 0;
  masks_ = std::ranges::any_of(read_model(written_.source, of_length(has_lengths ? 1 : 0)).vars, is_padded);
  chooses_ = masks_ && !asked;
}

std::shared_ptr<const BatchSteps::Made> BatchSteps::at(const StepBatch& batch) {
  {
    const std::scoped_lock lock(mutex_);
    if (const auto known = made_.find(batch); known != made_.end()) return known->second;
  }
  const auto made = std::make_shared<Made>();
  SpecOptions options = of_length(batch.tokens);
  if (chooses_) options.set.push_back({std::string(kPaddingVariable), batch.padded ? 1 : 0});
  made->model = read_model(written_.source, options);
  RunConfig run = batch.evaluates ? evaluation_of(planning_.run) : planning_.run;
  run.batch = batch.samples;
  made->step = make_step(made->model, make_catalog(), run, gpu_);
  const std::scoped_lock lock(mutex_);
  if (made_.size() >= kMostKeptSteps) made_.clear();  // those in use stay with their users
  return made_.emplace(batch, made).first->second;
}

std::vector<std::string> BatchSteps::stored_type_warning(const RunOptions& options) const {
  return about_stored_type(written_.stored_type, options);
}

SpecOptions BatchSteps::of_length(std::int64_t tokens) const {
  SpecOptions options = written_.options;
  if (tokens > 0) options.set.push_back({"seq", tokens});
  return options;
}

ReplayedSteps replay_batches(BatchSteps& made, const std::vector<StepBatch>& batches, const RunConfig& run,
                             std::int64_t bytes, const std::function<void()>& told) {
  ReplayedSteps replayed;
  const NextStep next = [&](int i) {
    const std::shared_ptr<const BatchSteps::Made> step = made.at(batches[static_cast<std::size_t>(i)]);
    return std::shared_ptr<const RankStep>(step, &step->step);
  };
  replayed.limited =
      replay_each_within(bytes, run, static_cast<int>(batches.size()), next, [&](int, const StepReading& step) {
        replayed.steps.push_back(step);
        if (told) told();
      });
  return replayed;
}

}  // namespace gpuplan

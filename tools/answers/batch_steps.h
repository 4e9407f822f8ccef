// The steps of a loop whose batches differ, made when they are asked for, and the loop of them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "estimator/allocator/loop_replay.h"
#include "estimator/search/batch_lengths.h"
#include "tools/answers/planning.h"
#include "tools/options/commit_model.h"
#include "tools/options/run_options.h"

namespace gpuplan {

/// Several threads may ask at once.
class BatchSteps {
 public:
  /// Where one of the batches has padding, a data collator's attention_mask tells the model.
  BatchSteps(const RunOptions& options, const Planning& planning, const std::vector<StepBatch>& batches);

  struct Made {
    Model model;
    RankStep step;
  };
  std::shared_ptr<const Made> at(const StepBatch& batch);

  bool masks() const { return masks_; }
  std::vector<std::string> stored_type_warning(const RunOptions& options) const;

 private:
  SpecOptions of_length(std::int64_t tokens) const;

  WrittenModel written_;
  const Planning& planning_;
  const Gpu gpu_;
  bool masks_ = false, chooses_ = false;
  std::mutex mutex_;
  std::map<StepBatch, std::shared_ptr<const Made>> made_;
};

struct ReplayedSteps {
  std::vector<StepReading> steps;
  LimitedReplay limited;
};

/// `told` is called after each step.
ReplayedSteps replay_batches(BatchSteps& made, const std::vector<StepBatch>& batches, const RunConfig& run,
                             std::int64_t bytes = INT64_MAX, const std::function<void()>& told = {});

}  // namespace gpuplan

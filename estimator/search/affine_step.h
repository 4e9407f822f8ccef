// Steps of one model at many batches without lowering the model for each: nearly every size of a step is affine in the
// batch, and the exceptions can be detected.
//
// A step is lowered whole at the two ends of a range of batches and at two neighbours in the middle. Where the four
// consist of the same operations, and every size that differs lies on one line with a whole slope, a batch between them
// is the same step with those sizes set. What a kernel allocates while it runs (a workspace, a reduction's staging) is
// not affine and is computed anew. Four steps are enough, since all else that lowering does with the batch
// - is a comparison with a limit (32-bit indices, a batch of 1), whose answer changes once over the range; or
// - is a division, which the neighbours do not agree on unless it is exact everywhere; or
// - is worked out by rules that round and choose: attention's and recurrent layers' operations, which must be the same
//   at all four; and PyTorch's choice between its own and cuDNN's depthwise kernel, for which there is no line at all.
//
// It halves what a sweep of many batches takes (tests/bench/RESULTS.md): 1,999 of ResNet-50 0.41 s, one by one 0.80 s.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "estimator/plan/plan.h"
#include "estimator/search/step_values.h"

namespace gpuplan {

class AffineStep {
 public:
  /// Fewer batches are not worth a line.
  static constexpr std::int64_t kFewest = 12;

  struct Found;
  /// Of the run at every batch from `lowest` to `highest`; run.batch is not read.
  static Found through(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu, std::int64_t lowest,
                       std::int64_t highest, bool timed);

  /// The plan as make_plan() returns it, until the next call; null for a batch outside the range, or one that does not
  /// split into the run's micro-batches.
  Plan* at(std::int64_t batch);

 private:
  struct Sloped {
    std::int64_t* size;         // in plan_->step
    std::int64_t least, slope;  // at the lowest batch; a sample of a micro-batch
  };

  AffineStep(const Model& model, RankStep step, std::int64_t lowest, std::int64_t highest);

  bool follow(const StepValues& own, const StepValues& highest);
  void move_to(std::int64_t samples);  // of a micro-batch, beyond the lowest batch

  std::unique_ptr<Plan> plan_;
  std::int64_t lowest_, highest_;
  std::vector<Sloped> sloped_;
};

struct AffineStep::Found {
  std::optional<AffineStep> line;  // nothing where there is none
  bool parts_may = false;          // there may be one through a part of the range
};

}  // namespace gpuplan

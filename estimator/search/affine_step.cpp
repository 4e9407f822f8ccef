#include "estimator/search/affine_step.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "estimator/base/error.h"
#include "estimator/schedule/step_writer.h"

namespace gpuplan {
namespace {

// A kernel that PyTorch chooses by ranges of the batch (check_cudnn_depthwise_workload,
// aten/src/ATen/native/Convolution.cpp).
bool chooses_by_batch(const Op& op) {
  const auto* const convolution = std::get_if<Convolution>(&op.what);
  return convolution != nullptr && convolution->dtype == DType::fp16 && convolution->groups > 1 &&
         convolution->groups == convolution->c;
}

RankStep lower_at(const Model& model, Catalog catalog, RunConfig run, const Gpu& gpu, std::int64_t batch, bool timed) {
  run.batch = batch;
  return make_step(model, catalog, run, gpu, {}, timed);
}

}  // namespace

AffineStep::AffineStep(const Model& model, RankStep step, std::int64_t lowest, std::int64_t highest)
    : plan_(std::make_unique<Plan>()), lowest_(lowest), highest_(highest) {
  plan_->model = &model;
  plan_->step = std::move(step);
}

AffineStep::Found AffineStep::through(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu,
                                      std::int64_t lowest, std::int64_t highest, bool timed) {
  const std::int64_t parts = run.micro_batches;
  if (parts < 1 || lowest % parts != 0 || highest % parts != 0) return {};
  const std::int64_t samples = (highest - lowest) / parts, middle = samples / 2;
  if (samples < kFewest) return {};
  try {
    const auto lowered = [&](std::int64_t n) { return lower_at(model, catalog, run, gpu, lowest + n * parts, timed); };
    RankStep one = lowered(middle), next = lowered(middle + 1);
    if (std::ranges::any_of(one.graph.forward_ops, chooses_by_batch)) return {};
    const StepValues at_one = values_of(one), at_next = values_of(next);
    if (at_one.others != at_next.others) return {};  // an operation that is on no line

    RankStep last = lowered(samples);
    AffineStep line(model, lowered(0), lowest, highest);
    const StepValues own = values_of(line.plan_->step), at_last = values_of(last);
    if (own.others != at_one.others || own.others != at_last.others || !line.follow(own, at_last)) return {{}, true};
    for (const auto& [n, found] : {std::pair(middle, &at_one), std::pair(middle + 1, &at_next)}) {
      line.move_to(n);
      if (!std::ranges::equal(own.sizes, found->sizes, [](const auto* a, const auto* b) { return *a == *b; }))
        return {{}, true};
    }
    return {std::move(line)};
  } catch (const Error&) {  // told where such a batch is planned
    return {{}, true};
  }
}

// Draws the lines from the lowest batch, which the step has now, to the highest. False where one has no whole slope.
bool AffineStep::follow(const StepValues& own, const StepValues& highest) {
  const std::int64_t samples = (highest_ - lowest_) / plan_->step.run.micro_batches;
  for (std::size_t i = 0; i < own.sizes.size(); ++i) {
    const std::int64_t grown = *highest.sizes[i] - *own.sizes[i];
    if (grown % samples != 0) return false;
    if (grown != 0) sloped_.push_back({own.sizes[i], *own.sizes[i], grown / samples});
  }
  return true;
}

void AffineStep::move_to(std::int64_t samples) {
  RankStep& step = plan_->step;
  step.run.batch = lowest_ + samples * step.run.micro_batches;
  for (const Sloped& s : sloped_) *s.size = s.least + s.slope * samples;
  for (Schedule& schedule : step.micro_batches.schedules) StepWriter(schedule, step.run, step.gpu).renew_scratch();
}

Plan* AffineStep::at(std::int64_t batch) {
  const std::int64_t parts = plan_->step.run.micro_batches;
  if (batch < lowest_ || batch > highest_ || (batch - lowest_) % parts != 0) return nullptr;
  move_to((batch - lowest_) / parts);
  plan_->replay_step();
  return plan_.get();
}

}  // namespace gpuplan

#include "estimator/search/speed_advice.h"

#include <algorithm>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"
#include "estimator/device/arithmetic.h"
#include "estimator/plan/verdict.h"
#include "estimator/search/aligned_sizes.h"
#include "estimator/spec/work.h"
#include "estimator/time/step_time.h"

namespace gpuplan {
namespace {

constexpr double kLeastGain = 1.01, kLeastGainOfBatch = 1.1;
constexpr std::size_t kMostSizes = 3;  // that are tried

class Adviser {
 public:
  Adviser(const Plan& plan, Catalog catalog, HostCopy copy, const StepTime& now, const TimeModel& constants)
      : plan_(plan), catalog_(catalog), copy_(copy), now_(now), constants_(constants) {}

  std::vector<Advice> advice() {
    precision();
    layout();
    shapes();
    batch();
    std::ranges::stable_sort(found_, std::ranges::greater{}, &Advice::gain);
    return std::move(found_);
  }

 private:
  static double seconds_a_sample(const StepTime& time) {
    return time.seconds() / static_cast<double>(std::max<std::int64_t>(time.samples, 1));
  }

  // A change that cannot be planned is none.
  void try_change(const Model& model, const RunConfig& run, Advice advice, double least_gain = kLeastGain) {
    try {
      if (!why_no_time(run, gpu_, copy_).empty()) return;
      const Plan changed = make_plan(model, catalog_, run, &gpu_, {}, true);
      const auto time = step_time(changed.step, copy_, constants_);
      if (!time || time->seconds() <= 0) return;
      advice.step_seconds = time->seconds();
      advice.gain = seconds_a_sample(now_) / seconds_a_sample(*time);
      if (advice.gain < least_gain) return;
      const Report report = report_of(changed);
      const Verdict v = verdict(report);
      advice.device_bytes = report.peak.device_bytes;
      advice.fits = !v.known || v.fits;
      found_.push_back(std::move(advice));
    } catch (const Error&) {
    }
  }

  void precision() {
    if (run_.weights != WeightFormat::as_computed) return;
    if (is_emulated()) return supported_precision();
    if (run_.precision != DType::fp32 || run_.autocast) return;
    RunConfig changed = run_;
    if (!run_.tf32 && on_tensor_cores(gpu_, Arithmetic::tf32)) {
      changed.tf32 = true;
      try_change(model_, changed,
                 {Advice::Kind::precision, "--precision tf32", "fp32 matrix products do not use the tensor cores"});
      changed.tf32 = false;
    }
    // bf16 needs no GradScaler; fp16 is what GPUs without it have.
    const bool bf16 = on_tensor_cores(gpu_, Arithmetic::bf16);
    if (!bf16 && !on_tensor_cores(gpu_, Arithmetic::fp16)) return;
    const DType type = bf16 ? DType::bf16 : DType::fp16;
    const std::string word(name_of(type));
    const bool training = run_.mode == Mode::train;
    if (training)
      changed.autocast = type;
    else
      changed.precision = type;
    try_change(model_, changed,
               {Advice::Kind::precision, (training ? "--amp " : "--precision ") + word,
                "tensor cores are faster in " + word + ", and half as many bytes are moved"});
  }

  // bf16 before Ampere.
  bool is_emulated() const {
    const DType type = run_.autocast.value_or(run_.precision);
    return type == DType::bf16 && !computes(gpu_, Arithmetic::bf16);
  }
  void supported_precision() {
    const std::string reason = "bf16 is emulated on this GPU, without tensor cores";
    for (const DType type : {DType::fp16, DType::fp32}) {
      RunConfig changed = run_;
      const bool casts = run_.autocast && type == DType::fp16;
      changed.autocast = casts ? std::optional(type) : std::nullopt;
      changed.precision = casts ? run_.precision : type;
      const std::string flag = casts ? "--amp " : "--precision ";
      try_change(model_, changed, {Advice::Kind::precision, flag + std::string(name_of(type)), reason});
    }
  }

  void layout() {
    if (run_.layout != MemoryFormat::contiguous) return;
    RunConfig changed = run_;
    changed.layout = MemoryFormat::channels_last;
    try_change(
        model_, changed,
        {Advice::Kind::layout, "--layout nhwc", "cuDNN's tensor core kernels convert images from NCHW and back"});
  }

  // Whether tensor cores multiply factors of this type: others have no loads to wait for.
  bool multiplied_on_tensor_cores(DType type) const {
    switch (type) {
      case DType::fp16: return on_tensor_cores(gpu_, Arithmetic::fp16);
      case DType::bf16: return on_tensor_cores(gpu_, Arithmetic::bf16);
      case DType::fp32: return run_.tf32 && on_tensor_cores(gpu_, Arithmetic::tf32);
      default: return false;
    }
  }

  void shapes() {
    std::vector<UnalignedSize> sizes = unaligned_sizes(plan_.step.micro_batches);
    std::erase_if(sizes, [&](const UnalignedSize& s) { return !multiplied_on_tensor_cores(s.dtype); });
    for (std::size_t i = 0; i < std::min(sizes.size(), kMostSizes); ++i) {
      const std::size_t before = found_.size();
      for (const std::int64_t multiple : {std::int64_t{8}, std::int64_t{64}}) {
        const std::int64_t size = sizes[i].size, larger = checked_mul((size + multiple - 1) / multiple, multiple);
        if (larger == size) continue;
        try_change(with_size(model_, size, larger), run_,
                   {Advice::Kind::shape, size_change(model_, size, larger),
                    "rows of " + std::to_string(size) + " elements are not a multiple of 16 bytes"});
      }
      // Of the two the better one.
      if (found_.size() == before + 2)
        found_.erase(found_[before].gain >= found_[before + 1].gain ? found_.end() - 1 : found_.end() - 2);
    }
  }

  void batch() {
    if (now_.bound == Bound::compute) return;
    RunConfig changed = run_;
    changed.batch = checked_mul(run_.batch, 2);
    const std::string reason = now_.bound == Bound::launch
                                   ? "launching kernels takes the host longer than running them takes the GPU"
                                   : "the step is memory-bound";
    try_change(model_, changed, {Advice::Kind::batch, "--batch " + std::to_string(changed.batch), reason},
               kLeastGainOfBatch);
  }

  const Plan& plan_;
  const Model& model_ = *plan_.model;
  const RunConfig& run_ = plan_.step.run;
  const Gpu& gpu_ = plan_.step.gpu;
  Catalog catalog_;
  HostCopy copy_;
  const StepTime& now_;
  const TimeModel& constants_;
  std::vector<Advice> found_;
};

}  // namespace

std::vector<Advice> speed_advice(const Plan& plan, Catalog catalog, HostCopy copy, const StepTime& now,
                                 const TimeModel& constants) {
  if (!may_search(*plan.model, plan.step.run)) return {};
  return Adviser(plan, catalog, copy, now, constants).advice();
}

}  // namespace gpuplan

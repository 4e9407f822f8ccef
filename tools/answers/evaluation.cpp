#include "tools/answers/evaluation.h"

#include <utility>

#include "tools/answers/batch_steps.h"
#include "tools/answers/loop_page.h"
#include "tools/answers/planning.h"

namespace gpuplan {
namespace {

constexpr std::size_t kStepsBefore = 3, kStepsAfter = 2;  // of training: the third is steady

Error refused_of_evaluation(const std::string& flag, const std::string& why) {
  return Error(flag + " with --eval-batch: " + why, ErrorKind::usage);
}

void refuse_what_is_not_planned(const RunOptions& o, const RunConfig& run) {
  if (!o.step.empty()) throw refused_of_evaluation("--step " + o.step, "every step is planned").help("leave it out");
  if (run.mode == Mode::infer)
    throw refused_of_evaluation("--mode infer", "an evaluation is planned between steps of training")
        .help("without --eval-batch, --mode infer --labels is a forward with the model's own loss");
  if (run.allocator != AllocatorKind::caching)
    throw refused_of_evaluation("--allocator " + o.allocator,
                                "what the steps leave behind is PyTorch's caching allocator's");
  if (run.like == Like::lightning)
    throw refused_of_evaluation("--like lightning", "what its loop of validation holds was not recorded")
        .help("--like trainer, accelerate or pytorch");
}

std::vector<StepBatch> batches_of_loop(std::int64_t trained, const EvaluationLoop& evaluation) {
  std::vector<StepBatch> batches(kStepsBefore, StepBatch{.samples = trained});
  batches.insert(batches.end(), static_cast<std::size_t>(evaluation.steps),
                 StepBatch{.samples = evaluation.batch, .evaluates = true});
  batches.insert(batches.end(), kStepsAfter, StepBatch{.samples = trained});
  return batches;
}

void tell_assumptions(LengthsReport& r) {
  if (r.run.like == Like::pytorch)
    r.assumptions.emplace_back("gradients live through the evaluation: zero_grad() begins a step");
  r.assumptions.emplace_back("evaluation under no_grad(), without a cache of keys and values");
}

}  // namespace

LengthsReport with_evaluation(const RunOptions& options, const EvaluationOptions& given) {
  Planning planning = prepare_run(options);
  refuse_what_is_not_planned(options, planning.run);
  const EvaluationLoop evaluation = evaluation_loop(given);
  planning.run.evaluation = evaluation.config;
  LengthsReport r = begin_loop(planning);
  r.batches = batches_of_loop(r.run.batch, evaluation);
  BatchSteps made(options, planning, r.batches);
  r.steps = replay_batches(made, r.batches, r.run).steps;
  tell_assumptions(r);
  finish_loop(made, planning, options, r);
  return r;
}

int print_with_evaluation(const RunOptions& run, const EvaluationOptions& evaluation, const OutputOptions& output) {
  refuse_loop_formats(output);
  return print_loop(with_evaluation(run, evaluation), run.strict, output);
}

}  // namespace gpuplan

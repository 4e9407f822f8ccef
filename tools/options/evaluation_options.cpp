#include "tools/options/evaluation_options.h"

#include "estimator/base/error.h"
#include "tools/options/words.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kMostEvaluated = 10'000'000, kMostEvaluationSteps = 10'000, kUsualEvaluationSteps = 3;

}  // namespace

void add_evaluation_options(CLI::App& command, EvaluationOptions& o) {
  command.add_option("--eval-batch", o.batch, "Plans training with an evaluation in between, of batches of N samples")
      ->type_name("N");
  command.add_option("--eval-batches", o.steps, "Of --eval-batch: how many batches (3)")->type_name("N");
  command.add_flag("--eval-logits", o.logits, "Of --eval-batch: keeps the logits of all its batches, as metrics need");
  command
      .add_option("--eval-accumulation-steps", o.accumulation,
                  "Of --eval-logits: moves them to the host after so many batches (at the end)")
      ->type_name("N");
}

bool asks_for_evaluation(const EvaluationOptions& o) {
  if (!o.batch.empty()) {
    if (!o.accumulation.empty() && !o.logits)
      throw Error("--eval-accumulation-steps says when logits go to the host", ErrorKind::usage)
          .help("--eval-logits keeps them until then");
    return true;
  }
  const char* const flag = !o.steps.empty()          ? "--eval-batches"
                           : o.logits                ? "--eval-logits"
                           : !o.accumulation.empty() ? "--eval-accumulation-steps"
                                                     : nullptr;
  if (flag != nullptr)
    throw Error(std::string(flag) + " is for --eval-batch", ErrorKind::usage).help("--eval-batch 16");
  return false;
}

EvaluationLoop evaluation_loop(const EvaluationOptions& o) {
  EvaluationLoop loop;
  loop.batch = whole_number("--eval-batch", o.batch, 1, kMostEvaluated);
  loop.steps =
      o.steps.empty() ? kUsualEvaluationSteps : whole_number("--eval-batches", o.steps, 1, kMostEvaluationSteps);
  loop.config.keeps_logits = o.logits;
  if (!o.accumulation.empty())
    loop.config.accumulation_steps = whole_number("--eval-accumulation-steps", o.accumulation, 1, kMostEvaluationSteps);
  return loop;
}

}  // namespace gpuplan

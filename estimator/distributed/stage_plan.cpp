#include "estimator/distributed/stage_plan.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"
#include "estimator/distributed/pipeline.h"

namespace gpuplan {
namespace {

void refuse(const std::string& message, const char* help) {
  Error error(message, ErrorKind::usage);
  error.help(help);
  throw error;
}

void need_multiple(const char* what, std::int64_t n, const char* of, std::int64_t divisor) {
  if (n % divisor != 0)
    refuse(std::string(what) + " " + std::to_string(n) + " is not a multiple of " + of + " " + std::to_string(divisor),
           "Megatron-LM shares in equal parts");
}

}  // namespace

Transformer transformer_of(const Model& model, std::int64_t parameters, const Strategy& strategy) {
  const auto variable = [&](const char* name) {
    const auto found = std::ranges::find(model.vars, name, &Variable::name);
    if (found == model.vars.end())
      refuse(
          "--tp and --pp are planned for GPTs, and " + model.name + " has no variable called " + name,
          "zoo:gpt2 is one; --pp-schedule 1f1b cuts any model with blocks, and --tp without --pp shares the layers of "
          "Llama, Mistral, Mixtral, Qwen and Gemma, too");
    return found->value;
  };
  Transformer t{variable("layers"), variable("hidden"), variable("heads"), variable("seq"), variable("vocabulary")};
  const std::int64_t expected = parameters_of(t);
  if (std::abs(expected - parameters) > parameters / 100)
    refuse(
        "--tp and --pp are planned for GPTs, and " + model.name + " has " + std::to_string(parameters) +
            " parameters where a GPT has " + std::to_string(expected),
        "the formulas are for GPT-2's layers: biases, an ungated MLP of 4 x hidden, learned positions, and a head that "
        "shares the word embeddings; zoo:gpt2 is one. --pp-schedule 1f1b cuts any model with blocks, and --tp without "
        "--pp shares the layers of Llama, Mistral, Mixtral, Qwen and Gemma, too");
  t.vocabulary = round_up(t.vocabulary, checked_mul(128, strategy.tensor));
  return t;
}

std::vector<StageRow> plan_stages(const Transformer& model, const Strategy& strategy, std::int64_t batch,
                                  std::int64_t micro_batches, RecomputeMode recompute) {
  if (strategy.data != DataParallel::ddp && strategy.data != DataParallel::zero1)
    refuse("--tp and --pp go with --zero 0 or 1", "ZeRO-1 is Megatron-LM's distributed optimizer");
  need_multiple("heads:", model.heads, "--tp", strategy.tensor);
  need_multiple("layers:", model.layers, "--pp", strategy.pipeline);
  need_multiple("--batch", batch, "data-parallel ranks times micro-batches,",
                checked_mul(strategy.ranks(), micro_batches));
  const std::int64_t samples = batch / strategy.ranks() / micro_batches;
  const std::int64_t sharing = strategy.data == DataParallel::zero1 ? strategy.ranks() : 1;
  std::vector<StageRow> rows;
  for (std::int64_t stage = 0; stage < strategy.pipeline; ++stage) {
    StageRow row;
    row.parameters = stage_parameters(model, strategy.tensor, strategy.pipeline, stage);
    row.state_bytes = checked_mul(6, row.parameters) + checked_mul(12, (row.parameters + sharing - 1) / sharing);
    row.in_flight = micro_batches_in_flight(stage, strategy.pipeline, micro_batches);
    row.activation_bytes = std::llround(
        stage_activation_bytes(model, samples, strategy.tensor, strategy.pipeline, stage, micro_batches, recompute));
    rows.push_back(row);
  }
  return rows;
}

}  // namespace gpuplan

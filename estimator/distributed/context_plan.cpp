#include "estimator/distributed/context_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/distributed/layer_calls.h"

namespace gpuplan {
namespace {

[[noreturn]] void refuse_tokens(std::string message, std::string help) {
  Error error(std::move(message), ErrorKind::usage);
  error.help(std::move(help));
  throw error;
}

// accelerate/big_modeling.py, _attach_context_parallel_hooks
bool has_window(const Model& model) {
  return has_call(model.layers, [](const Node&, const LayerCall& call) {
    return call.type == "CausalMask" && std::ranges::any_of(call.arguments, [](const Argument& a) {
             return a.name == "sliding_window" && !std::holds_alternative<None>(a.value.as);
           });
  });
}

}  // namespace

Variable context_variable(const Model& model, std::int64_t ranks) {
  const auto seq = std::ranges::find(model.vars, "seq", &Variable::name);
  if (seq == model.vars.end())
    refuse_tokens("--cp cuts the tokens of a sample, and " + model.name + " has no variable called seq",
                  "it is planned of decoders as config.json describes them; leave out --cp");
  if (has_window(model))
    refuse_tokens("Accelerate refuses " + model.name +
                      ": \"Context parallelism does not support attention layers of type ['sliding_attention']\"",
                  "leave out --cp, or set sliding_window to null where the context is within the window");
  if (seq->value % ranks != 0)
    refuse_tokens(
        "--cp " + std::to_string(ranks) + " does not divide the " + std::to_string(seq->value) + " tokens of a sample",
        "--seq " + std::to_string((seq->value / ranks + 1) * ranks) + " is the next one that it does");
  return {seq->name, seq->value / ranks};
}

void refuse_context(const RunConfig& run, const Strategy& strategy) {
  if (run.mode == Mode::infer) refuse_tokens("--cp is planned for training", "leave out --mode infer");
  if (strategy.data != DataParallel::fsdp)
    refuse_tokens("--cp is planned with FSDP2 over the same ranks, as Accelerate requires it", "--zero fsdp");
  if (strategy.pipeline > 1 || strategy.experts > 1)
    refuse_tokens("--cp is not planned with --pp and --ep", "leave them out");
  if (run.pytorch != kNewestPyTorch) refuse_tokens("--cp is planned as PyTorch 2.15 does it", "leave out --pytorch");
  if (run.attention == Attention::eager)
    refuse_tokens("transformers refuses it: \"Context parallelism is supported only with SDPA attention\"",
                  "leave out --attention eager");
  if (run.autocast) refuse_tokens("--amp is not planned with --cp", "--fsdp param=bf16,reduce=fp32");
  if (run.weights != WeightFormat::as_computed || run.kernels == Kernels::liger ||
      (run.like != Like::pytorch && run.like != Like::trainer))
    refuse_tokens("--weights, --kernels and --like accelerate or lightning are not planned with --cp",
                  "leave them out");
  if (run.offload_saved || run.checkpoint.reentrant)
    refuse_tokens("--offload saved and reentrant checkpoints are not planned with --cp", "leave them out");
}

}  // namespace gpuplan

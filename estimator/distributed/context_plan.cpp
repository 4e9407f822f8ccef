#include "estimator/distributed/context_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/distributed/layer_calls.h"

namespace gpuplan {
namespace {

constexpr const char* kPlanned =
    "Llama, Mistral, Mixtral, Qwen and Gemma, as config.json describes them, are; leave out --cp";

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
                  "leave out --cp");
  const auto packed = std::ranges::find(model.vars, "packed", &Variable::name);
  if (packed != model.vars.end() && packed->value != 0)
    refuse_tokens("--cp is not planned of packed samples: Accelerate's hooks drop the mask that keeps them apart",
                  "leave out --set packed=1");
  constexpr std::int64_t kMostTokens = 1'000'000'000;
  if (seq->value % ranks != 0 && seq->value > kMostTokens)
    refuse_tokens("--cp " + std::to_string(ranks) + " does not divide the tokens of a sample", "choose another --seq");
  if (seq->value % ranks != 0)
    refuse_tokens(
        "--cp " + std::to_string(ranks) + " does not divide the " + std::to_string(seq->value) + " tokens of a sample",
        "--seq " + std::to_string((seq->value / ranks + 1) * ranks) + " is the next length that it does");
  return {seq->name, seq->value / ranks};
}

void check_context(const Model& whole, const Model& part, std::int64_t ranks) {
  for (std::size_t i = 0; i < whole.inputs.size(); ++i)
    if (whole.inputs[i].shape.empty() || whole.inputs[i].shape[0] != part.inputs[i].shape[0] * ranks)
      refuse_tokens("--cp cuts the tokens of a sample, and the input " + whole.inputs[i].name + " of " + whole.name +
                        " is not as long as its variable seq says",
                    "write its shape as [seq]; leave out --cp");
}

bool has_context(const Model& model) {
  const bool tokens =
      model.inputs.size() == 1 && model.inputs.front().shape.size() == 1 && model.inputs.front().dtype == DType::int64;
  return tokens && model.loss.type == "CausalLMLoss" && model.losses.empty();
}

void refuse_model_of_context(const Model& model) {
  if (has_context(model)) return;
  refuse_tokens("--cp is planned of causal language models that are given tokens alone, and " + model.name + " is none",
                kPlanned);
}

void refuse_graph_of_context(const Graph& graph) {
  const bool counts = std::ranges::find(graph.layers, "PositionIds", &Layer::type) != graph.layers.end();
  const bool rings = std::ranges::find(graph.forward_ops, Operator::all_gather, &Op::kind) != graph.forward_ops.end();
  if (counts && rings) return;
  refuse_tokens("--cp is not planned of " + graph.model + ": it has " +
                    (counts ? "no attention that gathers keys and values" : "positions of its own"),
                kPlanned);
}

std::vector<Strategy> ranks_of_context(const Strategy& strategy) {
  std::vector<Strategy> ranks;
  for (const std::int64_t rank : {std::int64_t{1}, strategy.context - 1}) {
    if (rank >= strategy.context || std::ssize(ranks) == strategy.context - 1) continue;
    ranks.push_back(strategy);
    ranks.back().rank = rank;
  }
  return ranks;
}

void refuse_context(const RunConfig& run, const Strategy& strategy) {
  if (run.mode == Mode::infer) {
    if (run.labels || run.generation.part != Generation::Part::none)
      refuse_tokens("--cp is planned of one forward that returns logits", "leave out --labels and --phase");
    if (strategy.data != DataParallel::none)
      refuse_tokens("--cp of inference is planned with the whole model on each rank, or with --tp",
                    "leave out --zero and --fsdp");
  } else if (strategy.data != DataParallel::fsdp)
    refuse_tokens("--cp is planned with FSDP2 over the same ranks, as Accelerate requires it", "--zero fsdp");
  if (run.pytorch != kNewestPyTorch) refuse_tokens("--cp is planned as PyTorch 2.15 does it", "leave out --pytorch");
  if (run.attention == Attention::eager)
    refuse_tokens("transformers refuses it: \"Context parallelism is supported only with SDPA attention\"",
                  "leave out --attention eager");
  if (run.weights != WeightFormat::as_computed)
    refuse_tokens("stored weights are not planned with --cp", "leave out --weights");
  if (run.kernels == Kernels::liger) refuse_tokens("Liger's kernels are not planned with --cp", "leave out --kernels");
  if (run.like != Like::pytorch && run.like != Like::trainer)
    refuse_tokens("--like accelerate and lightning are not planned with --cp",
                  "--accelerate FILE plans what a config of Accelerate says");
  if (run.offload_saved || run.checkpoint.reentrant)
    refuse_tokens("--offload saved and reentrant checkpoints are not planned with --cp", "leave them out");
}

}  // namespace gpuplan

#include "estimator/distributed/tensor_plan.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/distributed/layer_calls.h"
#include "estimator/graph/tensor_style.h"

namespace gpuplan {
namespace {

constexpr std::array<std::string_view, 3> kDivided = {"heads", "kv_heads", "inner"};

const Variable* find_variable(const Model& model, std::string_view name) {
  const auto found = std::ranges::find(model.vars, name, &Variable::name);
  return found == model.vars.end() ? nullptr : &*found;
}

[[noreturn]] void refuse_plan(std::string message, std::string help) {
  Error error(std::move(message), ErrorKind::usage);
  error.help(std::move(help));
  throw error;
}

bool has_linear(const Body& body, std::string_view name) {
  return has_call(body,
                  [&](const Node& node, const LayerCall& call) { return call.type == "Linear" && node.name == name; });
}

// Weights of exported families that their code reads itself, and gpt-oss's experts, which transformers shares in other
// ways.
bool has_weights_of_its_own(const Body& body) {
  return has_call(body, [](const Node&, const LayerCall& call) {
    return call.type == "Parameter" || call.type == "GptOssExperts";
  });
}

// How a for loop over torch.optim's other parameters reads a gradient that DTensor sums each time was not recorded.
void refuse_optimizer(const RunConfig& run) {
  const bool adam = run.optimizer.kind == OptimizerKind::adam || run.optimizer.kind == OptimizerKind::adamw;
  const bool decays = run.optimizer.weight_decay && run.optimizer.kind != OptimizerKind::adamw;
  const bool known = (adam || run.optimizer.kind == OptimizerKind::sgd) && !run.optimizer.nesterov && !decays;
  if (known && !run.optimizer.bitsandbytes && !run.optimizer.recorder) return;
  refuse_plan("with --tp alone, steps of sgd, momentum, adam and adamw without L2 decay are planned",
              "--zero fsdp with more --gpus plans any");
}

// transformers shares some of the weights: foreach and fused refuse tensors beside DTensors. With sequence parallelism
// all are DTensors.
void step_shared(const TensorPlan& plan, GivenFlags given, RunConfig& run) {
  if (run.mode == Mode::infer || !run.optimizer.steps()) return;
  if (plan.sequence) return refuse_optimizer(run);
  if (given.optimizer_impl && run.optimizer.impl != OptimizerImpl::for_loop)
    refuse_plan("PyTorch refuses this optimizer with tensor parallelism alone: \"got mixed torch.Tensor and DTensor\"",
                "--opt-impl for-loop, which is foreach=False");
  run.optimizer.impl = OptimizerImpl::for_loop;
  refuse_optimizer(run);
}

}  // namespace

bool has_tensor_plan(const Model& model) {
  return std::ranges::all_of(kDivided, [&](std::string_view name) { return find_variable(model, name) != nullptr; }) &&
         has_linear(model.layers, "q_proj") && has_linear(model.layers, "o_proj") &&
         !has_weights_of_its_own(model.layers);
}

bool has_experts(const Model& model) {
  return has_call(model.layers, [](const Node&, const LayerCall& call) { return is_experts_layer(call.type); });
}

bool is_experts_layer(std::string_view type) {
  return type == "MixtureOfExperts" || type == "Experts" || type == "GptOssExperts";
}

std::vector<Variable> divided_variables(const Model& model, std::int64_t ranks) {
  std::vector<Variable> divided;
  const auto divide = [&](std::string_view name) {
    const Variable* const v = find_variable(model, name);
    if (v == nullptr) return;
    if (v->value % ranks != 0)
      refuse_plan(std::string(name) + ": " + std::to_string(v->value) + " of " + model.name +
                      " is not a multiple of --tp " + std::to_string(ranks),
                  "transformers shares heads evenly");
    divided.push_back({v->name, v->value / ranks});
  };
  divide("vocabulary");  // of lm_head, whose layer divides it itself
  divided.clear();
  for (const std::string_view name : kDivided) divide(name);
  return divided;
}

Strategy with_shared_layers(Strategy strategy, GivenFlags given, RunConfig& run) {
  run.tensor_plan = strategy.tensor_plan;
  if (strategy.ranks() == 1 && !given.data_parallel) strategy.data = DataParallel::none;
  if (strategy.data != DataParallel::none && strategy.data != DataParallel::fsdp)
    refuse_plan("tensor parallelism is planned alone and with FSDP2 over the other ranks", "--zero fsdp");
  if (run.autocast) refuse_plan("--amp is not planned with --tp", "--precision bf16, or --fsdp param=bf16,reduce=fp32");
  if (run.lora && strategy.tensor_plan.sequence)  // torch/distributed/tensor/parallel/style.py, of peft's modules
    refuse_plan(
        "PyTorch refuses layers with adapters: \"ColwiseParallel currently only support nn.Linear and "
        "nn.Embedding!\"",
        "leave out --lora, or --tp: --fsdp over all --gpus trains adapters");
  if (run.lora || run.weights != WeightFormat::as_computed)
    refuse_plan("adapters and stored weights are not planned with --tp", "leave out --lora and --weights");
  if (run.kernels == Kernels::liger) refuse_plan("Liger's kernels are not planned with --tp", "leave out --kernels");
  if (run.offload_saved || run.offload_optimizer || run.optimizer_in_backward || run.master_weights)
    refuse_plan("offloading, optimizers in backward and master weights are not planned with --tp", "leave them out");
  if (run.like != Like::pytorch) refuse_plan("--like is not planned with --tp", "leave it out");
  if (run.clip_grad_norm && strategy.tensor_plan.sequence && strategy.data == DataParallel::none)
    refuse_plan("--clip-grad-norm of gradients that DTensor sums each time is not planned",
                "--fsdp with more --gpus, or leave out --clip-grad-norm");
  if (run.clip_grad_norm && !strategy.tensor_plan.sequence)
    refuse_plan("PyTorch refuses clip_grad_norm_ of these gradients: \"all operands must have the same mesh\"",
                "leave out --clip-grad-norm");
  if (strategy.tensor_plan.sequence && run.pytorch != kNewestPyTorch)
    refuse_plan("sequence parallelism is planned as PyTorch 2.15 does it", "leave out --pytorch");
  if (strategy.data == DataParallel::none) step_shared(strategy.tensor_plan, given, run);
  return strategy;
}

}  // namespace gpuplan

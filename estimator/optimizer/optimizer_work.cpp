#include "estimator/optimizer/optimizer_work.h"

#include <algorithm>

#include "estimator/base/dtype.h"
#include "estimator/base/error.h"
#include "estimator/base/integers.h"
#include "estimator/graph/tensor_style.h"
#include "estimator/optimizer/grad_scaler.h"
#include "estimator/optimizer/parameter_groups.h"
#include "estimator/optimizer/recorded_optimizer.h"

namespace gpuplan {
namespace {

using Kind = OptimizerEvent::Kind;

void refuse(std::string message, std::string help) {
  Error error(std::move(message), ErrorKind::usage);
  error.help(std::move(help));
  throw error;
}

void check(const RunConfig& run) {
  if (run.master_weights && !is_half(run.precision))
    refuse("master weights belong to a model in half precision, this one is " + std::string(name_of(run.precision)),
           "use them with fp16 or bf16 parameters");
  if (run.optimizer_in_backward && run.scales_gradients())
    refuse("an optimizer in backward steps before a GradScaler could look at all gradients",
           "bf16 autocast needs no scaler");
  if (run.optimizer_in_backward && run.clip_grad_norm)
    refuse("an optimizer in backward frees each gradient before their norm is known", "leave out gradient clipping");
  if (run.optimizer_in_backward && run.master_weights)
    refuse("master weights and an optimizer in backward exclude each other", "choose one of them");
  if (run.offload_optimizer && run.optimizer.bitsandbytes)
    refuse("bitsandbytes' optimizers step on the GPU",
           "--opt paged_adamw8bit keeps states on the host where there is no room");
  if (run.optimizer.recorder && (run.offload_optimizer || run.optimizer_in_backward || run.master_weights))
    refuse("--opt " + run.optimizer.recorder->name() + " is recorded in a training loop of its own step, on the GPU",
           "leave out --offload optimizer, --optimizer-in-backward and --master");
  if (run.offload_optimizer && run.scales_gradients())
    refuse("a GradScaler does not step an optimizer on the host", "bf16 autocast needs no scaler");
}

void append(OptimizerProgram& to, const OptimizerProgram& from) {
  to.events.insert(to.events.end(), from.events.begin(), from.events.end());
  to.kernels += from.kernels;
  to.elementwise_flops += from.elementwise_flops;
  to.product_flops += from.product_flops;
  to.product_type = from.product_type;
  to.bytes_moved += from.bytes_moved;
}

// main = p.detach().clone().float()
OptimizerProgram master_copies(const std::vector<OptimizerParameter>& trained) {
  OptimizerProgram p;
  for (const OptimizerParameter& parameter : trained) {
    if (!is_half(parameter.dtype)) continue;
    p.events.push_back({Kind::alloc_tensor, 0, parameter.elements * size_of(parameter.dtype)});
    p.events.push_back({Kind::alloc_state, 0, parameter.elements * size_of(DType::fp32)});
    p.events.push_back({Kind::free, 0, 0});
    p.kernels += 1;
  }
  return p;
}

// main.grad = p.grad.float(); p.grad = None
OptimizerProgram master_gradients(const std::vector<OptimizerParameter>& stepped) {
  OptimizerProgram p;
  for (std::size_t i = 0; i < stepped.size(); ++i) {
    if (!is_half(stepped[i].dtype)) continue;
    p.events.push_back({Kind::alloc_gradient, 0, stepped[i].elements * size_of(DType::fp32)});
    p.events.push_back({Kind::free_gradient, static_cast<std::int32_t>(i), 0});
    p.kernels += 1;
  }
  return p;
}

void use_master_copies(Parameters& parameters, const RunConfig& run) {
  for (std::vector<OptimizerParameter>* list : {&parameters.trained, &parameters.stepped})
    for (OptimizerParameter& p : *list) p.dtype = stepped_type(p.dtype, run);
}

void step_one_by_one(const Parameters& parameters, const RunConfig& run, const Gpu& gpu, OptimizerWork& work) {
  for (const OptimizerParameter& p : parameters.stepped) {
    work.first_of.push_back(optimizer_step({&p, 1}, run.optimizer, run.pytorch, gpu, true));
    work.steady_of.push_back(optimizer_step({&p, 1}, run.optimizer, run.pytorch, gpu, false));
  }
}

std::vector<NamedParameter> trained_by_name(const Graph& graph, const Schedule& schedule) {
  std::vector<NamedParameter> named;
  for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
    const ParameterTensor& p = graph.parameters[i];
    if (!p.trainable) continue;
    const Tensor& t = graph.tensor(p.tensor);
    named.push_back({path_of(graph, p), t.shape, t.dtype,
                     std::ranges::binary_search(schedule.with_gradient, static_cast<std::int32_t>(i))});
  }
  return named;
}

// Group by group, as a step has them.
RecordedOptimizer steps_of(const Graph& graph, const Schedule& schedule, const RunConfig& run, const Gpu& gpu) {
  RecordedOptimizer steps;
  if (run.optimizer.recorder) {
    if (schedule.with_gradient.empty()) return steps;
    return run.optimizer.recorder->record(trained_by_name(graph, schedule));
  }
  for (Parameters& group : parameters_of(graph, schedule, run.like)) {
    use_master_copies(group, run);
    append(steps.construction, optimizer_construction(group.trained, run.optimizer, run.pytorch));
    if (group.stepped.empty()) continue;
    append(steps.first, optimizer_step(group.stepped, run.optimizer, run.pytorch, gpu, true));
    append(steps.steady, optimizer_step(group.stepped, run.optimizer, run.pytorch, gpu, false));
  }
  return steps;
}

}  // namespace

DType stepped_type(DType parameter, const RunConfig& run) {
  return run.master_weights && is_half(parameter) ? DType::fp32 : parameter;
}

std::int64_t state_bytes(const OptimizerWork& work) {
  std::vector<const OptimizerProgram*> programs = {&work.construction, &work.first};
  for (const OptimizerProgram& program : work.first_of) programs.push_back(&program);
  return state_bytes(programs);
}

namespace {

SharedGradients shared_gradients(const Graph& graph, const Schedule& schedule, const RunConfig& run) {
  if (!run.tensor_plan.sequence) return {};
  const auto is_whole = [&](std::int32_t parameter) {
    const Layer& layer = graph.layers[index(graph.parameters[index(parameter)].layer)];
    return is_norm(tensor_style_of(layer.name, true));
  };
  return {.are = true, .whole = std::ranges::count_if(schedule.with_gradient, is_whole)};
}

}  // namespace

OptimizerWork optimizer_work(const Graph& graph, const Schedule& schedule, const RunConfig& run, const Gpu& gpu) {
  OptimizerWork work;
  work.trainer = trainer_tensors(graph, run);
  if (run.mode == Mode::infer || !run.optimizer.steps()) return work;
  check(run);
  Parameters parameters = parameters_of(graph, schedule, Like::pytorch).front();
  if (run.offload_optimizer) {
    work.first_of.resize(parameters.stepped.size());
    work.steady_of.resize(parameters.stepped.size());
    if (run.clip_grad_norm && !parameters.stepped.empty())
      work.clip = clip_grad_norm(parameters.stepped, run.pytorch, gpu);
    return work;
  }
  OptimizerProgram to_fp32;
  if (run.master_weights) {
    work.construction = master_copies(parameters.trained);
    to_fp32 = master_gradients(parameters.stepped);
    use_master_copies(parameters, run);
  }
  if (run.optimizer_in_backward) {
    append(work.construction, optimizer_construction(parameters.trained, run.optimizer, run.pytorch));
    step_one_by_one(parameters, run, gpu, work);
    return work;
  }
  const RecordedOptimizer steps = steps_of(graph, schedule, run, gpu);
  append(work.construction, steps.construction);
  if (parameters.stepped.empty()) return work;
  for (const Parameters& group : parameters_of(graph, schedule, run.like))
    work.managed_bytes = checked_add(work.managed_bytes, managed_bytes(group.stepped, run.optimizer));
  OptimizerProgram& begins = run.clip_grad_norm ? work.clip : work.first;
  append(begins, to_fp32);
  if (!run.clip_grad_norm) work.steady = to_fp32;
  if (run.clip_grad_norm)
    append(work.clip, clip_grad_norm(parameters.stepped, run.pytorch, gpu, shared_gradients(graph, schedule, run)));
  append(work.first, steps.first);
  append(work.steady, steps.steady);
  if (!run.scales_gradients()) return work;
  work.scaler = grad_scaler_state();
  // Gradients are unscaled before their norm is clipped; Lightning always does that before the step.
  const bool unscaled = run.like == Like::lightning || run.clip_grad_norm;
  if (unscaled) work.clip = grad_scaler_clip(work.clip);
  work.first = grad_scaler_step(work.first, run.optimizer.impl, unscaled);
  work.steady = grad_scaler_step(work.steady, run.optimizer.impl, unscaled);
  return work;
}

}  // namespace gpuplan

// Batch normalisation: cuDNN's where PyTorch takes it, else kernels of our own.
#include <array>
#include <cmath>
#include <string>
#include <variant>

#include "validate/cuda/convolutions.h"
#include "validate/cuda/cudnn_batch_norm.h"
#include "validate/cuda/kernels/batch_norm.h"
#include "validate/cuda/operation.h"

namespace gpuplan::cuda {
namespace {

const BatchNorm* work(const Kernel& k) { return k.what == nullptr ? nullptr : std::get_if<BatchNorm>(k.what); }
bool training(const Kernel& k) { return work(k) != nullptr && work(k)->training; }

BatchNormTensors forward_tensors(const Kernel& k) {
  BatchNormTensors t;
  t.x = k.reads[0];
  t.weight = optional(k.extra, 0);
  t.bias = optional(k.extra, 1);
  t.running_mean = optional(k.extra, 2);
  t.running_variance = optional(k.extra, 3);
  t.y = k.writes[0];
  t.mean = optional(k.writes, 1);
  t.invstd = optional(k.writes, 2);
  return t;
}

void note_lack(const Machine& m, const Kernel& k, const char* what, std::int64_t bytes) {
  Lack& lack = m.lacks[what];
  if (bytes > lack.bytes) lack = {bytes, std::string(k.layer)};
}

// cuDNN's workspace is an allocation of its own in PyTorch. Where the plan has placed none, there is the room for the
// kernels' partial sums; beyond it our kernel takes over. Both are said.
bool by_cudnn(const Machine& m, const Kernel& k, BatchNormPass pass, const BatchNormTensors& t,
              const BatchNormNumbers& numbers) {
  if (work(k) == nullptr || !work(k)->cudnn || !cudnn_takes(pass, t)) return false;
  const cudnnHandle_t handle = m.convolutions.handle();
  const BatchNormSpace space = cudnn_batch_norm_space(handle, pass, t);
  Workspace workspace;
  if (space.workspace > 0) workspace = {scratch_of(k, space.workspace), space.workspace};
  if (workspace.data == nullptr && space.workspace > 0 && space.workspace <= m.launch.partial_bytes) {
    note_lack(m, k, "cuDNN's batch norm was lent workspace that the plan does not have", space.workspace);
    workspace.data = m.launch.partials;
  }
  if (space.reserve > 0 || (workspace.data == nullptr && space.workspace > 0)) {
    note_lack(m, k, "gpuplan's batch norm ran where cuDNN's wants memory that the plan does not have",
              space.workspace + space.reserve);
    return false;
  }
  cudnn_batch_norm(handle, m.launch, pass, t, numbers, workspace);
  return true;
}

void run_batch_norm(const Machine& m, const Kernel& k) {
  const BatchNormTensors t = forward_tensors(k);
  const double momentum = k.number(Attribute::momentum);  // NaN: there is no running moment that it would move
  const BatchNormNumbers numbers{std::isnan(momentum) ? 0 : momentum, k.number(Attribute::eps)};
  if (by_cudnn(m, k, training(k) ? BatchNormPass::training : BatchNormPass::inference, t, numbers)) return;
  if (training(k)) return batch_norm_training(m.launch, t, numbers.momentum, numbers.eps);
  batch_norm_inference(m.launch, t, numbers.eps);
}

// cuDNN's reads x first, PyTorch's own the gradient; PyTorch's for channels that lie next to each other writes dx last.
BatchNormTensors backward_tensors(const Kernel& k) {
  BatchNormTensors t;
  const bool cudnn = k.op == Operator::cudnn_batch_norm_backward;
  t.x = k.reads[cudnn ? 0 : 1];
  t.grad = k.reads[cudnn ? 1 : 0];
  t.weight = optional(k.extra, 0);
  t.mean = optional(k.extra, 1);
  t.invstd = optional(k.extra, 2);
  t.running_mean = optional(k.extra, 3);
  t.running_variance = optional(k.extra, 4);
  const bool last = !cudnn && work(k) != nullptr && work(k)->native_rows;
  t.dx = optional(k.writes, last ? 2 : 0);
  t.dweight = optional(k.writes, last ? 0 : 1);
  t.dbias = optional(k.writes, last ? 1 : 2);
  return t;
}

void run_batch_norm_backward(const Machine& m, const Kernel& k) {
  const BatchNormTensors t = backward_tensors(k);
  const BatchNormNumbers numbers{0, k.number(Attribute::eps)};
  if (training(k) && by_cudnn(m, k, BatchNormPass::backward, t, numbers)) return;
  batch_norm_backward(m.launch, t, training(k), numbers.eps);
}

std::string refuse_batch_norm(const Kernel& k) {
  if (training(k) && k.writes.size() < 3) return "training without the batch's moments";
  if (!training(k) && k.extra.size() < 4) return "running moments that the plan does not give";
  if (training(k) && std::isnan(k.number(Attribute::momentum)) && optional(k.extra, 2).rank > 0)
    return "a cumulative average";
  return batch_norm_refusal(forward_tensors(k));
}

std::string refuse_batch_norm_backward(const Kernel& k) { return batch_norm_refusal(backward_tensors(k)); }

// instance_norm's.
BatchNormTensors given_moments(const Kernel& k) {
  BatchNormTensors t;
  t.grad = k.reads[0];
  t.x = k.reads[1];
  t.mean = k.reads[2];
  t.invstd = k.reads[3];
  t.weight = optional(k.reads, 4);
  const std::array<KernelTensor, 3> gradients = wanted_gradients(k);
  t.dx = gradients[0];
  t.dweight = gradients[1];
  t.dbias = gradients[2];
  return t;
}

void run_given_moments_backward(const Machine& m, const Kernel& k) {
  batch_norm_backward(m.launch, given_moments(k), true, k.number(Attribute::eps));
}

std::string refuse_given_moments_backward(const Kernel& k) {
  if (k.reads.size() < 4 || !k.has(Attribute::wants_input)) return "the plan does not say which gradients";
  return batch_norm_refusal(given_moments(k));
}

constexpr std::array kOperations{
    Operation{Operator::batch_norm, run_batch_norm, refuse_batch_norm},
    Operation{Operator::cudnn_batch_norm_backward, run_batch_norm_backward, refuse_batch_norm_backward},
    Operation{Operator::native_batch_norm_backward, run_batch_norm_backward, refuse_batch_norm_backward},
    Operation{Operator::batch_norm_backward, run_given_moments_backward, refuse_given_moments_backward}};
static_assert(is_whole_family(kOperations, OperatorFamily::batch_norms));

}  // namespace

std::span<const Operation> batch_norm_operations() { return kOperations; }

}  // namespace gpuplan::cuda

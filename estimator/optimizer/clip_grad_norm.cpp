// torch/nn/utils/clip_grad.py. Since 2.0 the norms come from _foreach_norm dtype by dtype (ForeachReduceOp.cu, with
// a buffer of one partial sum per chunk); 1.13 takes torch.norm of each gradient, a reduction of its own.
#include <algorithm>

#include "estimator/base/integers.h"
#include "estimator/operators/reduction.h"
#include "estimator/optimizer/multi_tensor_apply.h"
#include "estimator/optimizer/optimizer.h"
#include "estimator/optimizer/step_builder.h"

namespace gpuplan {
namespace {

constexpr PyTorchVersion kFirstForeachClip = 200;
// 2.8 has one row of partial sums per tensor, as long as the longest (recorded); 2.15 packs them and finds a tensor's
// own by an offset table (recorded). The release between is not known to us; 2.9 is taken.
constexpr PyTorchVersion kFirstPackedPartialSums = 209;
// Norms finished per launch of the second kernel (ForeachReduceOp.cu) in releases before; one launch does for the
// 1,000 tensors recorded with 2.15.
constexpr std::int64_t kNormsPerKernel = 400;
// cat copies up to this many inputs of one dtype per launch (aten/src/ATen/native/cuda/Shape.cu).
constexpr std::int64_t kCatBatch = 128;

DType promoted(DType a, DType b) {
  if (a == b) return a;
  return a == DType::fp64 || b == DType::fp64 ? DType::fp64 : DType::fp32;
}

DType promoted_dtype(std::span<const OptimizerParameter> parameters) {
  DType dtype = parameters.front().dtype;
  for (const OptimizerParameter& parameter : parameters) dtype = promoted(dtype, parameter.dtype);
  return dtype;
}

std::int64_t chunks(const OptimizerParameter& parameter) { return ceil_div(parameter.elements, kForeachChunkElements); }

/// The norm of `elements` values: the result, and the scratch of its reduction.
Tensors norm_of(std::int64_t elements, DType dtype, const Gpu& gpu, StepBuilder& builder) {
  const Tensors result = builder.tensor(size_of(dtype));
  std::vector<Tensors> scratch;
  for (const std::int64_t action : reduction_program(Shape{elements}, 1, dtype, dtype, gpu, ReductionKind::mean)) {
    if (allocates(action)) {
      scratch.push_back(builder.scratch(action));
    } else {
      builder.drop(scratch[freed_by(action)]);
    }
  }
  builder.count_kernels(1);
  return result;
}

/// torch._foreach_norm of one group: partial sums per chunk, then a scalar per tensor in the tensor's dtype.
Tensors foreach_norm(ForeachGroup& group, PyTorchVersion pytorch, StepBuilder& builder) {
  const auto tensors = group.parameters();
  const std::int64_t sum_bytes = size_of(accumulate_type(tensors.front().dtype));
  const auto count = static_cast<std::int64_t>(tensors.size());
  Tensors offsets, sums;
  std::int64_t finishing_kernels = 1;
  if (pytorch >= kFirstPackedPartialSums) {
    std::int64_t total = 0;
    for (const OptimizerParameter& tensor : tensors) total += chunks(tensor);
    offsets = builder.scratch((count + 1) * size_of(DType::int64));
    sums = builder.scratch(total * sum_bytes);
  } else {
    std::int64_t longest = 0;
    for (const OptimizerParameter& tensor : tensors) longest = std::max(longest, chunks(tensor));
    sums = builder.scratch(count * longest * sum_bytes);
    builder.count_kernels(1);  // zeros
    finishing_kernels = ceil_div(count, kNormsPerKernel);
  }
  Tensors norms{0, 0};
  for (const OptimizerParameter& tensor : tensors) {
    const Tensors norm = builder.tensor(size_of(tensor.dtype));
    norms = {norms.count == 0 ? norm.first : norms.first, norms.count + 1};
  }
  builder.drop(sums);
  builder.drop(offsets);
  builder.count_kernels(group.launches(1) + finishing_kernels);
  return norms;
}

/// clip_coef = max_norm / (total_norm + 1e-6); clamped = clamp(clip_coef, max=1). Returns clamped.
struct ClipCoefficient {
  Tensors quotient, clamped;
};
ClipCoefficient clip_coefficient(DType dtype, StepBuilder& builder) {
  const std::int64_t bytes = size_of(dtype);
  Tensors sum = builder.tensor(bytes);
  Tensors reciprocal = builder.tensor(bytes);
  const Tensors quotient = builder.tensor(bytes);
  builder.drop(reciprocal);
  builder.drop(sum);
  builder.count_kernels(4);
  return {quotient, builder.tensor(bytes)};
}

/// Launches that join the norms: one per batch when they are of one dtype, else one per norm that is converted
/// (the others, and a single norm, are copied without a kernel).
std::int64_t stack_kernels(std::span<const OptimizerParameter> parameters, DType dtype) {
  const auto same = std::count_if(parameters.begin(), parameters.end(),
                                  [&](const OptimizerParameter& parameter) { return parameter.dtype == dtype; });
  const auto count = static_cast<std::int64_t>(parameters.size());
  if (count == 1) return 0;
  return same == count ? ceil_div(count, kCatBatch) : count - same;
}

/// The norms as parts of the whole ones become these, dimension by dimension of the ranks: squares, their sum over the
/// ranks, roots (torch/distributed/tensor/_ops/_math_ops.py, _NormPartial).
Tensors whole_norms(std::int64_t bytes, StepBuilder& builder) {
  constexpr int kDimensions = 2;
  Tensors norms;
  for (int i = 0; i < kDimensions; ++i) {
    Tensors squares = builder.tensor(bytes), sum = builder.tensor(bytes);
    builder.bind(norms, builder.tensor(bytes));
    builder.drop(sum);
    builder.drop(squares);
    builder.count_kernels(2);
  }
  return norms;
}

void clip_by_foreach(std::span<const OptimizerParameter> parameters, PyTorchVersion pytorch, const Gpu& gpu,
                     SharedGradients shared, StepBuilder& builder) {
  const DType dtype = promoted_dtype(parameters);
  const auto count = static_cast<std::int64_t>(parameters.size());
  ForeachGroups groups(parameters, pytorch);
  std::vector<Tensors> norms;
  for (ForeachGroup& group : groups) norms.push_back(foreach_norm(group, pytorch, builder));
  // Those that all ranks of tensor parallelism have are divided among them, to be parts as the others are.
  Tensors parts;
  for (std::int64_t i = 0; i < shared.whole; ++i) {
    const Tensors part = builder.tensor(size_of(dtype));
    parts = {parts.count == 0 ? part.first : parts.first, parts.count + 1};
  }
  Tensors stacked = builder.tensor(count * size_of(dtype));
  builder.drop(parts);
  builder.count_kernels(stack_kernels(parameters, dtype) + shared.whole);
  Tensors whole;
  if (shared.are) whole = whole_norms(count * size_of(dtype), builder);
  Tensors total = norm_of(count, dtype, gpu, builder);
  builder.drop(whole);
  builder.drop(stacked);
  for (Tensors& list : norms) builder.drop(list);

  ClipCoefficient coefficient = clip_coefficient(dtype, builder);
  for (ForeachGroup& group : groups) {
    // _foreach_mul_ by a tensor of another dtype goes tensor by tensor.
    const bool fast = group.parameters().front().dtype == dtype;
    builder.count_kernels(fast ? group.launches(1) : static_cast<std::int64_t>(group.parameters().size()));
  }
  builder.drop(coefficient.quotient);
  builder.drop(coefficient.clamped);
  builder.drop(total);
}

void clip_one_by_one(std::span<const OptimizerParameter> parameters, const Gpu& gpu, StepBuilder& builder) {
  const DType dtype = promoted_dtype(parameters);
  const auto count = static_cast<std::int64_t>(parameters.size());
  std::vector<Tensors> norms;
  norms.reserve(parameters.size());
  for (const OptimizerParameter& parameter : parameters) {
    norms.push_back(norm_of(parameter.elements, parameter.dtype, gpu, builder));
  }
  Tensors stacked = builder.tensor(count * size_of(dtype));
  builder.count_kernels(stack_kernels(parameters, dtype));
  for (Tensors& norm : norms) builder.drop(norm);
  Tensors total = norm_of(count, dtype, gpu, builder);
  builder.drop(stacked);
  ClipCoefficient coefficient = clip_coefficient(dtype, builder);
  builder.count_kernels(count);  // g.mul_
  builder.drop(coefficient.quotient);
  builder.drop(coefficient.clamped);
  builder.drop(total);
}

}  // namespace

OptimizerProgram clip_grad_norm(std::span<const OptimizerParameter> parameters, PyTorchVersion pytorch, const Gpu& gpu,
                                SharedGradients shared) {
  StepBuilder builder(parameters.size() * 2 + 16);
  if (parameters.empty()) return builder.take();
  if (pytorch >= kFirstForeachClip) {
    clip_by_foreach(parameters, pytorch, gpu, shared, builder);
  } else {
    clip_one_by_one(parameters, gpu, builder);
  }
  std::int64_t elements = 0;
  for (const OptimizerParameter& parameter : parameters) elements = checked_add(elements, parameter.elements);
  builder.count_flops(checked_mul(3, elements));  // square, sum, scale
  return builder.take();
}

}  // namespace gpuplan

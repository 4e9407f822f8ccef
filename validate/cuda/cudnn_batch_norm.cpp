#include "validate/cuda/cudnn_batch_norm.h"

#include <initializer_list>

#include "validate/cuda/check.h"
#include "validate/cuda/cudnn_tensors.h"
#include "validate/cuda/kernels/strided.h"

namespace gpuplan::cuda {
namespace {

constexpr cudnnBatchNormOps_t kOnlyBatchNorm = CUDNN_BATCHNORM_OPS_BN;

// A sequence [N, C, L] is an image [N, C, L, 1].
KernelTensor as_image(KernelTensor t) {
  if (t.rank != 3) return t;
  t.rank = 4;
  t.sizes[3] = t.strides[3] = 1;
  return t;
}

// getCudnnBatchNormMode. Of [N, C] PyTorch's own kernels take care.
cudnnBatchNormMode_t mode(BatchNormPass pass, const KernelTensor& x) {
  const bool persistent = pass != BatchNormPass::inference && channels_last(x);
  return persistent ? CUDNN_BATCHNORM_SPATIAL_PERSISTENT : CUDNN_BATCHNORM_SPATIAL;
}

// All images of a pass lie alike, and all vectors of channels have one type: a descriptor each.
struct Described {
  cudnnBatchNormMode_t mode;
  TensorDescriptor image, channels;

  Described(BatchNormPass pass, const BatchNormTensors& t) : mode(cuda::mode(pass, t.x)) {
    image = image_descriptor(as_image(t.x), channels_last(t.x));
    cudnnTensorDescriptor_t derived = nullptr;
    check(cudnnCreateTensorDescriptor(&derived), "cudnnCreateTensorDescriptor");
    channels.reset(derived);
    check(cudnnDeriveBNTensorDescriptor(derived, image.get(), mode), "cudnnDeriveBNTensorDescriptor");
  }
};

// What sums are scaled by before they are written: cuDNN reads it in double for images of double, else in float.
struct Scale {
  float single;
  double wide;
  explicit Scale(double value) : single(static_cast<float>(value)), wide(value) {}
  const void* of(DType t) const { return t == DType::fp64 ? static_cast<const void*>(&wide) : &single; }
};

bool is_vector(const KernelTensor& t, const KernelTensor& x) {
  return t.rank == 1 && t.sizes[0] == x.sizes[1] && t.dtype == accumulate_type(x.dtype);
}

bool absent(const KernelTensor& t) { return t.rank == 0; }

void train(cudnnHandle_t handle, const BatchNormTensors& t, const BatchNormNumbers& n, Workspace workspace) {
  const Described d(BatchNormPass::training, t);
  const Scale one(1), zero(0);
  check(cudnnBatchNormalizationForwardTrainingEx(
            handle, d.mode, kOnlyBatchNorm, one.of(t.x.dtype), zero.of(t.x.dtype), d.image.get(), t.x.data, nullptr,
            nullptr, d.image.get(), t.y.data, d.channels.get(), t.weight.data, t.bias.data, n.momentum,
            t.running_mean.data, t.running_variance.data, n.eps, t.mean.data, t.invstd.data, nullptr, workspace.data,
            static_cast<std::size_t>(workspace.bytes), nullptr, 0),
        "cudnnBatchNormalizationForwardTrainingEx");
}

void infer(cudnnHandle_t handle, const BatchNormTensors& t, const BatchNormNumbers& n) {
  const Described d(BatchNormPass::inference, t);
  const Scale one(1), zero(0);
  check(cudnnBatchNormalizationForwardInference(handle, d.mode, one.of(t.x.dtype), zero.of(t.x.dtype), d.image.get(),
                                                t.x.data, d.image.get(), t.y.data, d.channels.get(), t.weight.data,
                                                t.bias.data, t.running_mean.data, t.running_variance.data, n.eps),
        "cudnnBatchNormalizationForwardInference");
}

void differentiate(cudnnHandle_t handle, const BatchNormTensors& t, const BatchNormNumbers& n, Workspace workspace) {
  const Described d(BatchNormPass::backward, t);
  const Scale one(1), zero(0);
  const void* alpha = one.of(t.x.dtype);
  const void* beta = zero.of(t.x.dtype);
  check(cudnnBatchNormalizationBackwardEx(handle, d.mode, kOnlyBatchNorm, alpha, beta, alpha, beta, d.image.get(),
                                          t.x.data, nullptr, nullptr, d.image.get(), t.grad.data, nullptr, nullptr,
                                          d.image.get(), t.dx.data, d.channels.get(), t.weight.data, nullptr,
                                          t.dweight.data, t.dbias.data, n.eps, t.mean.data, t.invstd.data, nullptr,
                                          workspace.data, static_cast<std::size_t>(workspace.bytes), nullptr, 0),
        "cudnnBatchNormalizationBackwardEx");
}

}  // namespace

bool cudnn_takes(BatchNormPass pass, const BatchNormTensors& t) {
  const auto all_vectors = [&](std::initializer_list<const KernelTensor*> vectors) {
    for (const KernelTensor* v : vectors)
      if (!is_vector(*v, t.x)) return false;
    return true;
  };
  if (t.x.rank < 3 || t.x.rank > 4) return false;
  switch (pass) {
    case BatchNormPass::training:
      if (absent(t.running_mean) != absent(t.running_variance)) return false;
      if (!absent(t.running_mean) && !all_vectors({&t.running_mean, &t.running_variance})) return false;
      return all_vectors({&t.weight, &t.bias, &t.mean, &t.invstd}) && same_layout(t.y, t.x);
    case BatchNormPass::inference:
      return all_vectors({&t.weight, &t.bias, &t.running_mean, &t.running_variance}) && same_layout(t.y, t.x);
    case BatchNormPass::backward: break;
  }
  return all_vectors({&t.weight, &t.mean, &t.invstd, &t.dweight, &t.dbias}) && same_layout(t.grad, t.x) &&
         same_layout(t.dx, t.x);
}

BatchNormSpace cudnn_batch_norm_space(cudnnHandle_t handle, BatchNormPass pass, const BatchNormTensors& t) {
  if (pass == BatchNormPass::inference) return {};
  const Described d(pass, t);
  const auto image = d.image.get(), channels = d.channels.get();
  std::size_t workspace = 0, reserve = 0;
  if (pass == BatchNormPass::training) {
    check(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(handle, d.mode, kOnlyBatchNorm, image, image, image,
                                                                   channels, nullptr, &workspace),
          "cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize");
  } else {
    check(cudnnGetBatchNormalizationBackwardExWorkspaceSize(handle, d.mode, kOnlyBatchNorm, image, image, image,
                                                            nullptr, image, channels, nullptr, &workspace),
          "cudnnGetBatchNormalizationBackwardExWorkspaceSize");
  }
  check(cudnnGetBatchNormalizationTrainingExReserveSpaceSize(handle, d.mode, kOnlyBatchNorm, nullptr, image, &reserve),
        "cudnnGetBatchNormalizationTrainingExReserveSpaceSize");
  return {static_cast<std::int64_t>(workspace), static_cast<std::int64_t>(reserve)};
}

void cudnn_batch_norm(cudnnHandle_t handle, const LaunchContext& launch, BatchNormPass pass, const BatchNormTensors& t,
                      const BatchNormNumbers& numbers, Workspace workspace) {
  check(cudnnSetStream(handle, launch.stream), "cudnnSetStream");
  switch (pass) {
    case BatchNormPass::training: return train(handle, t, numbers, workspace);
    case BatchNormPass::inference: return infer(handle, t, numbers);
    case BatchNormPass::backward: return differentiate(handle, t, numbers, workspace);
  }
}

}  // namespace gpuplan::cuda

#include "validate/cuda/convolutions.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "validate/cuda/check.h"
#include "validate/cuda/cudnn_types.h"

namespace gpuplan::cuda {
namespace {

/// Algorithms that need more are left out of a repeatable run: some transform whole layers.
constexpr std::int64_t kMostOwnBytes = std::int64_t{1} << 30;

cudnnMathType_t math_type(DType t, bool tf32) {
  if (t == DType::fp16 || t == DType::bf16) return CUDNN_TENSOR_OP_MATH;
  // The default one may round fp32 to TF32.
  return t == DType::fp32 && !tf32 ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
}

// What cuDNN lists, the fastest first, by what the plan needs: deterministic and with workspace enough, then the others
// that have workspace enough, then those that cuDNN thinks need more, since it asks for more than they do of some.
template <class Algorithm, class Performance, class Query>
std::vector<Algorithm> ranked(Query query, bool exact, std::int64_t workspace_bytes, const char* call) {
  std::array<Performance, 16> found{};
  int count = 0;
  check(query(static_cast<int>(found.size()), &count, found.data()), call);
  std::vector<Algorithm> ranks[3];
  for (int i = 0; i < count; ++i) {
    const Performance& p = found[static_cast<std::size_t>(i)];
    if (p.status != CUDNN_STATUS_SUCCESS || (exact && p.mathType != CUDNN_FMA_MATH)) continue;
    const bool enough = p.memory <= static_cast<std::size_t>(workspace_bytes);
    const int rank = !enough ? 2 : p.determinism == CUDNN_DETERMINISTIC ? 0 : 1;
    ranks[rank].push_back({static_cast<int>(p.algo), rank == 0 ? static_cast<std::int64_t>(p.memory) : 0, p.mathType});
  }
  for (int i = 1; i < 3; ++i) ranks[0].insert(ranks[0].end(), ranks[i].begin(), ranks[i].end());
  return std::move(ranks[0]);
}

}  // namespace

Convolutions::Convolutions() {
  cudnnHandle_t handle = nullptr;
  check(cudnnCreate(&handle), "cudnnCreate");
  handle_.reset(handle);
}

void Convolutions::rank(Plan& p, ConvolutionPass pass, bool exact, std::int64_t workspace_bytes) {
  const auto handle = handle_.get();
  const auto image = p.image.get(), map = p.feature_map.get();
  const auto filter = p.filter.get();
  const auto convolution = p.convolution.get();
  if (pass == ConvolutionPass::forward) {
    const auto query = [&](int most, int* count, cudnnConvolutionFwdAlgoPerf_t* found) {
      return cudnnGetConvolutionForwardAlgorithm_v7(handle, image, filter, convolution, map, most, count, found);
    };
    p.algorithms = ranked<Algorithm, cudnnConvolutionFwdAlgoPerf_t>(query, exact, workspace_bytes,
                                                                    "cudnnGetConvolutionForwardAlgorithm_v7");
  } else if (pass == ConvolutionPass::backward_data) {
    const auto query = [&](int most, int* count, cudnnConvolutionBwdDataAlgoPerf_t* found) {
      return cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, filter, map, convolution, image, most, count, found);
    };
    p.algorithms = ranked<Algorithm, cudnnConvolutionBwdDataAlgoPerf_t>(query, exact, workspace_bytes,
                                                                        "cudnnGetConvolutionBackwardDataAlgorithm_v7");
  } else {
    const auto query = [&](int most, int* count, cudnnConvolutionBwdFilterAlgoPerf_t* found) {
      return cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, image, map, convolution, filter, most, count, found);
    };
    p.algorithms = ranked<Algorithm, cudnnConvolutionBwdFilterAlgoPerf_t>(
        query, exact, workspace_bytes, "cudnnGetConvolutionBackwardFilterAlgorithm_v7");
  }
  // Without a workspace, where cuDNN names none: IMPLICIT_GEMM forward, ALGO_1, and ALGO_0, whose sums are in any
  // order.
  const cudnnMathType_t math = exact ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
  if (pass == ConvolutionPass::forward)
    p.algorithms.push_back({CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, 0, math});
  else
    for (const int plain : {1, 0}) p.algorithms.push_back({plain, 0, math});
}

Convolutions::Plan& Convolutions::plan(const Convolution& what, const ConvolutionTensors& t, ConvolutionRules rules,
                                       std::int64_t workspace_bytes) {
  Key key{static_cast<std::int64_t>(what.pass),
          static_cast<std::int64_t>(t.image.dtype),
          rules.tf32,
          rules.repeatable,
          workspace_bytes,
          what.stride_h,
          what.stride_w,
          what.pad_h,
          what.pad_w,
          what.dilation_h,
          what.dilation_w,
          what.groups};
  std::size_t at = 12;
  for (const KernelTensor* tensor : {&t.image, &t.filter})
    for (int i = 0; i < 4; ++i) key[at++] = tensor->sizes[i];
  for (const KernelTensor* tensor : {&t.image, &t.filter, &t.feature_map})
    for (int i = 0; i < 4; ++i) key[at++] = tensor->strides[i];
  const auto known = plans_.find(key);
  if (known != plans_.end()) return known->second;

  Plan p;
  const bool last = channels_last(t.image) || channels_last(t.feature_map) || channels_last(t.filter);
  p.image = image_descriptor(t.image, last);
  p.feature_map = image_descriptor(t.feature_map, last);
  cudnnFilterDescriptor_t filter = nullptr;
  check(cudnnCreateFilterDescriptor(&filter), "cudnnCreateFilterDescriptor");
  p.filter.reset(filter);
  int sizes[4];
  for (int i = 0; i < 4; ++i) sizes[i] = static_cast<int>(t.filter.sizes[i]);
  check(cudnnSetFilterNdDescriptor(filter, data_type(t.filter.dtype), last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW, 4,
                                   sizes),
        "cudnnSetFilterNdDescriptor");
  cudnnConvolutionDescriptor_t convolution = nullptr;
  check(cudnnCreateConvolutionDescriptor(&convolution), "cudnnCreateConvolutionDescriptor");
  p.convolution.reset(convolution);
  const int pads[] = {static_cast<int>(what.pad_h), static_cast<int>(what.pad_w)};
  const int strides[] = {static_cast<int>(what.stride_h), static_cast<int>(what.stride_w)};
  const int dilations[] = {static_cast<int>(what.dilation_h), static_cast<int>(what.dilation_w)};
  check(cudnnSetConvolutionNdDescriptor(convolution, 2, pads, strides, dilations, CUDNN_CROSS_CORRELATION,
                                        t.image.dtype == DType::fp64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT),
        "cudnnSetConvolutionNdDescriptor");
  check(cudnnSetConvolutionGroupCount(convolution, static_cast<int>(what.groups)), "cudnnSetConvolutionGroupCount");
  check(cudnnSetConvolutionMathType(convolution, math_type(t.image.dtype, rules.tf32)), "cudnnSetConvolutionMathType");
  rank(p, what.pass, t.image.dtype == DType::fp32 && !rules.tf32,
       rules.repeatable ? std::max(workspace_bytes, kMostOwnBytes) : workspace_bytes);
  if (rules.repeatable)
    for (const Algorithm& a : p.algorithms) p.own_bytes = std::max(p.own_bytes, a.deterministic_bytes);
  return plans_.emplace(key, std::move(p)).first->second;
}

cudnnStatus_t Convolutions::compute(const Plan& p, Algorithm algorithm, ConvolutionPass pass,
                                    const ConvolutionTensors& t, Workspace workspace) {
  const auto handle = handle_.get();
  const auto convolution = p.convolution.get();
  const cudnnStatus_t set = cudnnSetConvolutionMathType(convolution, algorithm.math);
  if (set != CUDNN_STATUS_SUCCESS) return set;
  const float one = 1, zero = 0;
  const double double_one = 1, double_zero = 0;
  const bool wide = t.image.dtype == DType::fp64;
  const void* alpha = wide ? static_cast<const void*>(&double_one) : &one;
  const void* beta = wide ? static_cast<const void*>(&double_zero) : &zero;
  const auto bytes = static_cast<std::size_t>(workspace.bytes);
  switch (pass) {
    case ConvolutionPass::forward:
      return cudnnConvolutionForward(handle, alpha, p.image.get(), t.image.data, p.filter.get(), t.filter.data,
                                     convolution, static_cast<cudnnConvolutionFwdAlgo_t>(algorithm.number),
                                     workspace.data, bytes, beta, p.feature_map.get(), t.feature_map.data);
    case ConvolutionPass::backward_data:
      return cudnnConvolutionBackwardData(handle, alpha, p.filter.get(), t.filter.data, p.feature_map.get(),
                                          t.feature_map.data, convolution,
                                          static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm.number), workspace.data,
                                          bytes, beta, p.image.get(), t.image.data);
    case ConvolutionPass::backward_filter: break;
  }
  return cudnnConvolutionBackwardFilter(handle, alpha, p.image.get(), t.image.data, p.feature_map.get(),
                                        t.feature_map.data, convolution,
                                        static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm.number), workspace.data,
                                        bytes, beta, p.filter.get(), t.filter.data);
}

void Convolutions::CudaFree::operator()(void* memory) const { (void)cudaFree(memory); }

Workspace Convolutions::own(std::int64_t bytes) {
  if (own_bytes_ < bytes) {
    release_own();
    void* memory = nullptr;
    check(cudaMalloc(&memory, static_cast<std::size_t>(bytes)), "cudaMalloc of a deterministic algorithm's workspace");
    own_.reset(memory);
    own_bytes_ = bytes;
  }
  return {own_.get(), own_bytes_};
}

void Convolutions::run(const LaunchContext& launch, const Convolution& what, const ConvolutionTensors& t,
                       ConvolutionRules rules, Workspace workspace) {
  Plan& p = plan(what, t, rules, workspace.bytes);
  if (p.own_bytes > workspace.bytes) workspace = own(p.own_bytes);
  check(cudnnSetStream(handle_.get(), launch.stream), "cudnnSetStream");
  // An H200 refuses some of the algorithms that cuDNN lists, when they are called and before anything is launched.
  for (; p.chosen + 1 < p.algorithms.size(); ++p.chosen) {
    const cudnnStatus_t status = compute(p, p.algorithms[p.chosen], what.pass, t, workspace);
    if (status == CUDNN_STATUS_SUCCESS) return;
    if (status == CUDNN_STATUS_EXECUTION_FAILED) check(status, "a convolution of cuDNN's");
  }
  check(compute(p, p.algorithms.back(), what.pass, t, workspace),
        "the last algorithm that cuDNN has for the convolution");
}

}  // namespace gpuplan::cuda

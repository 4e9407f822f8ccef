// cuDNN's convolutions and poolings before the graph API: descriptors, shapes, and which algorithm to take.
//
// PyTorch comes here with TORCH_CUDNN_V8_API_DISABLED, and older programs. Every question for an algorithm is answered
// with one, the implicit GEMM that works for every convolution, with the workspace that the graph API's first engine
// asks for; a GPU that measures may pick another.
#include "validate/shadow/runtime/cudnn_convolution.h"

#include <algorithm>
#include <cstdint>

#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow::cudnn {
namespace {

/// cudnnConvolutionFwdAlgoPerf_t, and those of the other passes, alike.
struct Performance {
  int algorithm = 1;  // IMPLICIT_PRECOMP_GEMM, BWD_DATA_ALGO_1, BWD_FILTER_ALGO_1
  int status = kSuccess;
  float time = 0;          // ms
  std::size_t memory = 0;  // bytes
  int determinism = 1;     // CUDNN_DETERMINISTIC
  int math_type = 0;
  int reserved[3] = {};
};
static_assert(sizeof(Performance) == 48);

Status answer_count(int* count) {
  if (count == nullptr) return fail(kBadParam, "no place for the number of algorithms");
  *count = 1;
  return kSuccess;
}

/// A cudnnPoolingDescriptor_t.
struct Pooling {
  int mode = 0;
  int spatial = 0;
  std::array<int, kMaxSpatial> window{}, padding{}, stride{};
};

bool positive(const int* values, int count) {
  return values != nullptr && std::all_of(values, values + count, [](int value) { return value >= 1; });
}

int outputs(int size, int padding, int window, int stride) { return (size + 2 * padding - window) / stride + 1; }

Status workspace(Pass pass, const Tensor* x, const Filter* w, const Convolution* convolution, const Tensor* y,
                 std::size_t* size) {
  if (x == nullptr || w == nullptr || convolution == nullptr || y == nullptr || size == nullptr) {
    return fail(kBadParam, "a convolution's workspace: null");
  }
  note_unknown("cuDNN's functions before its graph API: workspace of the engine that the graph API takes first");
  *size = static_cast<std::size_t>(convolution_workspace(pass, *x, *w, *convolution, *y));
  return kSuccess;
}

Status one_algorithm(Pass pass, const Tensor* x, const Filter* w, const Convolution* convolution, const Tensor* y,
                     int wanted, int* count, Performance* found) {
  if (count == nullptr || found == nullptr || wanted < 1) return fail(kBadParam, "no place for an algorithm");
  Performance one;
  if (const Status status = workspace(pass, x, w, convolution, y, &one.memory)) return status;
  one.math_type = convolution->math_type;
  *found = one;
  *count = 1;
  return kSuccess;
}

}  // namespace
}  // namespace gpuplan::shadow::cudnn

namespace {

using namespace gpuplan::shadow::cudnn;

}  // namespace

SHADOW_CUDNN_DESCRIPTOR(Convolution, Convolution)
SHADOW_CUDNN_DESCRIPTOR(Pooling, Pooling)

// --- descriptors -----------------------------------------------------------------------------------------------------

SHADOW_API int cudnnSetConvolutionNdDescriptor(Convolution* c, int spatial, const int* padding, const int* stride,
                                               const int* dilation, int mode, int type) {
  if (c == nullptr || spatial < 1 || spatial > static_cast<int>(kMaxSpatial) || padding == nullptr ||
      !positive(stride, spatial) || !positive(dilation, spatial)) {
    return fail(kBadParam, "cudnnSetConvolutionNdDescriptor: not a convolution");
  }
  *c = {.spatial = spatial, .mode = mode, .type = type};
  std::copy_n(padding, spatial, c->padding.begin());
  std::copy_n(stride, spatial, c->stride.begin());
  std::copy_n(dilation, spatial, c->dilation.begin());
  return kSuccess;
}

SHADOW_API int cudnnSetConvolution2dDescriptor(Convolution* c, int pad_h, int pad_w, int stride_h, int stride_w,
                                               int dilation_h, int dilation_w, int mode, int type) {
  const int padding[] = {pad_h, pad_w}, stride[] = {stride_h, stride_w}, dilation[] = {dilation_h, dilation_w};
  return cudnnSetConvolutionNdDescriptor(c, 2, padding, stride, dilation, mode, type);
}

SHADOW_API int cudnnSetConvolutionGroupCount(Convolution* c, int groups) {
  if (c == nullptr || groups < 1) return fail(kBadParam, "cudnnSetConvolutionGroupCount: not a number of groups");
  c->groups = groups;
  return kSuccess;
}

SHADOW_API int cudnnGetConvolutionGroupCount(const Convolution* c, int* groups) {
  if (c == nullptr || groups == nullptr) return fail(kBadParam, "cudnnGetConvolutionGroupCount: null");
  *groups = c->groups;
  return kSuccess;
}

SHADOW_API int cudnnSetConvolutionMathType(Convolution* c, int math_type) {
  if (c == nullptr) return fail(kBadParam, "cudnnSetConvolutionMathType: no descriptor");
  c->math_type = math_type;
  return kSuccess;
}

SHADOW_API int cudnnGetConvolutionMathType(const Convolution* c, int* math_type) {
  if (c == nullptr || math_type == nullptr) return fail(kBadParam, "cudnnGetConvolutionMathType: null");
  *math_type = c->math_type;
  return kSuccess;
}

SHADOW_API int cudnnSetConvolutionReorderType(Convolution* c, int /*reorder*/) {
  return c == nullptr ? fail(kBadParam, "cudnnSetConvolutionReorderType: no descriptor") : kSuccess;
}

SHADOW_API int cudnnGetConvolutionNdForwardOutputDim(const Convolution* c, const Tensor* x, const Filter* w, int rank,
                                                     int* dimensions) {
  if (c == nullptr || x == nullptr || w == nullptr || dimensions == nullptr || rank != x->rank || rank != w->rank ||
      rank != c->spatial + 2) {
    return fail(kBadParam, "cudnnGetConvolutionNdForwardOutputDim: ranks differ");
  }
  dimensions[0] = x->dimensions[0];
  dimensions[1] = w->dimensions[0];
  for (std::size_t i = 0; i < static_cast<std::size_t>(c->spatial); ++i) {
    const int window = c->dilation[i] * (w->dimensions[i + 2] - 1) + 1;
    dimensions[i + 2] = outputs(x->dimensions[i + 2], c->padding[i], window, c->stride[i]);
  }
  return kSuccess;
}

SHADOW_API int cudnnGetConvolution2dForwardOutputDim(const Convolution* c, const Tensor* x, const Filter* w, int* n,
                                                     int* k, int* h, int* width) {
  int dimensions[4];
  if (const int status = cudnnGetConvolutionNdForwardOutputDim(c, x, w, 4, dimensions)) return status;
  if (n == nullptr || k == nullptr || h == nullptr || width == nullptr) return fail(kBadParam, "no place for a shape");
  *n = dimensions[0];
  *k = dimensions[1];
  *h = dimensions[2];
  *width = dimensions[3];
  return kSuccess;
}

SHADOW_API int cudnnSetPoolingNdDescriptor(Pooling* pooling, int mode, int /*nan_propagation*/, int spatial,
                                           const int* window, const int* padding, const int* stride) {
  if (pooling == nullptr || spatial < 1 || spatial > static_cast<int>(kMaxSpatial) || !positive(window, spatial) ||
      padding == nullptr || !positive(stride, spatial)) {
    return fail(kBadParam, "cudnnSetPoolingNdDescriptor: not a pooling");
  }
  *pooling = {.mode = mode, .spatial = spatial};
  std::copy_n(window, spatial, pooling->window.begin());
  std::copy_n(padding, spatial, pooling->padding.begin());
  std::copy_n(stride, spatial, pooling->stride.begin());
  return kSuccess;
}

SHADOW_API int cudnnSetPooling2dDescriptor(Pooling* pooling, int mode, int nan_propagation, int window_h, int window_w,
                                           int pad_h, int pad_w, int stride_h, int stride_w) {
  const int window[] = {window_h, window_w}, padding[] = {pad_h, pad_w}, stride[] = {stride_h, stride_w};
  return cudnnSetPoolingNdDescriptor(pooling, mode, nan_propagation, 2, window, padding, stride);
}

SHADOW_API int cudnnGetPooling2dForwardOutputDim(const Pooling* pooling, const Tensor* x, int* n, int* c, int* h,
                                                 int* w) {
  if (pooling == nullptr || x == nullptr || pooling->spatial != 2 || x->rank != 4 || n == nullptr || c == nullptr ||
      h == nullptr || w == nullptr) {
    return fail(kBadParam, "cudnnGetPooling2dForwardOutputDim: not in two dimensions");
  }
  *n = x->dimensions[0];
  *c = x->dimensions[1];
  *h = outputs(x->dimensions[2], pooling->padding[0], pooling->window[0], pooling->stride[0]);
  *w = outputs(x->dimensions[3], pooling->padding[1], pooling->window[1], pooling->stride[1]);
  return kSuccess;
}

// --- algorithms ------------------------------------------------------------------------------------------------------

SHADOW_API int cudnnGetConvolutionForwardAlgorithmMaxCount(const Handle* /*handle*/, int* count) {
  return answer_count(count);
}
SHADOW_API int cudnnGetConvolutionBackwardDataAlgorithmMaxCount(const Handle* /*handle*/, int* count) {
  return answer_count(count);
}
SHADOW_API int cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(const Handle* /*handle*/, int* count) {
  return answer_count(count);
}

SHADOW_API int cudnnGetConvolutionForwardAlgorithm_v7(const Handle* /*handle*/, const Tensor* x, const Filter* w,
                                                      const Convolution* c, const Tensor* y, int wanted, int* count,
                                                      Performance* found) {
  return one_algorithm(Pass::forward, x, w, c, y, wanted, count, found);
}
SHADOW_API int cudnnGetConvolutionBackwardDataAlgorithm_v7(const Handle* /*handle*/, const Filter* w, const Tensor* dy,
                                                           const Convolution* c, const Tensor* dx, int wanted,
                                                           int* count, Performance* found) {
  return one_algorithm(Pass::backward_data, dx, w, c, dy, wanted, count, found);
}
SHADOW_API int cudnnGetConvolutionBackwardFilterAlgorithm_v7(const Handle* /*handle*/, const Tensor* x,
                                                             const Tensor* dy, const Convolution* c, const Filter* dw,
                                                             int wanted, int* count, Performance* found) {
  return one_algorithm(Pass::backward_filter, x, dw, c, dy, wanted, count, found);
}

SHADOW_API int cudnnGetConvolutionForwardWorkspaceSize(const Handle* /*handle*/, const Tensor* x, const Filter* w,
                                                       const Convolution* c, const Tensor* y, int /*algorithm*/,
                                                       std::size_t* size) {
  return workspace(Pass::forward, x, w, c, y, size);
}
SHADOW_API int cudnnGetConvolutionBackwardDataWorkspaceSize(const Handle* /*handle*/, const Filter* w, const Tensor* dy,
                                                            const Convolution* c, const Tensor* dx, int /*algorithm*/,
                                                            std::size_t* size) {
  return workspace(Pass::backward_data, dx, w, c, dy, size);
}
SHADOW_API int cudnnGetConvolutionBackwardFilterWorkspaceSize(const Handle* /*handle*/, const Tensor* x,
                                                              const Tensor* dy, const Convolution* c, const Filter* dw,
                                                              int /*algorithm*/, std::size_t* size) {
  return workspace(Pass::backward_filter, x, dw, c, dy, size);
}

// Measured on a GPU: the same answer here. PyTorch asks with a workspace of its own, others without.
SHADOW_API int cudnnFindConvolutionForwardAlgorithmEx(const Handle* /*handle*/, const Tensor* x, const void* /*x*/,
                                                      const Filter* w, const void* /*w*/, const Convolution* c,
                                                      const Tensor* y, void* /*y*/, int wanted, int* count,
                                                      Performance* found, void* /*workspace*/, std::size_t /*size*/) {
  return one_algorithm(Pass::forward, x, w, c, y, wanted, count, found);
}
SHADOW_API int cudnnFindConvolutionBackwardDataAlgorithmEx(const Handle* /*handle*/, const Filter* w, const void* /*w*/,
                                                           const Tensor* dy, const void* /*dy*/, const Convolution* c,
                                                           const Tensor* dx, void* /*dx*/, int wanted, int* count,
                                                           Performance* found, void* /*workspace*/,
                                                           std::size_t /*size*/) {
  return one_algorithm(Pass::backward_data, dx, w, c, dy, wanted, count, found);
}
SHADOW_API int cudnnFindConvolutionBackwardFilterAlgorithmEx(const Handle* /*handle*/, const Tensor* x,
                                                             const void* /*x*/, const Tensor* dy, const void* /*dy*/,
                                                             const Convolution* c, const Filter* dw, void* /*dw*/,
                                                             int wanted, int* count, Performance* found,
                                                             void* /*workspace*/, std::size_t /*size*/) {
  return one_algorithm(Pass::backward_filter, x, dw, c, dy, wanted, count, found);
}
SHADOW_API int cudnnFindConvolutionForwardAlgorithm(const Handle* /*handle*/, const Tensor* x, const Filter* w,
                                                    const Convolution* c, const Tensor* y, int wanted, int* count,
                                                    Performance* found) {
  return one_algorithm(Pass::forward, x, w, c, y, wanted, count, found);
}
SHADOW_API int cudnnFindConvolutionBackwardDataAlgorithm(const Handle* /*handle*/, const Filter* w, const Tensor* dy,
                                                         const Convolution* c, const Tensor* dx, int wanted, int* count,
                                                         Performance* found) {
  return one_algorithm(Pass::backward_data, dx, w, c, dy, wanted, count, found);
}
SHADOW_API int cudnnFindConvolutionBackwardFilterAlgorithm(const Handle* /*handle*/, const Tensor* x, const Tensor* dy,
                                                           const Convolution* c, const Filter* dw, int wanted,
                                                           int* count, Performance* found) {
  return one_algorithm(Pass::backward_filter, x, dw, c, dy, wanted, count, found);
}

// cuDNN's convolutions before the graph API as launches, with where each operand lies.
#include <cstdint>
#include <string>

#include "validate/shadow/runtime/cudnn_convolution.h"
#include "validate/shadow/runtime/cudnn_operands.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow::cudnn {
namespace {

std::uint64_t extent(const Filter& w) {
  std::uint64_t elements = 1;
  for (std::size_t i = 0; i < static_cast<std::size_t>(w.rank); ++i)
    elements *= static_cast<std::uint64_t>(w.dimensions[i]);
  return elements * type_bytes(w.type);
}

/// What a convolution reads and writes.
struct Places {
  const void *x, *w, *y, *workspace;
  std::size_t workspace_bytes;
};

Status convolve(const Handle* handle, const char* name, const Tensor* x, const Filter* w,
                const Convolution* convolution, const Tensor* y, const Places& at) {
  if (handle == nullptr || x == nullptr || w == nullptr || convolution == nullptr || y == nullptr)
    return fail(kBadParam, "a convolution: null");
  if (!recording_launches()) return compute(handle, name);
  const std::string text = place("x", at.x, extent(*x)) + ' ' + place("w", at.w, extent(*w)) + ' ' +
                           place("y", at.y, extent(*y)) + ' ' + place("workspace", at.workspace, at.workspace_bytes);
  count_launch(handle->stream, name, text.c_str());
  return kSuccess;
}

}  // namespace
}  // namespace gpuplan::shadow::cudnn

using namespace gpuplan::shadow::cudnn;

SHADOW_API int cudnnConvolutionForward(const Handle* handle, const void* /*alpha*/, const Tensor* x, const void* x_data,
                                       const Filter* w, const void* w_data, const Convolution* c, int /*algorithm*/,
                                       const void* space, std::size_t space_bytes, const void* /*beta*/,
                                       const Tensor* y, const void* y_data) {
  return convolve(handle, "cudnnConvolutionForward", x, w, c, y, {x_data, w_data, y_data, space, space_bytes});
}
SHADOW_API int cudnnConvolutionBackwardData(const Handle* handle, const void* /*alpha*/, const Filter* w,
                                            const void* w_data, const Tensor* dy, const void* dy_data,
                                            const Convolution* c, int /*algorithm*/, const void* space,
                                            std::size_t space_bytes, const void* /*beta*/, const Tensor* dx,
                                            const void* dx_data) {
  return convolve(handle, "cudnnConvolutionBackwardData", dx, w, c, dy, {dx_data, w_data, dy_data, space, space_bytes});
}
SHADOW_API int cudnnConvolutionBackwardFilter(const Handle* handle, const void* /*alpha*/, const Tensor* x,
                                              const void* x_data, const Tensor* dy, const void* dy_data,
                                              const Convolution* c, int /*algorithm*/, const void* space,
                                              std::size_t space_bytes, const void* /*beta*/, const Filter* dw,
                                              const void* dw_data) {
  return convolve(handle, "cudnnConvolutionBackwardFilter", x, dw, c, dy,
                  {x_data, dw_data, dy_data, space, space_bytes});
}

// cuDNN's batch normalization (cudnnBatchNormalization*Ex and inference) as launches, with where each operand lies.
#include <cstddef>
#include <initializer_list>
#include <string>

#include "validate/shadow/runtime/cudnn_batch_norm.h"
#include "validate/shadow/runtime/cudnn_operands.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow::cudnn {
namespace {

/// Null data: an operand that may be absent, and is.
struct Operand {
  const char* name;
  const Tensor* tensor;
  const void* data;
};

struct Space {
  const void* data;
  std::size_t bytes;
};

Status normalize(const Handle* handle, const char* name, std::initializer_list<Operand> operands, Space workspace,
                 Space reserve) {
  if (handle == nullptr) return fail(kBadParam, "a batch normalization: no handle");
  std::string text;
  for (const Operand& o : operands) {
    if (o.data == nullptr) continue;
    if (o.tensor == nullptr) return fail(kBadParam, "a batch normalization: data without a descriptor");
    text += place(o.name, o.data, extent(*o.tensor)) + ' ';
  }
  if (reserve.bytes > 0) text += place("reserve", reserve.data, reserve.bytes) + ' ';
  text += place("workspace", workspace.data, workspace.bytes);
  count_launch(handle->stream, name, recording_launches() ? text.c_str() : "");
  return kSuccess;
}

bool any_null(std::initializer_list<const void*> required) {
  for (const void* p : required)
    if (p == nullptr) return true;
  return false;
}

}  // namespace
}  // namespace gpuplan::shadow::cudnn

using namespace gpuplan::shadow::cudnn;

SHADOW_API int cudnnBatchNormalizationForwardTrainingEx(
    const Handle* handle, int /*mode*/, int /*operations*/, const void* /*alpha*/, const void* /*beta*/,
    const Tensor* x, const void* x_data, const Tensor* z, const void* z_data, const Tensor* y, const void* y_data,
    const Tensor* channels, const void* scale, const void* bias, double /*factor*/, const void* running_mean,
    const void* running_variance, double /*epsilon*/, const void* mean, const void* invstd, const void* /*activation*/,
    const void* space, std::size_t space_bytes, const void* reserve, std::size_t reserve_bytes) {
  if (any_null({x, x_data, y, y_data, channels, scale, bias}))
    return fail(kBadParam, "cudnnBatchNormalizationForwardTrainingEx: null");
  return normalize(handle, "cudnnBatchNormalizationForwardTrainingEx",
                   {{"x", x, x_data},
                    {"z", z, z_data},
                    {"y", y, y_data},
                    {"scale", channels, scale},
                    {"bias", channels, bias},
                    {"running_mean", channels, running_mean},
                    {"running_variance", channels, running_variance},
                    {"mean", channels, mean},
                    {"invstd", channels, invstd}},
                   {space, space_bytes}, {reserve, reserve_bytes});
}

SHADOW_API int cudnnBatchNormalizationForwardInference(const Handle* handle, int /*mode*/, const void* /*alpha*/,
                                                       const void* /*beta*/, const Tensor* x, const void* x_data,
                                                       const Tensor* y, const void* y_data, const Tensor* channels,
                                                       const void* scale, const void* bias, const void* mean,
                                                       const void* variance, double /*epsilon*/) {
  if (any_null({x, x_data, y, y_data, channels, scale, bias, mean, variance}))
    return fail(kBadParam, "cudnnBatchNormalizationForwardInference: null");
  return normalize(handle, "cudnnBatchNormalizationForwardInference",
                   {{"x", x, x_data},
                    {"y", y, y_data},
                    {"scale", channels, scale},
                    {"bias", channels, bias},
                    {"mean", channels, mean},
                    {"variance", channels, variance}},
                   {}, {});
}

SHADOW_API int cudnnBatchNormalizationBackwardEx(
    const Handle* handle, int /*mode*/, int /*operations*/, const void* /*alpha*/, const void* /*beta*/,
    const void* /*parameter_alpha*/, const void* /*parameter_beta*/, const Tensor* x, const void* x_data,
    const Tensor* y, const void* y_data, const Tensor* dy, const void* dy_data, const Tensor* dz, const void* dz_data,
    const Tensor* dx, const void* dx_data, const Tensor* channels, const void* scale, const void* bias,
    const void* dscale, const void* dbias, double /*epsilon*/, const void* mean, const void* invstd,
    const void* /*activation*/, const void* space, std::size_t space_bytes, const void* reserve,
    std::size_t reserve_bytes) {
  if (any_null({x, x_data, dy, dy_data, dx, dx_data, channels, scale, dscale, dbias}))
    return fail(kBadParam, "cudnnBatchNormalizationBackwardEx: null");
  return normalize(handle, "cudnnBatchNormalizationBackwardEx",
                   {{"x", x, x_data},
                    {"y", y, y_data},
                    {"dy", dy, dy_data},
                    {"dz", dz, dz_data},
                    {"dx", dx, dx_data},
                    {"scale", channels, scale},
                    {"bias", channels, bias},
                    {"dscale", channels, dscale},
                    {"dbias", channels, dbias},
                    {"mean", channels, mean},
                    {"invstd", channels, invstd}},
                   {space, space_bytes}, {reserve, reserve_bytes});
}

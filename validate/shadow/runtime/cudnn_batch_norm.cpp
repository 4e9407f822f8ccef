// cuDNN's batch normalization (cudnnBatchNormalization*Ex): its sizes.
//
// NCHW takes no memory. The persistent kernels of NHWC sum a piece of the rows of 64 channels each and leave their sums
// in a workspace: what it measures is not documented. The rule below is what cudnnGetBatchNormalization*ExWorkspaceSize
// of cuDNN 9.10 and 9.26 say, called with made-up device properties and not on a GPU, over batches, channels and types.
// It is not the answer: no live GPU has confirmed it, and the recordings that the tests compare with have none. So the
// workspace is 0, and the report names what the rule says of the first layer that has one.
#include "validate/shadow/runtime/cudnn_batch_norm.h"

#include <atomic>
#include <cstddef>
#include <string>

#include "validate/shadow/runtime/cudnn_device.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow::cudnn {
namespace {

constexpr int kFloat = 0, kHalf = 2, kBfloat16 = 9;

constexpr std::int64_t kGroup = 64;             // channels that one piece's sums are of
constexpr std::int64_t kSums = 2 * 4 * kGroup;  // bytes: two floats a channel
constexpr std::int64_t kBackwardRows = 96;      // rows of a piece

std::int64_t pieces(std::int64_t rows, std::int64_t of) { return (rows + of - 1) / of; }

bool packed_nhwc(const Tensor& x) {
  Tensor packed = x;
  pack(packed, 1);
  return x.rank > 3 && x.strides == packed.strides;
}

bool persistent(const GpuDescription& gpu, int mode, const Tensor& x) {
  if (mode != kSpatialPersistent || !packed_nhwc(x) || x.dimensions[1] % 4 != 0) return false;
  switch (x.type) {
    case kFloat: return device_version(gpu) >= 700;
    case kHalf: return device_version(gpu) >= 600;
    case kBfloat16: return device_version(gpu) >= 800;
    default: return false;
  }
}

}  // namespace

BatchNormWorkspace batch_norm_workspace(const GpuDescription& gpu, int mode, const Tensor& x) {
  if (!persistent(gpu, mode, x)) return {};
  const std::int64_t channels = x.dimensions[1];
  std::int64_t rows = x.dimensions[0];
  for (std::size_t i = 2; i < static_cast<std::size_t>(x.rank); ++i) rows *= x.dimensions[i];
  const std::int64_t groups = pieces(channels, kGroup);
  constexpr std::int64_t kCounter = 4;  // bytes: what the pieces of a group synchronize by
  const std::int64_t forward_rows = x.type == kFloat ? 64 : 160;
  return {
      .forward = 1072 + groups * (kCounter + pieces(rows, forward_rows) * (kSums + kCounter)),
      .backward = 1056 + groups * (kCounter + pieces(rows, kBackwardRows) * kSums),
  };
}

}  // namespace gpuplan::shadow::cudnn

namespace {

using namespace gpuplan::shadow::cudnn;

/// 0, whatever `by_rule` is, which is noted once.
int answer_none(std::int64_t by_rule, const char* pass, std::atomic<bool>& noted, std::size_t* size) {
  if (size == nullptr) return fail(kBadParam, "no place for the size");
  if (by_rule > 0 && !noted.exchange(true)) {
    gpuplan::shadow::note_unknown(std::string("cuDNN batch norm in NHWC: ") + pass + " workspaces taken as 0; cuDNN " +
                                  "9.10 and 9.26, asked without a GPU, say " + std::to_string(by_rule) +
                                  " bytes for the first such layer");
  }
  *size = 0;
  return kSuccess;
}

}  // namespace

SHADOW_API int cudnnDeriveBNTensorDescriptor(Tensor* derived, const Tensor* x, int mode) {
  if (derived == nullptr || x == nullptr || x->rank < 2) return fail(kBadParam, "cudnnDeriveBNTensorDescriptor: null");
  constexpr int kPerActivation = 0;
  *derived = {.type = x->type == kHalf || x->type == kBfloat16 ? kFloat : x->type, .rank = x->rank};
  derived->dimensions.fill(1);
  derived->dimensions[1] = x->dimensions[1];
  if (mode == kPerActivation) derived->dimensions = x->dimensions;
  derived->dimensions[0] = 1;
  pack(*derived, 0);
  return kSuccess;
}

SHADOW_API int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(const Handle* /*handle*/, int mode,
                                                                        int /*operations*/, const Tensor* x,
                                                                        const Tensor* /*z*/, const Tensor* /*y*/,
                                                                        const Tensor* /*scale*/,
                                                                        const void* /*activation*/, std::size_t* size) {
  if (x == nullptr) return fail(kBadParam, "cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize: no tensor");
  static std::atomic<bool> noted{false};
  return answer_none(batch_norm_workspace(gpuplan::shadow::settings().gpu, mode, *x).forward, "forward", noted, size);
}

SHADOW_API int cudnnGetBatchNormalizationBackwardExWorkspaceSize(const Handle* /*handle*/, int mode, int /*operations*/,
                                                                 const Tensor* x, const Tensor* /*y*/,
                                                                 const Tensor* /*dy*/, const Tensor* /*dz*/,
                                                                 const Tensor* /*dx*/, const Tensor* /*scale*/,
                                                                 const void* /*activation*/, std::size_t* size) {
  if (x == nullptr) return fail(kBadParam, "cudnnGetBatchNormalizationBackwardExWorkspaceSize: no tensor");
  static std::atomic<bool> noted{false};
  return answer_none(batch_norm_workspace(gpuplan::shadow::settings().gpu, mode, *x).backward, "backward", noted, size);
}

SHADOW_API int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(const Handle* /*handle*/, int /*mode*/,
                                                                    int /*operations*/, const void* /*activation*/,
                                                                    const Tensor* /*x*/, std::size_t* size) {
  if (size == nullptr) return fail(kBadParam, "no place for the size");
  *size = 0;
  return kSuccess;
}

// cuDNN's CTC loss: descriptors and the workspace.
//
// The loss itself is a kernel's and not computed. The workspace is not documented: the rule is what
// cudnnGetCTCLossWorkspaceSize and its _v8 answer in cuDNN 9.10 and 9.26, without a live GPU.
#include <algorithm>
#include <cstdint>

#include "validate/shadow/runtime/cudnn_abi.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow::cudnn {
namespace {

/// A cudnnCTCLossDescriptor_t.
struct CtcLoss {
  int type = 0;
  int longest_label = 0;  // of _v8 and _v9
};

/// The probabilities [time, batch, letters] once more, the paths' scores with a blank between letters, twice, and
/// `kept` values for every sample. All in floats.
std::int64_t ctc_bytes(const Tensor& probabilities, std::int64_t label, std::int64_t kept) {
  const std::int64_t time = probabilities.dimensions[0], batch = probabilities.dimensions[1];
  const std::int64_t letters = probabilities.dimensions[2];
  return 4 * batch * (time * (2 * (2 * label + 1) + letters) + kept);
}

Status set(CtcLoss* loss, int type, int longest_label) {
  if (loss == nullptr) return fail(kBadParam, "cudnnSetCTCLossDescriptor: no descriptor");
  *loss = {.type = type, .longest_label = longest_label};
  return kSuccess;
}

Status answer(const Tensor* probabilities, std::int64_t label, std::int64_t kept, std::size_t* size) {
  if (probabilities == nullptr || probabilities->rank != 3 || size == nullptr) {
    return fail(kBadParam, "cudnnGetCTCLossWorkspaceSize: probabilities are [time, batch, letters]");
  }
  note_unknown("cuDNN CTC loss: workspace by the rule that cuDNN 9.10 and 9.26 answer by without a GPU");
  *size = static_cast<std::size_t>(ctc_bytes(*probabilities, label, kept));
  return kSuccess;
}

}  // namespace
}  // namespace gpuplan::shadow::cudnn

namespace {

using namespace gpuplan::shadow::cudnn;

}  // namespace

SHADOW_CUDNN_DESCRIPTOR(CTCLoss, CtcLoss)

SHADOW_API int cudnnSetCTCLossDescriptor(CtcLoss* loss, int type) { return set(loss, type, 0); }

SHADOW_API int cudnnSetCTCLossDescriptorEx(CtcLoss* loss, int type, int /*normalization*/, int /*gradient_mode*/) {
  return set(loss, type, 0);
}

SHADOW_API int cudnnSetCTCLossDescriptor_v8(CtcLoss* loss, int type, int /*normalization*/, int /*gradient_mode*/,
                                            int longest_label) {
  return set(loss, type, longest_label);
}

SHADOW_API int cudnnSetCTCLossDescriptor_v9(CtcLoss* loss, int type, int /*normalization*/, int /*gradient_mode*/,
                                            int longest_label) {
  return set(loss, type, longest_label);
}

// The lengths are on the host.
SHADOW_API int cudnnGetCTCLossWorkspaceSize(const Handle* /*handle*/, const Tensor* probabilities,
                                            const Tensor* /*gradients*/, const int* /*labels*/,
                                            const int* label_lengths, const int* /*input_lengths*/, int /*algorithm*/,
                                            const CtcLoss* /*loss*/, std::size_t* size) {
  if (probabilities == nullptr || probabilities->rank != 3 || label_lengths == nullptr) {
    return fail(kBadParam, "cudnnGetCTCLossWorkspaceSize: null, or probabilities that are not [time, batch, letters]");
  }
  const std::int64_t label = *std::max_element(label_lengths, label_lengths + probabilities->dimensions[1]);
  return answer(probabilities, label, 3 * label + 5, size);
}

SHADOW_API int cudnnGetCTCLossWorkspaceSize_v8(const Handle* /*handle*/, int /*algorithm*/, const CtcLoss* loss,
                                               const Tensor* probabilities, const Tensor* /*gradients*/,
                                               std::size_t* size) {
  if (loss == nullptr) return fail(kBadParam, "cudnnGetCTCLossWorkspaceSize_v8: no descriptor");
  return answer(probabilities, loss->longest_label, 2 * std::int64_t{loss->longest_label} + 3, size);
}

// cuDNN's convolution workspaces: a table of recordings, and a rule (confidence `modelled`) for convolutions that are
// not in the table. All other code asks this header.
#pragma once

#include <compare>
#include <cstdint>

#include "estimator/base/dtype.h"
#include "estimator/device/gpu.h"

namespace gpuplan {

/// A 2-D convolution as cuDNN sees it; input [n, c, h, w], filter [k, c / groups, r, s], output [n, k, p, q]. PyTorch
/// makes a Conv1d one of height 1.
struct CudnnConvolution {
  enum class Pass : std::uint8_t { forward, backward_data, backward_filter };
  Pass pass = Pass::forward;
  DType dtype = DType::fp32;
  bool channels_last = false;  // NHWC
  std::int64_t n = 1, c = 1, h = 1, w = 1, k = 1, r = 1, s = 1, p = 1, q = 1;
  std::int64_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  std::int64_t groups = 1;
  bool tf32 = true;  // fp32 only: cuDNN may use TF32, PyTorch's default; without it, `modelled` by TF32's

  auto operator<=>(const CudnnConvolution&) const = default;
};

/// Whether PyTorch gives a depthwise convolution to its own kernel, which takes no workspace, rather than to cuDNN
/// (aten/src/ATen/native/Convolution.cpp, use_cudnn_depthwise): NHWC goes to cuDNN, and in NCHW fp16 where cuDNN was
/// found to be faster. fp64 stays, bf16 does in NCHW; inputs of 2^31 elements go to cuDNN (2.15; in 2.8 they stay).
bool runs_native_depthwise(const CudnnConvolution& convolution, const Gpu& gpu);

struct CudnnWorkspace {
  std::int64_t bytes = 0;  // that PyTorch allocates while the convolution runs; 0: none
  bool recorded = true;    // of this convolution on such a GPU; else `modelled`, see cudnn_workspace_at_most()
};
/// Throws Error if the bytes do not fit 64 bits.
CudnnWorkspace cudnn_workspace(const CudnnConvolution& convolution, const Gpu& gpu);
inline std::int64_t cudnn_workspace_bytes(const CudnnConvolution& convolution, const Gpu& gpu) {
  return cudnn_workspace(convolution, gpu).bytes;
}

/// The most that it may take, no less than cudnn_workspace() says. Of a convolution that was recorded at other batches:
/// what it takes with the forms of the batches below and above. Of any other, or above the largest batch recorded: its
/// ceiling. Of a GPU that nothing was recorded on: the most of all that something was.
std::int64_t cudnn_workspace_at_most(const CudnnConvolution& convolution, const Gpu& gpu);
/// The largest share of its tensors that a recorded convolution of its kind takes (cudnn_workspace_ceiling.h), without
/// a look for this one among them.
std::int64_t cudnn_workspace_ceiling(const CudnnConvolution& convolution, const Gpu& gpu);

/// Whether those bytes are looked up of a recorded choice; else a rule trained on recordings gives them.
bool has_recorded_workspace(const CudnnConvolution& convolution, const Gpu& gpu);

}  // namespace gpuplan

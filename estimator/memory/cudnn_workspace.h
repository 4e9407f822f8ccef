// cuDNN's convolution workspaces: a recorded table, and a rule for what the table does not hold, tagged
// `modelled`. The only file that knows them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

#include "estimator/device/gpu.h"
#include "estimator/dtype.h"

namespace gpuplan {

/// A 2-D convolution as cuDNN sees it; input [n, c, h, w], filter [k, c / groups, r, s], output [n, k, p, q].
struct CudnnConvolution {
  enum class Pass : std::uint8_t { forward, backward_data, backward_filter };
  Pass pass = Pass::forward;
  DType dtype = DType::fp32;
  bool channels_last = false;
  std::int64_t n = 1, c = 1, h = 1, w = 1, k = 1, r = 1, s = 1, p = 1, q = 1;
  std::int64_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  std::int64_t groups = 1;
  bool tf32 = true;  // fp32 only: cuDNN may use TF32, PyTorch's default; without it, `modelled` by TF32's
};

/// Which recorded convolution stands for another. A search takes as long as planning several layers, and models repeat
/// their convolutions, so what was found is remembered.
class SimilarConvolutions {
 public:
  std::size_t find(const CudnnConvolution& convolution);

 private:
  std::map<std::array<std::int64_t, 13>, std::size_t> found_;  // by shape, stride, padding, dilation and groups
};

/// Workspace in bytes that PyTorch allocates while the convolution runs (0: none).
std::int64_t cudnn_workspace_bytes(const CudnnConvolution& convolution, const Gpu& gpu, SimilarConvolutions& similar);

}  // namespace gpuplan

// The closed set of kernel-level operations that layers are lowered to. Cost, scratch and kernel launches are visitors
// of this variant, so that the compiler reports every visitor that a new alternative needs.
#pragma once

#include <array>
#include <cstdint>
#include <variant>

#include "estimator/base/dtype.h"
#include "estimator/base/shape.h"
#include "estimator/base/strides.h"
#include "estimator/device/convolution_pass.h"
#include "estimator/operators/cudnn_rnn.h"
#include "estimator/operators/operators.h"

namespace gpuplan {

/// What a product in backward is the gradient of; it reads the result's gradient, then the other factor.
enum class GemmGradient : std::uint8_t { none, of_first, of_second };

/// out[batch, m, n] = a[batch, m, k] b[batch, k, n]; k is always the contracted dimension.
struct Gemm {
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
  bool bias_epilogue = false;  // cuBLASLt adds the bias (addmm); otherwise a plain cuBLAS product
  DType dtype = DType::fp32;
  GemmGradient gradient = GemmGradient::none;  // of_first: grad b^T; of_second: a^T grad
  bool batched = false;                        // bmm, also of one product
  bool own_workspace = false;                  // the caller's, which it keeps: PyTorch gives cuBLAS none
  // Elements of contiguous copies of what is read first and second, where cuBLAS cannot take it: see fits_cublas().
  std::int64_t first_copied = 0, second_copied = 0;
};

/// A 2-D convolution between image [n, c, h, w] and feature map [n, k, p, q] with filter [k, c / groups, r, s].
/// A transposed convolution is the backward_data pass of one; its roles of image and feature map are
/// those of that convolution.
struct Convolution {
  ConvolutionPass pass = ConvolutionPass::forward;
  std::int64_t n = 1, c = 1, h = 1, w = 1, k = 1, p = 1, q = 1, r = 1, s = 1;
  std::int64_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1, groups = 1;
  bool native = false;                 // PyTorch's own depthwise kernel, without a cuDNN workspace
  bool im2col = false;                 // PyTorch's slow_conv2d: an im2col buffer and a cuBLAS product a sample
  bool makes_columns = false;          // ... and this operation allocates the buffer itself
  std::int64_t input_copy_bytes = 0;   // of an input in another layout, copied before the output is allocated
  std::int64_t weight_copy_bytes = 0;  // of a weight in another layout, copied after it
  bool channels_last = false;
  DType dtype = DType::fp32;
};

/// A pointwise kernel over `elements` results.
struct Elementwise {
  std::int64_t elements = 0;
  int flops = 1;  // per element
};
/// One pointwise kernel of the operator's own cost.
inline Elementwise each_of(Operator op, const Shape& shape) { return {shape.elements(), row_of(op).flops}; }

struct BatchNorm {
  std::int64_t elements = 0;
  bool training = true;
  bool backward = false;
  std::int64_t channels = 0, rows = 0;  // elements = channels * rows
  bool native_rows = false;             // PyTorch's kernel for [rows, channels], which may stage across blocks
  bool cudnn = false;                   // computed by cuDNN, not by PyTorch's own kernels
  DType accumulate = DType::fp32;       // of the statistics
};

/// Layer normalisation over the last `columns` elements of each of `rows` rows (native_layer_norm), or rms_norm's fused
/// form of it; `weights`: how many of weight and bias get a gradient.
struct LayerNorm {
  std::int64_t rows = 0, columns = 0;
  bool backward = false;
  int weights = 0;
  DType dtype = DType::fp32;
};

/// Group normalisation of [n, channels, area] (native_group_norm).
struct GroupNorm {
  std::int64_t n = 0, channels = 0, area = 0, groups = 1;
  bool affine = true;
  bool channels_last = false;
  bool backward = false;
  bool wants_input = true;  // backward: the input gets a gradient
  DType dtype = DType::fp32;
};

/// A TensorIterator reduction of a contiguous tensor over the dimensions in `reduced` (bit i: dimension i).
struct Reduction {
  Shape shape;
  unsigned reduced = 0;
  DType input = DType::fp32;
  DType output = DType::fp32;
  bool mean = false;      // mean, norm and the like read 16-bit inputs in narrower vectors than sum
  bool converts = false;  // what is reduced has another type and is copied to `input` once the result is there
};

/// The same reduction of a tensor with these strides, its dimensions in the order of its memory, as TensorIterator
/// visits them. A tensor with repeated elements is left as it is.
Reduction in_memory_order(const Reduction& reduction, const Strides& strides);

struct Pooling {
  std::int64_t windows = 0;  // output elements
  std::int64_t taps = 1;     // elements read a window
};

/// softmax or log_softmax over rows; backward too.
struct Softmax {
  std::int64_t elements = 0;
  bool backward = false;
  bool product_scratch = false;  // softmax's backward keeps grad * output while it runs
  bool copies = false;  // of the gradient, or of that product, which is not contiguous: backward takes contiguous()
  DType dtype = DType::fp32;
};

struct NllLoss {
  std::int64_t elements = 0;  // targets
  bool backward = false;
};

/// A pointwise loss reduced to a scalar inside one operator (mse_loss, binary_cross_entropy_with_logits, ...). Its
/// temporaries have `elements` values of `dtype` each, live until the operator ends and are scratch; the
/// reduction of the last one has a Reduction's scratch.
struct Loss {
  std::int64_t elements = 0;
  int flops = 1;               // per element
  int temporaries_before = 0;  // allocated before the result
  int temporaries_after = 0;   // allocated after it
  bool mean = true;            // else sum
  DType dtype = DType::fp32;
};

/// Embedding: rows gathered from a table, or gradients summed into one.
struct Lookup {
  std::int64_t indices = 0, vocabulary = 0, features = 0;
  bool backward = false;
  bool bag = false;  // nn.EmbeddingBag's gradient sorts few indices, too
  DType dtype = DType::fp32;
};

/// A kernel whose every allocation is known where it is emitted (attention).
struct OpaqueKernel {
  std::int64_t macs = 0;
  std::int64_t recompute_macs = 0;  // of results of the forward kernel that were not kept
  std::int64_t elementwise_flops = 0;
  std::array<std::int64_t, 20> program{};  // as Schedule::scratch, `actions` of them
  std::int32_t actions = 0;
};

/// cuDNN's recurrent layers over sequences of the same length (_cudnn_rnn). Its workspace is allocated between results.
/// Stack::persistent is for the GPU to decide.
struct Recurrence {
  cudnn_rnn::Stack stack;
  std::int64_t steps = 0, batch = 0;
  std::int64_t macs = 0;
  int results_before = 0, results_after = 0;
  bool training = true;
  bool backward = false;
  DType dtype = DType::fp32;
};
/// The random states that cuDNN's dropout keeps once it was first needed, with the seed read from the generator before.
struct DropoutStates {};

struct Copy {  // cat, contiguous, clone
  std::int64_t elements = 0;
};
struct Fill {  // zeros, ones_like
  std::int64_t elements = 0;
};
struct Resample {  // nearest (1 tap), bilinear (4)
  std::int64_t elements = 0;
  int taps = 1;
};
/// No kernel: a Python frame that returns, an autograd node that only passes its gradient on.
struct Marker {};

using Primitive =
    std::variant<Gemm, Convolution, Elementwise, BatchNorm, LayerNorm, GroupNorm, Reduction, Pooling, Softmax, NllLoss,
                 Loss, Lookup, OpaqueKernel, Recurrence, DropoutStates, Copy, Fill, Resample, Marker>;

/// 1 MAC = 2 FLOP; `flops` is the element-wise bucket (bias, norm, activation, pooling, loss), never matmuls.
struct Cost {
  std::int64_t macs = 0;
  std::int64_t elementwise_flops = 0;
  std::int64_t kernels = 0;         // launches, modelled
  std::int64_t recompute_macs = 0;  // beside `macs`: of what the forward did not keep
};
Cost cost(const Primitive& op);

/// The convolution's multiply-adds, the same for all three passes: n k p q (c / groups) r s.
std::int64_t macs(const Convolution& op);

}  // namespace gpuplan

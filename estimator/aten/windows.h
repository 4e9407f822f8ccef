// What layers that slide a kernel or a window over their input are told, and how many positions that leaves it.
#pragma once

#include <string_view>

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

/// The argument, each of its numbers at least `least`. A layer over a sequence is one over an image of a single row:
/// with `one_d` it is one number, and the row's is `least`.
Pair pair_at_least(const LayerBuilder& b, std::string_view name, std::int64_t least, bool one_d = false);

constexpr std::int64_t reach(std::int64_t kernel, std::int64_t dilation) { return dilation * (kernel - 1) + 1; }

/// How many positions a window has in an input of `padded` elements, a last one that is not whole included with
/// `ceil_mode`. `what` words the error: "kernel".
std::int64_t positions(const LayerBuilder& b, std::string_view what, std::int64_t padded, std::int64_t reach,
                       std::int64_t stride, bool ceil_mode = false);

/// What a pool is over: images, or sequences, which are images of one row (aten/src/ATen/native/Pooling.cpp).
enum class Over { images, rows };
using Pool = TensorId (*)(LayerBuilder& b, TensorId image, Over over);
void lower_pool(LayerBuilder& b, Pool pool, Over over);
template <Pool pool>
void over_images(LayerBuilder& b) {
  lower_pool(b, pool, Over::images);
}
template <Pool pool>
void over_rows(LayerBuilder& b) {
  lower_pool(b, pool, Over::rows);
}

/// A convolution's filter.
struct Filter {
  Pair kernel, stride, padding, dilation;
  std::int64_t groups = 1;
};
/// The argument "groups". Throws Error where it does not divide both.
std::int64_t groups_of(const LayerBuilder& b, std::int64_t in_channels, std::int64_t out_channels);
/// The convolution that makes `features` [N, K, P, Q] or [N, K, Q] of `image` [N, C, H, W] or [N, C, W].
Convolution convolution_of(ConvolutionPass pass, const Shape& image, const Shape& features, const Filter& filter);
/// Of its weight.
Shape filter_shape(const Convolution& convolution, bool one_d);

}  // namespace gpuplan::aten

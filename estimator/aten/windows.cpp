#include "estimator/aten/windows.h"

#include <string>

#include "estimator/aten/views.h"

namespace gpuplan::aten {

Pair pair_at_least(const LayerBuilder& b, std::string_view name, std::int64_t least, bool one_d) {
  Pair p = b.pair(name);
  if (one_d) p = {least, p.h};
  if (p.h < least || p.w < least)
    b.fail(name, "\"" + std::string(name) + "\" must be at least " + std::to_string(least),
           "expected >= " + std::to_string(least));
  return p;
}

std::int64_t positions(const LayerBuilder& b, std::string_view what, std::int64_t padded, std::int64_t reach,
                       std::int64_t stride, bool ceil_mode) {
  const std::int64_t free = padded - reach + (ceil_mode ? stride - 1 : 0);
  if (free < 0)
    b.fail("kernel_size", "the " + std::string(what) + " reaches over " + std::to_string(reach) +
                              " positions, the padded input has " + std::to_string(padded));
  return free / stride + 1;
}

void lower_pool(LayerBuilder& b, Pool pool, Over over) {
  if (over == Over::images) {
    b.expect_rank(4, "[N, C, H, W]");
    return b.output(pool(b, b.input(), over));
  }
  b.expect_rank(3, "[N, C, L]");
  b.output(squeeze(b, pool(b, unsqueeze(b, b.input(), 2), over), 2));
}

std::int64_t groups_of(const LayerBuilder& b, std::int64_t in_channels, std::int64_t out_channels) {
  const std::int64_t groups = b.size("groups");
  if (in_channels % groups != 0 || out_channels % groups != 0)
    b.fail("groups", "in_channels " + std::to_string(in_channels) + " and out_channels " +
                         std::to_string(out_channels) + " must both be divisible by groups " + std::to_string(groups));
  return groups;
}

Convolution convolution_of(ConvolutionPass pass, const Shape& image, const Shape& features, const Filter& f) {
  const bool one_d = image.rank() == 3;
  return {.pass = pass,
          .n = image[0],
          .c = image[1],
          .h = one_d ? 1 : image[2],
          .w = image[-1],
          .k = features[1],
          .p = one_d ? 1 : features[2],
          .q = features[-1],
          .r = f.kernel.h,
          .s = f.kernel.w,
          .stride_h = f.stride.h,
          .stride_w = f.stride.w,
          .pad_h = f.padding.h,
          .pad_w = f.padding.w,
          .dilation_h = f.dilation.h,
          .dilation_w = f.dilation.w,
          .groups = f.groups};
}

Shape filter_shape(const Convolution& c, bool one_d) {
  const std::int64_t channels = c.c / c.groups;
  return one_d ? Shape{c.k, channels, c.s} : Shape{c.k, channels, c.r, c.s};
}

}  // namespace gpuplan::aten

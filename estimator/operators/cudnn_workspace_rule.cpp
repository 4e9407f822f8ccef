#include "estimator/operators/cudnn_workspace_rule.h"

#include <algorithm>

#include "estimator/base/integers.h"

namespace gpuplan::cudnn_rule {
namespace {

constexpr std::int64_t kImageChannels = 8;  // up to here a dense convolution is the first of its network

/// In doubles, because sizes of any model come here and only their magnitude matters.
double value_of(Feature feature, const CudnnConvolution& v) {
  const auto real = [](std::int64_t n) { return static_cast<double>(n); };
  const auto alignment = [&](std::int64_t n) { return real(std::min<std::int64_t>(n & -n, 32)); };
  const auto fill = [&](std::int64_t n, std::int64_t tile) { return real(n) / real(round_up(n, tile)); };
  const double image = real(v.h) * real(v.w), output = real(v.p) * real(v.q), taps = real(v.r) * real(v.s);
  const double group_channels = real(v.c) / real(v.groups), group_filters = real(v.k) / real(v.groups);
  switch (feature) {
    case Feature::none: break;
    case Feature::batch: return real(v.n);
    case Feature::channels: return real(v.c);
    case Feature::filters: return real(v.k);
    case Feature::group_channels: return group_channels;
    case Feature::group_filters: return group_filters;
    case Feature::width: return real(v.w);
    case Feature::output_width: return real(v.q);
    case Feature::image: return image;
    case Feature::output: return output;
    case Feature::taps: return taps;
    case Feature::stride: return real(v.stride_h) * real(v.stride_w);
    case Feature::dilation: return real(v.dilation_h) * real(v.dilation_w);
    case Feature::padding: return real(v.pad_h) + real(v.pad_w);
    case Feature::channel_alignment: return alignment(v.c);
    case Feature::filter_alignment: return alignment(v.k);
    case Feature::image_alignment: return alignment(v.h * v.w);
    case Feature::output_alignment: return alignment(v.p * v.q);
    case Feature::image_fill: return fill(v.h * v.w, 256);
    case Feature::output_fill: return fill(v.p * v.q, 128);
    case Feature::channel_fill: return fill(v.c, 64);
    case Feature::filter_fill: return fill(v.k, 64);
    case Feature::rows: return real(v.n) * output;
    case Feature::input_rows: return real(v.n) * image;
    case Feature::depth: return group_channels * taps;
    case Feature::backward_depth: return group_filters * taps;
    case Feature::weights: return real(v.k) * group_channels * taps;
    case Feature::input_elements: return real(v.n) * real(v.c) * image;
    case Feature::output_elements: return real(v.n) * real(v.k) * output;
    case Feature::widening: return real(v.k) / real(v.c);
    case Feature::multiply_adds: return real(v.n) * output * real(v.k) * group_channels * taps;
  }
  return 0;
}

}  // namespace

Family family_of(const CudnnConvolution& v) {
  if (v.groups > 1) return v.groups == v.c ? Family::depthwise : Family::grouped;
  if (v.c <= kImageChannels) return Family::image;
  return v.r * v.s == 1 ? Family::pointwise : Family::dense;
}

const Form& form_of(const CudnnConvolution& convolution, std::size_t setup) {
  const Node* node =
      tree(setup, static_cast<std::size_t>(convolution.pass), static_cast<std::size_t>(family_of(convolution)));
  while (static_cast<Feature>(node->feature) != Feature::none) {
    const bool below =
        value_of(static_cast<Feature>(node->feature), convolution) < static_cast<double>(node->threshold);
    node += below ? 1 : node->other;
  }
  return form(node->other);
}

}  // namespace gpuplan::cudnn_rule

// The rule for convolutions without a record: which form the workspace takes, by decision trees over the convolution's
// sizes. Trees and forms are data (cudnn_workspace_rule_table.cpp, trained on recordings by
// tests/recorders/convolution_rule.py). cuDNN's own choice is a heuristic in a closed library, so this one is
// `modelled`: tests/unit/operators/test_cudnn_workspace.cpp measures it on convolutions that it has not seen.
#pragma once

#include <cstddef>
#include <cstdint>

#include "estimator/operators/cudnn_workspace.h"

namespace gpuplan::cudnn_rule {

/// A workspace: copies of the input, the output and the filter in the convolution's precision, filters in fp32 for the
/// parts of a divided sum, and bytes that do not grow; padded: with channels rounded up to 4 (fp32) or 8 (half types).
struct Form {
  bool padded = false;
  std::int16_t inputs = 0, outputs = 0, filters = 0, partial_filters = 0;
  std::int64_t rest_bytes = 0;
};

/// What a tree asks for, all of them counts of elements and their ratios: image is h * w, output p * q, taps r * s,
/// rows n * p * q, depth the terms of an output's sum, backward_depth those of an input gradient's, widening k / c.
/// group_* are a group's. An alignment is the power of two that divides a count, at most 32; a fill the share of a
/// kernel's tiles of 256 (image), 128 (output) or 64 (channels, filters) that a count fills.
enum class Feature : std::uint8_t {
  none,  // a leaf
  batch,
  channels,
  filters,
  group_channels,
  group_filters,
  width,
  output_width,
  image,
  output,
  taps,
  stride,
  dilation,
  padding,
  channel_alignment,
  filter_alignment,
  image_alignment,
  output_alignment,
  image_fill,
  output_fill,
  channel_fill,
  filter_fill,
  rows,
  input_rows,
  depth,
  backward_depth,
  weights,
  input_elements,
  output_elements,
  widening,
  multiply_adds,
};

/// A node of a tree. Below the threshold the next node follows it directly, else `other` nodes later; in a leaf `other`
/// is the form.
struct Node {
  std::uint16_t other = 0;
  std::uint8_t feature = 0;
  float threshold = 0;
};

/// Engines differ between these kinds of convolution, so each has its own trees.
enum class Family : std::uint8_t { depthwise, grouped, image, pointwise, dense };
inline constexpr std::size_t kFamilies = 5;
Family family_of(const CudnnConvolution& convolution);

/// The root of a tree; setups as in cudnn_workspace_table.h, passes in CudnnConvolution's order.
const Node* tree(std::size_t setup, std::size_t pass, std::size_t family);
const Form& form(std::size_t index);

/// The form of a convolution that is not recorded.
const Form& form_of(const CudnnConvolution& convolution, std::size_t setup);

}  // namespace gpuplan::cudnn_rule

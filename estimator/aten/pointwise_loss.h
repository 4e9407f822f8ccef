// Losses that are one operator: a pointwise error and its mean or sum (aten/src/ATen/native/Loss.cpp).
#pragma once

#include <optional>
#include <string_view>

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

struct PointwiseLoss {
  Operator op;
  std::string_view node;
  Operator backward;
  int temporaries_before = 0, temporaries_after = 0;
  bool result_of_input_size = false;  // the scalar that it returns holds a storage of that size
  // Of the gradient: row-major whatever the input's layout, where Loss.cpp makes it with zeros_like(input,
  // LEGACY_CONTIGUOUS_MEMORY_FORMAT); else as TensorIterator places it.
  std::optional<Placing> gradient = std::nullopt;
};

extern const PointwiseLoss kMseLoss, kSmoothL1Loss, kHuberLoss, kBceWithLogitsLoss;

/// The loss of x and a target of its shape and type, both in fp32 under autocast, which is for the caller to see to.
/// `bend`: where smooth_l1_loss and huber_loss turn from squares to straight lines.
TensorId pointwise_loss(LayerBuilder& b, const PointwiseLoss& f, TensorId x, TensorId target, bool mean,
                        double bend = 0);
/// The same with reduction="none": the error of each element.
TensorId pointwise_errors(LayerBuilder& b, const PointwiseLoss& f, TensorId x, TensorId target, double bend = 0);

}  // namespace gpuplan::aten

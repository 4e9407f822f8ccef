// scaled_dot_product_attention's composite form (aten/src/ATen/native/transformers/attention.cpp,
// _scaled_dot_product_attention_math): ordinary operators in the order of estimator/operators/attention.h.
#pragma once

#include "estimator/aten/attention.h"

namespace gpuplan::aten {

TensorId math_attention(LayerBuilder& b, const AttentionArguments& arguments);

}  // namespace gpuplan::aten

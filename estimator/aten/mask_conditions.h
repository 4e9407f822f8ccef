// What transformers/masking_utils.py makes its masks of: conditions on the indices of queries and keys, one after the
// other, broadcast to [batch, 1, queries, keys]. None has a gradient.
#pragma once

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

/// arange(end), int64.
TensorId arange(LayerBuilder& b, std::int64_t end);
/// arange(end) + offset.
TensorId shifted_arange(LayerBuilder& b, std::int64_t end);

/// What a query and a key are compared by.
struct Compared {
  TensorId query = kNone, key = kNone;
};
/// [..., tokens] as [..., 1, tokens] and as [..., tokens, 1], of as many dimensions as `to`.
TensorId as_row(LayerBuilder& b, TensorId t, const Shape& to);
TensorId as_column(LayerBuilder& b, TensorId t, const Shape& to);
/// table[batch_index, token_index], which broadcast to `shape`: the batch's index, and with `copies_both` the token's,
/// is copied to that shape first (aten/src/ATen/native/TensorAdvancedIndexing.cpp, AdvancedIndex).
TensorId looked_up(LayerBuilder& b, TensorId table, TensorId batch_index, TensorId token_index, const Shape& shape,
                   bool copies_both);
/// and_masks(sliding_window_overlay, causal_mask_function): not later, and within the window where it is not 0.
TensorId not_later(LayerBuilder& b, Compared c, const Shape& shape, std::int64_t window);
/// eager_mask: 0 where a boolean mask, expanded to `shape`, is set, the least number elsewhere.
TensorId as_numbers(LayerBuilder& b, TensorId mask, const Shape& shape);

/// Whether an attention's mask is one. Layers that make masks hand on tokens or positions [batch, tokens] where there
/// is nothing to mask.
bool is_attention_mask(const LayerBuilder& b, TensorId t);

}  // namespace gpuplan::aten

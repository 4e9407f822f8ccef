// Names of tensors as transformers reads them: checkpoints keep those of the release that wrote them.
#pragma once

#include "tools/importers/safetensors.h"

namespace gpuplan {

/// The tensors by the names that modules have today, in the order of their first part:
/// - LayerNorm.gamma and .beta are weight and bias (transformers, conversion_mapping.py, "legacy");
/// - block_sparse_moe is mlp, and the matrices of the experts, w1 [inner, hidden] beside w3, and w2 [hidden, inner],
/// are
///   one tensor each: gate_up_proj [experts, 2 * inner, hidden] and down_proj [experts, hidden, inner] ("mixtral");
/// - what was a buffer once is left out: attention masks of GPT-2, inv_freq of rotary positions, position_ids.
/// Experts that do not make a whole, with equal shapes and none missing, stay as they are.
StoredTensors read_by_present_names(const StoredTensors& stored);

/// Other names that transformers reads a tensor by, where nothing is called as it is stored:
/// - ViT's layers as they were before transformers 5 and are still saved (conversion_mapping.py, "vit"):
///   encoder.layer.0.attention.attention.query is layers.0.attention.q_proj;
/// - the bias of a masked language model's head, which is its decoder's (tie_weights).
std::vector<std::string> other_names(const std::string& stored);

}  // namespace gpuplan

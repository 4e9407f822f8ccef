// F.embedding: rows of a table.
#pragma once

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

/// weight [rows, features], indices [...] of integers -> [..., features]. Indices that are no flat view are copied
/// while it runs, and again in backward (aten/src/ATen/native/Embedding.cpp, cuda/Embedding.cu). Saves the indices; the
/// gradient of the table is dense.
TensorId embedding(LayerBuilder& b, TensorId weight, TensorId indices);
/// transformers 5, modeling_utils.py, activation_checkpointing_enable, where the model's first input are tokens: a hook
/// calls output.requires_grad_(True) on what get_input_embeddings() returns, so that blocks which are run again have an
/// input that wants a gradient where only adapters are trained. `embedded`: what that module returns.
void want_gradient_of_tokens(LayerBuilder& b, TensorId embedded, TensorId indices);

/// Throws Error, at the argument, where a sequence of `tokens`, or what a generation makes of it, is longer than the
/// `rows` positions that a model learned: looking one up beyond them is an IndexError of PyTorch's.
void expect_learned_positions(const LayerBuilder& b, std::string_view argument, std::int64_t rows, std::int64_t tokens);

}  // namespace gpuplan::aten

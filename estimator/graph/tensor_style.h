// How a linear layer is shared by the ranks of tensor parallelism, as transformers' tp_plan says it for each module
// (transformers/distributed/tensor_parallel.py of 5.23, base_model_tp_plan of the configurations).
#pragma once

#include <cstdint>
#include <string_view>

namespace gpuplan {

/// colwise: a rank has some of the output features. rowwise: some of the input features, and results are summed.
/// gathered (colwise_gather_output): colwise, and all ranks then have the whole result. vocabulary (embedding_rowwise):
/// of an embedding, some of the rows.
enum class TensorStyle : std::uint8_t { whole, colwise, rowwise, gathered, vocabulary };

/// Of the module at this path, by the last part of it: those of Llama, Mistral, Qwen and Gemma have the same names.
TensorStyle tensor_style_of(std::string_view path);

}  // namespace gpuplan

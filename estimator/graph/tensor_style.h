// How a module is shared by the ranks of tensor parallelism, as transformers' tp_plan says it for each module
// (transformers/distributed/tensor_parallel.py of 5.23, base_model_tp_plan of the configurations), and as PyTorch's
// tutorial and torchtitan give it to parallelize_module, with sequence parallelism
// (torch/distributed/tensor/parallel/style.py).
#pragma once

#include <cstdint>
#include <string_view>

namespace gpuplan {

/// colwise: a rank has some of the output features. rowwise: some of the input features, and results are summed.
/// head (colwise_gather_output): colwise, and all ranks then have the whole result, but in loss parallelism. vocabulary
/// (embedding_rowwise): of an embedding, some of the rows. Of sequence parallelism alone, norm: of some of the tokens;
/// head_norm: of some of the heads; module: attention and feed-forward, whose input is gathered (PrepareModuleInput).
enum class TensorStyle : std::uint8_t { whole, colwise, rowwise, head, vocabulary, norm, head_norm, module };

/// Of a weight that each rank has whole, and of whose gradient it has a part.
constexpr bool is_norm(TensorStyle style) { return style == TensorStyle::norm || style == TensorStyle::head_norm; }

/// Of the module at this path, by the last part of it: those of Llama, Mistral, Qwen and Gemma have the same names.
TensorStyle tensor_style_of(std::string_view path, bool sequence);

}  // namespace gpuplan

// A GPT as Megatron-LM spreads it: what a rank of tensor and pipeline parallelism keeps and computes. From
// arXiv:2104.04473 (parameters, FLOPs) and arXiv:2205.05198 (activations). h: hidden, s: sequence, a: heads, V:
// vocabulary, b: samples of a micro-batch, t: ranks that share a layer.
#pragma once

#include <cstdint>

namespace gpuplan {

struct Transformer {
  std::int64_t layers = 0, hidden = 0, heads = 0, sequence = 0, vocabulary = 0;
};

enum class RecomputeMode : std::uint8_t { none, selective, full };

/// How a step of it is shared by GPUs.
struct TransformerRun {
  std::int64_t batch = 0;        // samples of the whole step
  std::int64_t micro_batch = 1;  // samples of each micro-batch
  std::int64_t tensor = 1, pipeline = 1, gpus = 1;
  RecomputeMode recompute = RecomputeMode::full;
  bool shared_optimizer = false;  // by the ranks of data parallelism: Megatron-LM's distributed optimizer
  std::int64_t ranks() const { return gpus / (tensor * pipeline); }
  std::int64_t micro_batches() const { return batch / (ranks() * micro_batch); }
};

/// Words and positions, layers, the last norm: 12 l h^2 (1 + 13 / 12 h + (V + s) / 12 l h) and 2 h.
std::int64_t parameters_of(const Transformer& model);

/// Of a batch of `samples`, forward and backward, 72 B s l h^2 (1 + s / 6 h + V / 12 l h); with the forward again of
/// full recomputation 96 B s l h^2 (1 + s / 6 h + V / 16 l h).
double training_flops(const Transformer& model, std::int64_t samples, RecomputeMode recompute = RecomputeMode::full);

/// What one of `tensor` ranks has of a layer: the columns or rows of its products and their biases where these are
/// split, norms and other biases whole: (12 h^2 + 7 h) / t + 6 h.
std::int64_t layer_parameters(const Transformer& model, std::int64_t tensor);
/// Of the first stage besides: its words and all positions. Of the last one: a norm, and the words again for the head
/// where it is not the first stage, too.
std::int64_t stage_parameters(const Transformer& model, std::int64_t tensor, std::int64_t stages, std::int64_t stage);

/// Bytes that a layer keeps for backward, in half precision. None: s b h (10 + 24 / t + 5 a s / h t); selective:
/// without what is within attention; full: the layer's input, 2 s b h. With sequence parallelism all of it is shared:
/// s b h / t (34 + 5 a s / h).
double layer_activation_bytes(const Transformer& model, std::int64_t samples, std::int64_t tensor,
                              RecomputeMode recompute, bool sequence_parallel = false);

/// The highest of a stage under 1F1B: its layers' for each micro-batch in flight, on the first stage the embeddings'
/// dropout mask for each, on the last the norm's and the head's inputs and the logits in fp32, 4 s b h (1 + V / h) / t.
/// Full recomputation has one layer's activations besides.
double stage_activation_bytes(const Transformer& model, std::int64_t samples, std::int64_t tensor, std::int64_t stages,
                              std::int64_t stage, std::int64_t micro_batches, RecomputeMode recompute);

constexpr double real(std::int64_t n) { return static_cast<double>(n); }

}  // namespace gpuplan

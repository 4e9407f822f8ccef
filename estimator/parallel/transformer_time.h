// How long a training step of a GPT takes under Megatron-LM's tensor, pipeline and data parallelism, with full
// recomputation (arXiv:2104.04473): products on tensor cores, everything else at the memory's rate, rings between them.
#pragma once

#include <functional>
#include <optional>

#include "estimator/parallel/collectives.h"
#include "estimator/parallel/transformer.h"

namespace gpuplan {

/// What a GPU does, by whoever models or measured it.
struct GpuSpeed {
  /// Seconds of `batch` products [m, k] x [k, n] in half precision.
  std::function<double(double batch, double m, double n, double k)> product;
  double bytes_per_second = 0;  // that memory achieves
};

struct TransformerRun {
  std::int64_t batch = 0;        // samples of the whole step
  std::int64_t micro_batch = 1;  // samples of each micro-batch
  std::int64_t tensor = 1, pipeline = 1, gpus = 1;
  std::int64_t ranks() const { return gpus / (tensor * pipeline); }
  std::int64_t micro_batches() const { return batch / (ranks() * micro_batch); }
};

/// Seconds, of a step.
struct TransformerTime {
  double products = 0;  // of one device's layers in one step, as all below but `step`
  double element_wise = 0;
  double tensor_parallel = 0;  // all-reduces within layers
  double pipeline_sends = 0;
  double head = 0;  // of the last stage
  double bubble = 0;
  double data_parallel = 0;  // the all-reduce of gradients, which nothing hides
  double optimizer = 0;
  double step = 0;
  double teraflops_per_gpu = 0;  // training_flops over all GPUs
};

/// Nothing where a link that the run needs is not known. Layers are a multiple of the stages, heads and the vocabulary
/// of `tensor`, and the batch of ranks() * micro_batch.
std::optional<TransformerTime> transformer_time(const Transformer& model, const TransformerRun& run,
                                                const GpuSpeed& gpu, const Topology& topology);

/// The micro-batch of 1, 2, 4, 8 and 16 samples that is fastest, of those whose states (18 bytes a parameter: half
/// precision parameters, fp32 gradients, Adam with a master copy) and activations fit `memory_bytes` on every stage; as
/// section 3.4 of the paper chooses it. Nothing where none fits.
std::optional<std::int64_t> fastest_micro_batch(const Transformer& model, TransformerRun run, const GpuSpeed& gpu,
                                                const Topology& topology, double memory_bytes);

}  // namespace gpuplan

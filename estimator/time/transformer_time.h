// How long a training step of a GPT takes under Megatron-LM's tensor, pipeline and data parallelism
// (arXiv:2104.04473).
#pragma once

#include <optional>
#include <vector>

#include "estimator/distributed/collectives.h"
#include "estimator/distributed/communication.h"
#include "estimator/distributed/transformer.h"
#include "estimator/time/gpu_speed.h"

namespace gpuplan {

/// Seconds, of a step. All but `step` and what comes after it sum up to it: of the stage that sets the pace, what it
/// does in all micro-batches and what it waits for.
struct TransformerTime {
  double products = 0;      // of its layers
  double element_wise = 0;  // likewise: everything else
  double head = 0;          // of the last stage: logits and loss
  double host = 0;          // waiting for its calls
  double sends = 0;         // TP and PP activations
  double idle = 0;          // the pipeline's, while it fills and drains
  double after = 0;         // gradients and parameters of the first stage, whose backward ends last
  double optimizer = 0;     // likewise
  double step = 0;
  std::int64_t pace = 0;         // which stage that is, the last of equals
  double teraflops_per_gpu = 0;  // training_flops over all GPUs, with what is computed again
  double alone_seconds = 0;      // the same step on one GPU that has room for everything
  double slower = 1;             // products take so many times as long as on one GPU: the slowest of all sets the pace
  std::int64_t gpus = 1;
  /// Of so many GPUs' throughput, the share that is left.
  double efficiency() const { return step > 0 ? alone_seconds / (static_cast<double>(gpus) * step) : 0; }
};

/// Nothing where a link that the run needs is not known. Layers are a multiple of the stages, heads and the vocabulary
/// of `tensor`, and the batch of ranks() * micro_batch.
std::optional<TransformerTime> transformer_time(const Transformer& model, const TransformerRun& run,
                                                const GpuSpeed& gpu, const Topology& topology);

}  // namespace gpuplan

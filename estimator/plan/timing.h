// The time of a step, as values.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace gpuplan {

/// What a step, or a layer, waits for most: arithmetic, the GPU's memory, or the host that launches kernels.
enum class Bound : std::uint8_t { compute, memory, launch };
std::string_view name_of(Bound bound);

/// Seconds of a scheduled operation: for the host to call it, and for the GPU to run it.
struct StepWork {
  double call = 0, run = 0;
};

/// How the batch comes to the GPU in every step.
enum class HostCopy : std::uint8_t {
  pageable,    // tensor.to("cuda"): the host waits
  pinned,      // of pin_memory=True with non_blocking=True, as PyTorch's ImageNet example does
  overlapped,  // pinned, by another stream while the step before runs
  none         // the batch is there already
};

struct LayerTime {
  double forward_seconds = 0, backward_seconds = 0;  // of its kernels and of waiting for them; forward: also the loss
  Bound bound = Bound::launch;
  // What its kernels do in a step, forward and backward: arithmetic of every kind, and what they move at least.
  std::int64_t flops = 0, bytes = 0;
  double busy_seconds = 0;  // of its kernels, without waiting for the host
  double seconds() const { return forward_seconds + backward_seconds; }
};

/// What arithmetic of one kind does at most on a GPU, as it is sold.
struct Roof {
  std::string_view name;  // "bf16", "tf32", "fp32"
  double flops_per_second = 0;
};

/// Of a pipeline's stage, in all micro-batches; forward: also the loss; weight: the gradients of weights, where they
/// are computed apart from the rest of backward.
struct StageTime {
  double forward_seconds = 0, backward_seconds = 0, weight_seconds = 0;
};

struct StepTime {
  // These sum to seconds(). Overlapped work counts only as far as the GPU waits for it.
  double copy_seconds = 0, forward_seconds = 0, loss_seconds = 0, backward_seconds = 0, clip_seconds = 0,
         optimizer_seconds = 0;
  double communication_seconds = 0;  // exposed communication, with several GPUs
  double bubble_seconds = 0;         // a pipeline's stage waits for the others
  double seconds() const {
    return copy_seconds + forward_seconds + loss_seconds + backward_seconds + clip_seconds + optimizer_seconds +
           communication_seconds + bubble_seconds;
  }
  // Of the GPU's kernels, by what they wait for, and of the GPU waiting for the host. Copies are in none of them.
  double compute_seconds = 0, memory_seconds = 0, waiting_seconds = 0;
  Bound bound = Bound::launch;
  std::int64_t samples = 0, tokens = 0;  // of a step; tokens: 0 where the input is none
  double flops_per_second = 0;           // of products, without what is computed again
  double peak_flops = 0;                 // of the type that most of them have
  double mfu() const { return peak_flops > 0 ? flops_per_second / peak_flops : 0; }
  std::vector<Roof> roofs;        // of the types that the step computes in, and of CUDA cores in fp32; highest first
  double peak_bytes = 0;          // a second, of the GPU's memory
  bool measured = false;          // the GPU's own measurements were used
  std::vector<LayerTime> layers;  // one a layer of the graph, in its order
  std::vector<StageTime> stages;  // of the rank, in a pipeline
};

/// The same on one of several GPUs.
struct RankTime {
  StepTime step;                // of the rank; StepTime::communication_seconds is what is exposed and copied, in all
  std::vector<double> exposed;  // seconds, one a row of communication
  double copy_seconds = 0;      // into the collectives' buffers and out of them
  double alone_seconds = 0;     // a step of the rank's batch on one GPU that has everything to itself
  double slower = 1;            // the step is that of the slowest of the GPUs, which computes so many times as long
  /// Of so many GPUs' throughput, the share that is left: 1 is perfect. More than 1 where sharing the optimizer's work
  /// saves more than sending costs.
  double efficiency() const { return step.seconds() > 0 ? alone_seconds / step.seconds() : 0; }
};

}  // namespace gpuplan

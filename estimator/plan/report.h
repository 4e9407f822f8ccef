// The figures of a plan, which every output format prints. The JSON schema gpuplan.plan/1 mirrors these structs field
// by field.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/distributed/communication.h"
#include "estimator/distributed/nccl_buffers.h"
#include "estimator/distributed/stage_split.h"
#include "estimator/distributed/strategy.h"
#include "estimator/distributed/zero_states.h"
#include "estimator/graph/graph.h"
#include "estimator/plan/advice.h"
#include "estimator/plan/timing.h"
#include "estimator/schedule/phase.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// How certain a figure is: exact by PyTorch's rules, computed by a model with a stated error, or assumed.
enum class Confidence : std::uint8_t { exact, modelled, assumed };
std::string_view name_of(Confidence confidence);

struct PeakPart {
  Category category = Category::activations;
  std::int64_t bytes = 0;  // charged by the allocator; the parts sum to allocated_bytes
  Confidence confidence = Confidence::exact;
};

struct LayerRow {
  std::string name;
  std::string_view type;
  std::string file;
  int line = 0, column = 0;
  std::vector<Shape> input_shapes;
  Shape output_shape;
  std::int64_t parameters = 0;
  std::int64_t forward_macs = 0;
  std::int64_t backward_flops = 0;
  std::int64_t recompute_flops = 0;    // recomputed in backward, by checkpoints and inside attention
  std::int64_t elementwise_flops = 0;  // forward
  std::int64_t saved_bytes = 0;        // storages first saved by autograd here
  std::int64_t output_bytes = 0;
  // Where Report::time is known; see LayerTime.
  std::int64_t forward_ns = 0, backward_ns = 0, busy_ns = 0;
  Bound bound = Bound::launch;
  std::int64_t work_flops = 0, work_bytes = 0;
};

/// Upper bound of a step: the estimate plus one term for each unknown.
struct AtMost {
  struct Term {
    std::string_view
        id;  // "cudnn_workspaces", "cudnn_attempts", "slow_convolutions", "tables", "context", "nccl", "padding"
    std::int64_t allocated_bytes = 0, reserved_bytes = 0, device_bytes = 0;  // on top of the estimate
    std::string what;                                                        // "cuDNN workspaces"
    std::string source;  // a sentence: what is not known, and where the bound comes from
  };
  std::int64_t allocated_bytes = 0, reserved_bytes = 0, device_bytes = 0;
  std::vector<Term> terms;
};

struct ModuleBytes {  // alive at the peak, by top-level part of the path
  std::string name;
  std::int64_t bytes = 0;
};

/// The outcome of a step that needs more memory than the device has: PyTorch's allocator releases its cache and
/// retries, and raises torch.OutOfMemoryError if that is not enough.
struct WithinMemory {
  bool runs = false;
  std::int64_t retries = 0;  // caches given back up to the end of the third step (num_alloc_retries)
  // Where it does not run: the allocation that fails, as PyTorch's message has it.
  std::int64_t tried_bytes = 0, allocated_bytes = 0, reserved_bytes = 0;
  int step = 0;  // 1 is the first; 0: while the model and the batch are made
  Phase phase = Phase::start;
  std::string op, layer;
};

/// Something that a plan takes on trust.
struct Assumption {
  std::string id;     // one word, which stays: "packed", "context"
  std::string text;   // a short sentence without its end
  std::string words;  // of the headline, where it belongs there: "tokens not packed"
};

/// A part of a GPU's memory that is to stay free: what the GPU is planned with is without it.
struct Margin {
  std::int64_t hundredths = 0;    // of a percent; 0: nothing stays free
  std::int64_t usable_bytes = 0;  // of the GPU, with it
};

/// Of --rank all: ranks that are alike, and what each needs at its peak.
struct EveryRank {
  std::int64_t first = 0, last = 0, ranks = 0;  // those between need not all be among them
  std::int64_t allocated_bytes = 0, reserved_bytes = 0, device_bytes = 0;
};

/// What one rank of several GPUs keeps and sends.
struct RankShare {
  Strategy strategy;               // as asked for; Report::run.batch is the rank's own
  StateBytes states;               // by the definition of the strategy (zero_states.h)
  NcclBuffers nccl;                // what is planned is of Report::peak.context_bytes
  std::int64_t wrapped = 0;        // blocks that FSDP2 gathers each by itself
  std::int64_t sample_tokens = 0;  // of context parallelism: those that its ranks share
  std::optional<StagePart> stage;  // where torch.distributed.pipelining runs it
  std::vector<CommunicationRow> communication;
  std::optional<RankTime> time;  // where it was asked for and is known
  /// Of ranks that differ, how many there are and how many were planned to find this one, which needs the most; 0 where
  /// one was asked for.
  std::int64_t differing = 0, compared = 0;
  std::vector<EveryRank> every;  // all that differ, where they were asked for; this one needs the most
};

struct Report {
  struct {
    std::string name, file;
    std::string verified;                                                // Model::verified
    std::int64_t parameters = 0, trainable_parameters = 0, buffers = 0;  // elements
    std::int64_t layers = 0;
    std::int64_t checkpointed_blocks = 0;  // whose inside is recomputed in backward
  } model;
  RunConfig run;
  std::optional<Gpu> gpu;  // named with --gpu; none: an A100-class device was assumed
  Margin margin;           // of its memory
  struct {
    std::int64_t parameters = 0, buffers = 0, gradients = 0, optimizer_state = 0, inputs = 0, saved_for_backward = 0;
    std::int64_t kv_cache = 0;
  } bytes;  // unrounded; kv_cache: keys and values of a generation

  // Over the link, in one step.
  std::int64_t offload_bytes_to_host = 0, offload_bytes_from_host = 0;
  struct {
    std::int64_t bytes = 0;
    Phase phase = Phase::forward;
    std::string op, layer;
    std::int64_t forward_bytes = 0, backward_bytes = 0, optimizer_bytes = 0, after_model_bytes = 0,
                 end_of_forward_bytes = 0;
    // not in the JSON, for tests against traces: live bytes at the ends of phases
    std::int64_t start_bytes = 0, forward_end_bytes = 0, backward_end_bytes = 0, end_bytes = 0, loss_peak_bytes = 0;
  } tensor_peak;  // tensors only, each rounded up to 512 B
  struct {
    Reading reading;                // highest of the step, each figure by itself
    std::int64_t device_bytes = 0;  // reserved + context
    std::int64_t context_bytes = 0;
    Confidence context_confidence = Confidence::assumed;
    Phase phase = Phase::forward;  // of the allocated peak
    std::string op, layer;
    std::vector<PeakPart> parts;       // at the allocated peak
    std::vector<ModuleBytes> modules;  // activations and gradients alive there, largest first
  } peak;
  std::optional<AtMost> at_most;              // nothing where no bound is known: ZeRO-2 and 3, by definition only
  std::optional<WithinMemory> within_memory;  // where `peak` is more than the named GPU has
  std::optional<StepTime> time;               // modelled, or from the GPU's own measurements; see tell_time()
  std::string no_time;                        // why a named GPU has none
  std::optional<std::vector<Advice>> advice;  // what would make the step faster, where that was asked for
  std::vector<PhaseRow> phases;
  struct {
    std::int64_t forward_macs = 0, forward_flops = 0, backward_flops = 0, optimizer_flops = 0, step_flops = 0;
    std::int64_t recompute_flops = 0;  // what checkpointing computes again; not in step_flops
    std::int64_t elementwise_flops = 0, bytes_moved = 0;
  } compute;
  struct {
    std::int64_t segments = 0, allocations = 0, inactive_split_bytes = 0;
  } allocator;
  std::vector<LayerRow> layers;
  std::vector<TimelinePoint> timeline;
  struct {
    std::string tool;  // --count-as; empty: not asked for
    std::string unit;  // what the tool calls its number: "flops", "MACs"
    std::int64_t per_sample = 0, batch = 0;
  } count_as;
  std::optional<RankShare> rank;        // nothing of one GPU
  std::vector<Assumption> assumptions;  // assumptions_of()
  std::vector<std::string> warnings;
};

}  // namespace gpuplan

// How a training step is spread over several GPUs. Plain values with the defaults of the command line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/dtype.h"
#include "estimator/spec/tensor_layout.h"

namespace gpuplan {

/// Who keeps what. ddp, zero1 and fsdp are PyTorch's own: DistributedDataParallel, the same with
/// ZeroRedundancyOptimizer, and FSDP2 (fully_shard). zero2 and zero3 are stages of arXiv:1910.02054, as DeepSpeed
/// does them. megatron: Megatron-core's DistributedDataParallel and its optimizers.
enum class DataParallel : std::uint8_t { none, ddp, zero1, zero2, zero3, fsdp, megatron };
std::string_view name_of(DataParallel kind);

/// DeepSpeed's stage 3, in elements, with its defaults (deepspeed/runtime/zero/config.py).
struct PartitionSettings {
  std::int64_t prefetch_elements = 50'000'000;  // stage3_prefetch_bucket_size
  std::int64_t live_elements = 1'000'000'000;   // stage3_max_live_parameters
  std::int64_t reuse_elements = 1'000'000'000;  // stage3_max_reuse_distance
  std::int64_t persistence_elements = 100'000;  // stage3_param_persistence_threshold: what has no more stays whole
  std::int64_t part_elements = 1'000'000'000;   // sub_group_size: of the rank's part, for each call of the optimizer
};

/// Megatron-core's, by the names of its arguments (megatron/core/distributed/distributed_data_parallel_config.py).
struct MegatronSettings {
  bool distributed_optimizer = false;  // use_distributed_optimizer
  bool fp32_gradients = true;          // accumulate_allreduce_grads_in_fp32
  bool overlaps_reductions = false;    // overlap_grad_reduce: gradients are in buckets
  bool overlaps_gathers = false;       // overlap_param_gather, of the distributed optimizer
  std::int64_t bucket_elements = 0;    // ddp_bucket_size; 0: max(40,000,000, 1,000,000 * sample_groups())
  bool transformer_engine = false;     // its modules, and its optimizer; else Megatron-core's local ones and PyTorch's
  bool sequence_parallel = false;      // of Transformer Engine's modules
};

/// Who runs the stages of a pipeline: Megatron-LM, of which there are formulas (stage_plan.h), or
/// torch.distributed.pipelining.
enum class PipelineSchedule : std::uint8_t {
  formulas,
  gpipe,
  one_f_one_b,
  interleaved_1f1b,
  looped_bfs,
  interleaved_zero_bubble,
  zbv,
  dual_pipe_v
};

/// Those of several stages a rank, which are run as a list of actions (schedules.py, _PipelineScheduleRuntime).
constexpr bool runs_actions(PipelineSchedule schedule) { return schedule >= PipelineSchedule::interleaved_1f1b; }
/// Those that compute gradients of weights apart, later than what the stage before waits for.
constexpr bool splits_backward(PipelineSchedule schedule) {
  return schedule >= PipelineSchedule::interleaved_zero_bubble;
}
/// Those that do so with some micro-batches.
constexpr bool mixes_backward(PipelineSchedule schedule) { return schedule == PipelineSchedule::dual_pipe_v; }
/// Those whose stages go through the ranks and back again.
constexpr bool turns_back(PipelineSchedule schedule) { return schedule >= PipelineSchedule::zbv; }

std::string_view name_of(PipelineSchedule schedule);  // "1f1b"

struct PipelineSettings {
  PipelineSchedule schedule = PipelineSchedule::formulas;
  std::int64_t stage = 0;        // of the rank: the first of its stages, and its place among the ranks of a pipeline
  std::int64_t stages_each = 1;  // of a rank, every Strategy::pipeline-th
  std::vector<std::int64_t> blocks;  // of each stage; empty: as evenly as they can be, the first ones have one more
  bool counts_ends = false;          // then the embedding is one of the first stage's, norm and head one of the last's
  bool returns_outputs = true;       // schedule.step()'s return_outputs: of all micro-batches, until the next step
};

/// FSDP1, torch.distributed.fsdp.FullyShardedDataParallel, beside what it has in common with FSDP2: FULL_SHARD,
/// SHARD_GRAD_OP is Strategy::reshard_after_forward = false, HYBRID_SHARD has replicas, and NO_SHARD has no others.
struct FlatSettings {
  enum class Prefetch : std::uint8_t { before, after, none };  // backward_prefetch: BACKWARD_PRE, BACKWARD_POST, None
  Prefetch prefetch = Prefetch::before;
  bool original_parameters = false;  // use_orig_params
  bool gathers_ahead = false;        // forward_prefetch
  bool sends_states = false;         // sync_module_states
  std::optional<DType> buffer_type;  // MixedPrecision's buffer_dtype
};

struct Strategy {
  DataParallel data = DataParallel::none;
  std::optional<FlatSettings> flat;  // of DataParallel::fsdp: it is FSDP1 then
  std::int64_t gpus = 1;             // in all: data * tensor * pipeline
  std::int64_t tensor = 1;           // Megatron's tensor parallelism within a layer
  TensorPlan tensor_plan;
  std::int64_t pipeline = 1;  // ranks that have other stages each
  /// Neighbours, also those that share layers, that have some of the experts each (expert parallelism), and how
  /// many times as many (token, expert) pairs the rank is sent as it sends.
  std::int64_t experts = 1;
  double expert_load = 1;
  /// Neighbours among the ranks of data parallelism that have the same samples, and some of their tokens each (context
  /// parallelism). FSDP2 shares the model over all of them.
  std::int64_t context = 1;
  std::int64_t sample_groups() const { return ranks() / context; }
  PipelineSettings pipelining;
  std::int64_t stages() const { return pipeline * pipelining.stages_each; }
  /// The place in the pipeline of who has the stage (generate_stage_to_rank_mapping): in a loop, or there and back
  /// again.
  std::int64_t place_of(std::int64_t stage) const {
    const std::int64_t place = stage % pipeline;
    const bool back = turns_back(pipelining.schedule) && stage / pipeline % 2 == 1;
    return back ? pipeline - 1 - place : place;
  }
  bool runs_stages() const { return pipeline > 1 && pipelining.schedule != PipelineSchedule::formulas; }
  /// Whether gradients of micro-batches are added up before the one reduction of them.
  bool sums_first(std::int64_t micro_batches) const { return reduces_last && (micro_batches > 1 || runs_stages()); }
  std::int64_t rank = 0;  // among those of data parallelism
  std::int64_t gpus_per_node = 8;
  bool gradient_as_bucket_view = false;  // DDP's
  bool find_unused_parameters = false;   // DDP's
  std::int64_t bucket_cap_bytes = std::int64_t{25} << 20;
  bool reshard_after_forward = true;  // fully_shard's, of all units but the root
  bool keeps_last_block = false;      // the last one's is false, as torchtitan has it: backward begins with it
  bool reshards_root = false;         // True is said of the root, too, which is gathered again for backward then
  /// The embedding of the inputs is a unit of its own, and so is what follows the last block, which is not resharded;
  /// a tied embedding belongs to that. As Accelerate 1.15 wraps.
  bool wraps_ends = false;
  /// Accelerate's policy converts what the model returns, and its backward divides the loss.
  bool as_accelerate = false;
  /// Each parameter comes whole before it is cut, as Accelerate loads a model that one rank has read
  /// (fsdp_cpu_ram_efficient_loading).
  bool loads_whole = false;
  /// The model is on the host, and each unit comes to the GPU whole before it is cut.
  bool moves_units = false;
  std::string unit_glob;  // paths of the blocks that are wrapped each; empty: the blocks of every repeat
  /// fully_shard's MixedPrecisionPolicy: what parameters are gathered and computed in, and gradients reduced in;
  /// nothing: as they are stored, and as gradients come.
  std::optional<DType> param_type, reduce_type;
  std::int64_t replicas = 1;  // HSDP's: so many groups of ranks, each of which shares the model
  /// FSDP2's CPUOffloadPolicy: shards, their gradients and the optimizer are on the host. DeepSpeed's
  /// "offload_optimizer": gradients and the optimizer are; "offload_param": partitions, too.
  bool offloads = false, offloads_parameters = false;
  bool reduces_last = false;  // set_requires_gradient_sync(False) before all but the last micro-batch
  /// Of FSDP2's units, the root first: whether its parameters go after the forward.
  bool reshards(std::size_t unit, std::size_t units) const {
    const bool last = unit + 1 == units;
    return reshard_after_forward && unit >= 1 && unit < units && !(last && (keeps_last_block || wraps_ends));
  }
  /// One process that wraps its model for several is shared, too: torchrun --nproc-per-node 1.
  bool shares() const { return data != DataParallel::none || tensor > 1 || runs_stages(); }
  /// The first one of a mesh of stages x ranks of data parallelism x those that share layers, which are alike.
  std::int64_t global_rank() const { return (pipelining.stage * ranks() + rank) * tensor; }
  std::int64_t ranks() const { return gpus / (tensor * pipeline); }
  /// Over how many ranks FSDP2 shares the model, and which of them the rank is: init_device_mesh's (replicas, shards).
  std::int64_t shards() const { return ranks() / replicas; }
  std::int64_t shard() const { return rank % shards(); }
  /// Over how many ranks FSDP2 shares a parameter, and which of them the rank is. Neighbours have different experts,
  /// and those that share layers are among them (transformers' mesh of "efsdp" x "ep").
  struct Group {
    std::int64_t ranks = 1, rank = 0;
  };
  Group group(bool of_experts) const {
    if (!of_experts) return {shards(), shard()};
    return {shards() * tensor / experts, shard() * tensor / experts};
  }
  /// DeepSpeed's "reduce_bucket_size", and whether its stage is 2: gradients leave for the bucket as they come.
  std::int64_t reduce_bucket_elements = 500'000'000;
  bool partitions_gradients = true;
  /// "overlap_comm", which is stage 3's default: stage 2 has two buckets, reduced on a stream of their own; stage 3
  /// gathers and reduces on one each.
  bool overlaps_reductions = false;
  PartitionSettings partition;
  /// The model of stage 3 is made under deepspeed.zero.Init, as transformers and Accelerate make it: each parameter is
  /// cut when its module is there.
  bool made_partitioned = true;
  MegatronSettings megatron;
  bool is_megatron() const { return data == DataParallel::megatron; }
  bool is_deepspeed() const { return data == DataParallel::zero2 || data == DataParallel::zero3; }
};

/// As --tp says it: "4,sequence,loss".
std::string tensor_words(const Strategy& strategy);

/// As --pp-schedule says them: "1f1b,outputs=drop,split=5/4/4/3".
std::string pipeline_words(const PipelineSettings& settings);

/// FSDP2's settings that are not the usual ones, as --fsdp says them; "" where there are none.
std::string fsdp_words(const Strategy& strategy);

}  // namespace gpuplan

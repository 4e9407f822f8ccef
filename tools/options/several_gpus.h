// The flags of plan that spread a step over several GPUs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "estimator/distributed/collectives.h"
#include "estimator/distributed/strategy.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's name
class App;
}

namespace gpuplan {

/// What a DeepSpeed config says of ZeRO.
struct DeepSpeedOptions {
  std::int64_t stage = 0;
  bool overlaps = false;
  bool offloads = false, offloads_parameters = false;  // to the host
  std::optional<std::int64_t> bucket_elements;         // nothing: DeepSpeed's 5e8
  PartitionSettings partition;                         // of stage 3
  bool made_partitioned = true;                        // under deepspeed.zero.Init
  /// "auto" is said of them: transformers fills in what follows from hidden_size.
  bool bucket_is_auto = false, prefetch_is_auto = false, persistence_is_auto = false;
  bool is_auto() const { return bucket_is_auto || prefetch_is_auto || persistence_is_auto; }
};

/// Flags as written; empty: not given.
struct SeveralGpusOptions {
  std::string gpus, zero, rank, gpus_per_node, network, link, tensor, pipeline, pipeline_schedule, wrap, fsdp, experts,
      routing, context;
  std::string deepspeed, accelerate, megatron;        // files
  std::optional<DeepSpeedOptions> deepspeed_options;  // of it, once it is read
  std::optional<MegatronSettings> megatron_settings;  // of its file, once it is read
  bool bucket_view = false, find_unused = false, keep_unsharded = false;
  bool as_accelerate = false;  // FSDP2 is applied as Accelerate does it
  bool moves_units = false;    // to a model on the host (fsdp_cpu_ram_efficient_loading: false)
};

/// The word of --zero.
DataParallel data_parallel_kind(const std::string& word);
/// Whether --rank asks for each rank that differs.
inline bool asks_for_every_rank(const SeveralGpusOptions& options) { return options.rank == "all"; }
/// How many GPUs a step may be spread over.
constexpr std::int64_t kMostGpus = 1 << 20;
/// And a context over how many: each rank runs a kernel for each other one.
constexpr std::int64_t kMostOfContext = 1024;

/// Those of data parallelism; --gpus and --zero take lists where the command plans more than one step.
void add_data_parallel_options(CLI::App& command, SeveralGpusOptions& options, bool lists = false);
/// The same with --tp and --pp.
void add_several_gpus_options(CLI::App& command, SeveralGpusOptions& options);
/// Nothing for one GPU. Throws Error (usage) for values that are not understood and for flags without --gpus.
std::optional<Strategy> strategy_of(const SeveralGpusOptions& options);
/// The help of --fsdp.
constexpr const char* kFsdpHelp =
    "FSDP2 with its settings: param=bf16,reduce=fp32 (MixedPrecisionPolicy), reshard=true|false|but-last, "
    "reshard-root=true, wrap=GLOB, replicate=N (HSDP), offload=true (CPUOffloadPolicy), sync=last (of micro-batches); "
    "version=1 is FSDP1: strategy=full|grad-op|none|hybrid, orig-params=true, prefetch=pre|post|none, "
    "forward-prefetch=true, buffer=bf16, sync-states=true";
/// --fsdp into a strategy, which is FSDP2's then: "param=bf16,reduce=fp32,reshard=false,wrap=layers.*", fully_shard's
/// arguments. Throws Error (usage) for what is not understood, said twice, or said by another flag, too.
void read_fsdp(const SeveralGpusOptions& options, Strategy& strategy);
/// What connects the GPUs: NVLink or PCIe of `gpu` within a node, --network between them.
Topology topology_of(const SeveralGpusOptions& options, const std::optional<Gpu>& gpu);

}  // namespace gpuplan

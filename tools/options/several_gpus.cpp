#include "tools/options/several_gpus.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <vector>

#include "tools/options/flat_fsdp.h"
#include "tools/options/money.h"
#include "tools/options/pipeline_schedule.h"
#include "tools/options/tensor_words.h"
#include "tools/options/words.h"

namespace gpuplan {
namespace {

std::int64_t number_or(const char* flag, const std::string& text, std::int64_t fallback, std::int64_t least,
                       std::int64_t most) {
  return text.empty() ? fallback : whole_number(flag, text, least, most);
}

void need_gpus(const SeveralGpusOptions& o) {
  const std::pair<const char*, bool> flags[] = {{"--zero", !o.zero.empty()},
                                                {"--rank", !o.rank.empty()},
                                                {"--network", !o.network.empty()},
                                                {"--link", !o.link.empty()},
                                                {"--wrap", !o.wrap.empty()},
                                                {"--fsdp", !o.fsdp.empty()},
                                                {"--deepspeed", !o.deepspeed.empty()},
                                                {"--megatron", !o.megatron.empty()},
                                                {"--bucket-view", o.bucket_view},
                                                {"--find-unused-parameters", o.find_unused},
                                                {"--tp", !o.tensor.empty()},
                                                {"--ep", !o.experts.empty()},
                                                {"--routing", !o.routing.empty()},
                                                {"--cp", !o.context.empty()},
                                                {"--pp", !o.pipeline.empty()},
                                                {"--no-reshard", o.keep_unsharded},
                                                {"--gpus-per-node", !o.gpus_per_node.empty()},
                                                {"--pp-schedule", !o.pipeline_schedule.empty()}};
  if (!o.accelerate.empty())  // a plan that reads it has made flags of it by then
    throw Error("--accelerate is for the plan of a step of a model", ErrorKind::usage).help("leave it out");
  for (const auto& [flag, given] : flags)
    if (given) throw Error(std::string(flag) + " needs --gpus", ErrorKind::usage).help("for example --gpus 8");
}

}  // namespace

DataParallel data_parallel_kind(const std::string& word) {
  return choose<DataParallel>("--zero", word,
                              {{"0", DataParallel::ddp},
                               {"ddp", DataParallel::ddp},
                               {"1", DataParallel::zero1},
                               {"2", DataParallel::zero2},
                               {"3", DataParallel::zero3},
                               {"fsdp", DataParallel::fsdp}});
}

namespace {

void add_flag(CLI::App& command, const char* name, std::string& value, const char* type, const char* text) {
  command.add_option(name, value, text)->type_name(type)->group("Several GPUs");
}

}  // namespace

void add_data_parallel_options(CLI::App& command, SeveralGpusOptions& o, bool lists) {
  const auto add = [&](const char* name, std::string& value, const char* type, const char* text) {
    add_flag(command, name, value, type, text);
  };
  add("--gpus", o.gpus, lists ? "N,..." : "N", "Plans one rank of N, which share --batch; 1 is DDP with one process");
  add("--zero", o.zero, lists ? "0|1|2|3|ddp|fsdp,..." : "0|1|2|3|ddp|fsdp",
      "How ranks share the model: ddp or 0 (default), 1: ZeroRedundancyOptimizer, 2, 3: DeepSpeed's stages, fsdp: "
      "FSDP2");
  add("--fsdp", o.fsdp, "KEY=VALUE,...", kFsdpHelp);
  add("--rank", o.rank, lists ? "N" : "N|all",
      lists ? "Rank to plan (0); shards of the last ranks may be smaller"
            : "Rank to plan (the one that needs the most); all: each that differs");
  add("--ep", o.experts, "N",
      "Expert parallelism: ranks of FSDP2 that have some of the experts each, as transformers does it");
  add("--routing", o.routing, "FACTOR",
      "With --ep, how many times as many (token, expert) pairs the rank is sent as it sends (1)");
  add("--cp", o.context, "N",
      "Context parallelism: ranks of FSDP2 that have some of the tokens of each sample, as Accelerate does it");
  add("--wrap", o.wrap, "GLOB", "Blocks to call fully_shard on (the blocks of every repeat)");
  command.add_flag("--no-reshard", o.keep_unsharded, "fully_shard(reshard_after_forward=False)")->group("Several GPUs");
  command.add_flag("--bucket-view", o.bucket_view, "DDP's gradient_as_bucket_view")->group("Several GPUs");
  command
      .add_flag("--find-unused-parameters", o.find_unused,
                "DDP's find_unused_parameters, for parameters that get no gradient")
      ->group("Several GPUs");
  add("--gpus-per-node", o.gpus_per_node, "N", "GPUs per node, connected by NVLink or PCIe (8)");
  add("--link", o.link, "GB/S",
      "Bandwidth between GPUs of a node: GB/s in one direction, of each (that of the GPU's NVLink, or of its PCIe "
      "lanes)");
  add("--network", o.network, "GBPS", "Network bandwidth of a node: Gbit/s in one direction, all adapters together");
}

void add_several_gpus_options(CLI::App& command, SeveralGpusOptions& o) {
  add_data_parallel_options(command, o);
  add_flag(command, "--tp", o.tensor, "N[,sequence[,loss]]", kTensorHelp);
  add_flag(command, "--deepspeed", o.deepspeed, "FILE", "A DeepSpeed config: its ZeRO stage, buckets, types and batch");
  add_flag(command, "--megatron", o.megatron, "FILE",
           "A script that starts Megatron-LM's pretrain_gpt.py: its arguments say model, batch and parallelism");
  add_flag(command, "--accelerate", o.accelerate, "FILE",
           "A config of Accelerate: processes, DDP, FSDP2 or DeepSpeed, and mixed precision");
  add_flag(command, "--pp", o.pipeline, "N",
           "Pipeline parallelism: stages; of a GPT by Megatron-LM's formulas, else with --pp-schedule");
  add_flag(command, "--pp-schedule", o.pipeline_schedule,
           "1f1b|gpipe|interleaved1f1b|loopedbfs|interleavedzerobubble|zbvzerobubble|dualpipev,KEY=VALUE,...",
           kPipelineHelp);
}

namespace {

DType type_of_policy(const std::string& key, const std::string& word) {
  return choose<DType>("--fsdp " + key, word, {{"bf16", DType::bf16}, {"fp16", DType::fp16}, {"fp32", DType::fp32}});
}

}  // namespace

void read_fsdp(const SeveralGpusOptions& o, Strategy& s) {
  if (!o.zero.empty() && s.data != DataParallel::fsdp)
    throw Error("--fsdp is FSDP2, and --zero " + o.zero + " is not", ErrorKind::usage).help("leave out --zero");
  if (asks_for_flat_parameters(o.fsdp)) return read_flat_fsdp(o, s);
  s.data = DataParallel::fsdp;
  std::vector<std::string> given;
  for (const auto& [key, value] : fsdp_pairs(o.fsdp)) {
    const int kind = choose<int>("--fsdp", key,
                                 {{"param", 0},
                                  {"reduce", 1},
                                  {"reshard", 2},
                                  {"wrap", 3},
                                  {"reshard-root", 4},
                                  {"replicate", 5},
                                  {"offload", 6},
                                  {"sync", 7},
                                  {"version", 8}});
    take_fsdp_key(given, key, value);
    if (kind == 0) s.param_type = type_of_policy(key, value);
    if (kind == 1) s.reduce_type = type_of_policy(key, value);
    if (kind == 2 && o.keep_unsharded) throw Error("--no-reshard and --fsdp reshard= say the same", ErrorKind::usage);
    if (kind == 2) {
      const int when = choose<int>("--fsdp reshard", value, {{"true", 0}, {"false", 1}, {"but-last", 2}});
      s.reshard_after_forward = when != 1;
      s.keeps_last_block = when == 2;
    }
    if (kind == 4) s.reshards_root = choose<bool>("--fsdp reshard-root", value, {{"true", true}, {"false", false}});
    if (kind == 5) s.replicas = whole_number("--fsdp replicate", value, 1, kMostGpus);
    if (kind == 6) s.offloads = choose<bool>("--fsdp offload", value, {{"true", true}, {"false", false}});
    if (kind == 8) choose<int>("--fsdp version", value, {{"1", 1}, {"2", 2}});
    if (kind == 7) s.reduces_last = choose<bool>("--fsdp sync", value, {{"last", true}, {"each", false}});
    if (kind == 3 && !o.wrap.empty()) throw Error("--wrap and --fsdp wrap= say the same", ErrorKind::usage);
    if (kind == 3) s.unit_glob = value;
  }
}

namespace {

// Stages 1 and 2 are one optimizer of DeepSpeed's.
void share_as_deepspeed(const DeepSpeedOptions& o, Strategy& s) {
  s.data = o.stage == 3 ? DataParallel::zero3 : DataParallel::zero2;
  s.partitions_gradients = o.stage > 1;
  s.overlaps_reductions = o.overlaps;
  if (o.bucket_elements) s.reduce_bucket_elements = *o.bucket_elements;
  s.partition = o.partition;
  s.made_partitioned = o.made_partitioned;
  s.offloads = o.offloads;
  s.offloads_parameters = o.offloads_parameters;
}

// All pairs of all ranks at most.
double load_of(const std::string& text, std::int64_t ranks) {
  constexpr double kLeast = 0.01;
  double load = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), load);
  if (error == std::errc() && end == text.data() + text.size() && load >= kLeast && load <= static_cast<double>(ranks))
    return load;
  throw Error("--routing expects a factor from 0.01 to " + std::to_string(ranks) + ", not \"" + text + "\"",
              ErrorKind::usage)
      .help("a rank is sent as many (token, expert) pairs as it sends (1), or at most those of all --ep ranks");
}

// transformers' DistributedConfig(fsdp_size, ep_size).
std::string next_multiple(std::int64_t number, std::int64_t of) { return std::to_string((number / of + 1) * of); }

void share_experts(const SeveralGpusOptions& o, Strategy& s) {
  if (!o.experts.empty()) s.experts = whole_number("--ep", o.experts, 1, kMostGpus);
  if (s.experts == 1 && !o.routing.empty())
    throw Error("--routing needs --ep of several ranks", ErrorKind::usage).help("for example --ep 8");
  if (s.experts == 1) return;
  if (s.data != DataParallel::fsdp)
    throw Error("--ep is planned with FSDP2 over the same ranks", ErrorKind::usage).help("--zero fsdp");
  if (s.pipeline > 1)
    throw Error("transformers shares no experts between the ranks of a stage, and --ep is not planned with --pp",
                ErrorKind::usage)
        .help("leave out --pp");
  if (s.tensor_plan.sequence)
    throw Error("--ep is not planned with sequence parallelism, which transformers does not have with experts",
                ErrorKind::usage)
        .help("--tp " + std::to_string(s.tensor));
  if (s.experts % s.tensor != 0)
    throw Error("transformers refuses --ep " + std::to_string(s.experts) + " with --tp " + std::to_string(s.tensor) +
                    ": \"`ep_size` must be a multiple of `tp_size`\"",
                ErrorKind::usage)
        .help("those that share layers have different experts: --ep " +
              std::to_string((s.experts + s.tensor - 1) / s.tensor * s.tensor));
  if (o.as_accelerate || !o.wrap.empty() || !s.unit_glob.empty() || !s.reshard_after_forward || s.keeps_last_block ||
      s.reshards_root)
    throw Error("with --ep transformers says what is wrapped and resharded", ErrorKind::usage)
        .help("leave out --accelerate, --wrap, --no-reshard and their forms in --fsdp");
  if (s.shards() * s.tensor % s.experts != 0)
    throw Error("--ep " + std::to_string(s.experts) + " does not divide the ranks that share the model, which are " +
                    std::to_string(s.shards() * s.tensor),
                ErrorKind::usage)
        .help("--gpus is a multiple of --ep times --pp and replicas: --gpus " +
              next_multiple(s.gpus, s.experts * s.pipeline * s.replicas));
  if (!o.routing.empty()) s.expert_load = load_of(o.routing, s.experts);
}

}  // namespace

std::optional<Strategy> strategy_of(const SeveralGpusOptions& o) {
  if (o.gpus.empty()) {
    need_gpus(o);
    return std::nullopt;
  }
  Strategy s;
  s.gpus = whole_number("--gpus", o.gpus, 1, kMostGpus);
  s.data = o.zero.empty() ? DataParallel::ddp : data_parallel_kind(o.zero);
  s.overlaps_reductions = s.data == DataParallel::zero3;
  read_tensor(o.tensor, s);
  s.pipeline = number_or("--pp", o.pipeline, 1, 1, kMostGpus);
  if (s.gpus % (s.tensor * s.pipeline) != 0)
    throw Error("--gpus " + std::to_string(s.gpus) + " is not a multiple of --tp " + std::to_string(s.tensor) +
                    " x --pp " + std::to_string(s.pipeline),
                ErrorKind::usage)
        .help("--gpus must be a multiple of --tp times --pp");
  if (!o.pipeline_schedule.empty())
    read_pipeline(o, s);
  else if (!asks_for_every_rank(o) && s.tensor > 1 && !o.rank.empty() &&
           whole_number("--rank", o.rank, 0, kMostGpus) >= s.ranks())
    throw Error("--rank counts the ranks of data parallelism, and with --tp " + std::to_string(s.tensor) +
                    " there are " + std::to_string(s.ranks()),
                ErrorKind::usage)
        .help("those that share a layer are planned as one: --rank 0" +
              (s.ranks() > 1 ? " to " + std::to_string(s.ranks() - 1) : std::string()));
  else if (!asks_for_every_rank(o))
    s.rank = number_or("--rank", o.rank, 0, 0, s.ranks() - 1);
  s.gpus_per_node = number_or("--gpus-per-node", o.gpus_per_node, s.gpus_per_node, 1, kMostGpus);
  s.unit_glob = o.wrap;
  s.gradient_as_bucket_view = o.bucket_view;
  s.find_unused_parameters = o.find_unused;
  s.reshard_after_forward = !o.keep_unsharded;
  if (!o.fsdp.empty()) read_fsdp(o, s);
  if (s.ranks() % s.replicas != 0)
    throw Error(
        "--fsdp replicate=" + std::to_string(s.replicas) + " does not divide " + std::to_string(s.ranks()) + " ranks",
        ErrorKind::usage)
        .help("a mesh of HSDP is replicas x shards");
  if (!o.experts.empty() || !o.routing.empty()) share_experts(o, s);
  if (s.flat) refuse_beside_flat(o, s);
  s.context = number_or("--cp", o.context, 1, 1, kMostOfContext);
  if (s.shards() % s.context != 0)
    throw Error("--cp " + std::to_string(s.context) + " does not divide the ranks that share the model, which are " +
                    std::to_string(s.shards()),
                ErrorKind::usage)
        .help("--gpus is a multiple of --cp times --tp, --pp and replicas: --gpus " +
              next_multiple(s.gpus, s.context * s.tensor * s.pipeline * s.replicas));
  s.as_accelerate = o.as_accelerate;
  s.loads_whole = o.as_accelerate && !o.moves_units && !s.flat;
  s.moves_units = o.moves_units;
  s.wraps_ends = (o.as_accelerate && !s.flat) || s.experts > 1;
  if (o.deepspeed_options) share_as_deepspeed(*o.deepspeed_options, s);
  if (o.megatron_settings) {
    s.data = DataParallel::megatron;
    s.megatron = *o.megatron_settings;
  }
  const bool ddp = s.data == DataParallel::ddp || s.data == DataParallel::zero1;
  if (s.gradient_as_bucket_view && !ddp) throw Error("--bucket-view needs DDP", ErrorKind::usage);
  if (s.find_unused_parameters && !ddp) throw Error("--find-unused-parameters needs DDP", ErrorKind::usage);
  if ((!o.wrap.empty() || o.keep_unsharded) && s.data != DataParallel::fsdp)
    throw Error("--wrap and --no-reshard need FSDP2", ErrorKind::usage).help("--zero fsdp");
  return s;
}

namespace {

// Of an amount of a unit that is so many bytes a second.
Link link_of(const char* flag, const std::string& text, const char* unit, double bytes) {
  constexpr double kLeast = 1e-3, kMost = 1e6;  // every time is a number
  const double rate = amount(flag, text, kMost);
  if (rate < kLeast)
    throw Error(std::string(flag) + " expects at least 0.001 " + unit + ", not \"" + text + "\"", ErrorKind::usage);
  return {rate * bytes, 0};
}

}  // namespace

Topology topology_of(const SeveralGpusOptions& o, const std::optional<Gpu>& gpu) {
  Topology t;
  t.gpus_per_node = number_or("--gpus-per-node", o.gpus_per_node, t.gpus_per_node, 1, kMostGpus);
  const std::int64_t gpus = number_or("--gpus", o.gpus, 1, 1, kMostGpus);
  if (!o.link.empty()) {
    t.within_node = link_of("--link", o.link, "GB/s", 1e9);
  } else if (gpu) {
    t.within_node = link_within_node(*gpu, std::min(gpus, t.gpus_per_node));
    t.within_pair = link_within_pair(*gpu);
  }
  if (!o.network.empty()) {
    t.between_nodes = network_link(link_of("--network", o.network, "Gbit/s", 1e9 / 8).bytes_per_second * 8 / 1e9);
  }
  return t;
}

}  // namespace gpuplan

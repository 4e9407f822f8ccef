#include "tools/options/several_gpus.h"

#include <CLI/CLI.hpp>

#include "tools/options/money.h"
#include "tools/options/words.h"

namespace gpuplan {
namespace {

std::int64_t number_or(const char* flag, const std::string& text, std::int64_t fallback, std::int64_t least,
                       std::int64_t most) {
  return text.empty() ? fallback : whole_number(flag, text, least, most);
}

void need_gpus(const SeveralGpusOptions& o) {
  const std::pair<const char*, bool> flags[] = {
      {"--zero", !o.zero.empty()},        {"--rank", !o.rank.empty()},
      {"--network", !o.network.empty()},  {"--wrap", !o.wrap.empty()},
      {"--bucket-view", o.bucket_view},   {"--find-unused-parameters", o.find_unused},
      {"--tp", !o.tensor.empty()},        {"--pp", !o.pipeline.empty()},
      {"--no-reshard", o.keep_unsharded}, {"--gpus-per-node", !o.gpus_per_node.empty()}};
  for (const auto& [flag, given] : flags)
    if (given)
      throw Error(std::string(flag) + " is about several GPUs", ErrorKind::usage).help("--gpus 8, for example");
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
  add("--gpus", o.gpus, lists ? "N,..." : "N",
      "Plans one rank of so many, also of 1 (DDP with one process); --batch is the whole step's");
  add("--zero", o.zero, lists ? "0|1|2|3|ddp|fsdp,..." : "0|1|2|3|ddp|fsdp",
      "What ranks share: DDP (0, the default), ZeroRedundancyOptimizer (1), DeepSpeed's stages (2, 3), FSDP2");
  add("--rank", o.rank, "N", "Which rank, 0 unless given; the last ones may have less");
  add("--wrap", o.wrap, "GLOB", "Blocks that fully_shard is called on; else those of every repeat");
  command.add_flag("--no-reshard", o.keep_unsharded, "fully_shard(reshard_after_forward=False)")->group("Several GPUs");
  command.add_flag("--bucket-view", o.bucket_view, "DDP's gradient_as_bucket_view")->group("Several GPUs");
  command.add_flag("--find-unused-parameters", o.find_unused, "DDP's, for parameters that get no gradient")
      ->group("Several GPUs");
  add("--gpus-per-node", o.gpus_per_node, "N", "GPUs that NVLink or PCIe connects, 8 unless given");
  add("--network", o.network, "GBPS", "Of a node, Gbit/s in one direction, all its adapters together");
}

void add_several_gpus_options(CLI::App& command, SeveralGpusOptions& o) {
  add_data_parallel_options(command, o);
  add_flag(command, "--tp", o.tensor, "N",
           "Ranks that share each layer of a GPT (Megatron-LM); prints what each stage takes");
  add_flag(command, "--pp", o.pipeline, "N", "Stages of its layers, 1F1B over --micro-batches");
}

std::optional<Strategy> strategy_of(const SeveralGpusOptions& o) {
  if (o.gpus.empty()) {
    need_gpus(o);
    return std::nullopt;
  }
  Strategy s;
  s.gpus = whole_number("--gpus", o.gpus, 1, kMostGpus);
  s.data = o.zero.empty() ? DataParallel::ddp : data_parallel_kind(o.zero);
  s.tensor = number_or("--tp", o.tensor, 1, 1, kMostGpus);
  s.pipeline = number_or("--pp", o.pipeline, 1, 1, kMostGpus);
  if (s.gpus % (s.tensor * s.pipeline) != 0)
    throw Error(std::to_string(s.gpus) + " GPUs are not made of " + std::to_string(s.tensor) + " x " +
                    std::to_string(s.pipeline),
                ErrorKind::usage)
        .help("--gpus is a multiple of --tp times --pp");
  s.rank = number_or("--rank", o.rank, 0, 0, s.ranks() - 1);
  s.gpus_per_node = number_or("--gpus-per-node", o.gpus_per_node, s.gpus_per_node, 1, kMostGpus);
  s.unit_glob = o.wrap;
  s.gradient_as_bucket_view = o.bucket_view;
  s.find_unused_parameters = o.find_unused;
  s.reshard_after_forward = !o.keep_unsharded;
  const bool ddp = s.data == DataParallel::ddp || s.data == DataParallel::zero1;
  if (s.gradient_as_bucket_view && !ddp) throw Error("--bucket-view is DDP's", ErrorKind::usage);
  if (s.find_unused_parameters && !ddp) throw Error("--find-unused-parameters is DDP's", ErrorKind::usage);
  if ((!o.wrap.empty() || o.keep_unsharded) && s.data != DataParallel::fsdp)
    throw Error("--wrap and --no-reshard are FSDP2's", ErrorKind::usage).help("--zero fsdp");
  return s;
}

Topology topology_of(const SeveralGpusOptions& o, const std::optional<Gpu>& gpu) {
  Topology t;
  t.gpus_per_node = number_or("--gpus-per-node", o.gpus_per_node, t.gpus_per_node, 1, kMostGpus);
  if (gpu) t.within_node = link_within_node(*gpu);
  if (!o.network.empty()) {
    constexpr double kLeast = 1e-3, kMost = 1e6;  // Gbit/s: every time is a number
    const double network = amount("--network", o.network, kMost);
    if (network < kLeast)
      throw Error("--network expects at least 0.001 Gbit/s, not \"" + o.network + "\"", ErrorKind::usage);
    t.between_nodes = Link{network * 1e9 / 8, 0};
  }
  return t;
}

}  // namespace gpuplan

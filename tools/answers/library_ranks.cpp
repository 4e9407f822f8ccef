#include "tools/answers/library_ranks.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "estimator/base/error.h"

namespace gpuplan {
namespace {

constexpr const char* kInParentheses =
    "a trainer is told in parentheses: --like 'lightning(strategy=\"fsdp\")', --like 'trainer(fsdp=True, "
    "fsdp_config={\"version\": 2})', --like 'trl-sft(deepspeed=\"ds_config.json\")'";

Error not_told(const std::string& flag, const std::string& asked, const std::string& help) {
  return Error(flag + " with " + asked + ": the library's code is not told of it", ErrorKind::usage).help(help);
}

void refuse_other_ways(const SeveralGpusOptions& o, const Strategy& s, const std::string& asked) {
  const std::pair<const char*, bool> ways[] = {{"--tp", s.tensor > 1},
                                               {"--pp", s.pipeline > 1},
                                               {"--ep", s.experts > 1},
                                               {"--cp", s.context > 1},
                                               {"--fsdp version=1", s.flat.has_value()},
                                               {"--zero 2 or 3", s.is_deepspeed()}};
  for (const auto& [flag, given] : ways)
    if (given)
      throw not_told(flag, asked,
                     "--zero ddp, 1 or fsdp and --fsdp share a loop of one's own, --like 'pytorch(...)'; "
                     "gpuplan shadow --world N --rank R -- python train.py runs any other");
  const std::pair<const char*, bool> of_time[] = {
      {"--network", !o.network.empty()}, {"--link", !o.link.empty()}, {"--gpus-per-node", !o.gpus_per_node.empty()}};
  for (const auto& [flag, given] : of_time)
    if (given) throw not_told(flag, asked, "leave it out: a step that was run has no time of communication");
  if (asks_for_every_rank(o)) throw not_told("--rank all", asked, "--rank R runs rank R");
}

// What a loop of one's own is told, and trainers are not.
void refuse_sharing_flags(const SeveralGpusOptions& o, const std::string& asked) {
  const std::pair<const char*, bool> flags[] = {
      {"--zero", !o.zero.empty()},      {"--fsdp", !o.fsdp.empty()},
      {"--wrap", !o.wrap.empty()},      {"--no-reshard", o.keep_unsharded},
      {"--bucket-view", o.bucket_view}, {"--find-unused-parameters", o.find_unused}};
  for (const auto& [flag, given] : flags)
    if (given) throw not_told(flag, asked, kInParentheses);
}

std::string type_word(const std::optional<DType>& type) { return type ? std::string(name_of(*type)) : ""; }

std::string settings_of(const Strategy& s) {
  const char* const way = s.data == DataParallel::fsdp ? "fsdp" : s.data == DataParallel::zero1 ? "zero1" : "ddp";
  nlohmann::ordered_json json = {{"gpus", s.gpus}, {"way", way}};
  if (s.data == DataParallel::fsdp) {
    json["param"] = type_word(s.param_type);
    json["reduce"] = type_word(s.reduce_type);
    json["reshard"] = !s.reshard_after_forward ? "false" : s.keeps_last_block ? "but-last" : "true";
    json["reshard_root"] = s.reshards_root;
    json["wrap"] = s.unit_glob;
    json["replicas"] = s.replicas;
    json["offload"] = s.offloads;
    json["sync_last"] = s.reduces_last;
  } else {
    json["bucket_view"] = s.gradient_as_bucket_view;
    json["find_unused"] = s.find_unused_parameters;
  }
  return json.dump();
}

}  // namespace

std::optional<LibraryRanks> library_ranks(const SeveralGpusOptions& several, const std::string& loop,
                                          const std::string& asked) {
  for (const auto& [flag, file] : {std::pair{"--deepspeed", &several.deepspeed},
                                   {"--accelerate", &several.accelerate},
                                   {"--megatron", &several.megatron}})
    if (!file->empty()) throw not_told(flag, asked, kInParentheses);
  const std::optional<Strategy> strategy = strategy_of(several);
  if (!strategy) return std::nullopt;
  if (loop == "torchtune" || loop == "infer") throw not_told("--gpus", asked, "leave it out: that is run on one GPU");
  refuse_other_ways(several, *strategy, asked);
  if (strategy->gpus % strategy->replicas != 0)
    throw Error("--fsdp replicate=" + std::to_string(strategy->replicas) + " does not divide " +
                    std::to_string(strategy->gpus) + " GPUs",
                ErrorKind::usage)
        .help("as many replicas as have the same number of GPUs each");
  if (loop != "pytorch") refuse_sharing_flags(several, asked);
  LibraryRanks ranks{.strategy = *strategy, .settings = settings_of(*strategy), .words = "--gpus " + several.gpus};
  if (!several.zero.empty()) ranks.words += " --zero " + several.zero;
  if (!several.fsdp.empty()) ranks.words += " --fsdp " + several.fsdp;
  if (!several.wrap.empty()) ranks.words += " --wrap " + several.wrap;
  if (several.keep_unsharded) ranks.words += " --no-reshard";
  if (several.bucket_view) ranks.words += " --bucket-view";
  if (several.find_unused) ranks.words += " --find-unused-parameters";
  return ranks;
}

}  // namespace gpuplan

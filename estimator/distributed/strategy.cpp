#include "estimator/distributed/strategy.h"

#include <array>

namespace gpuplan {

std::string_view name_of(DataParallel kind) {
  constexpr std::array<std::string_view, 7> kNames = {"none", "ddp", "zero1", "zero2", "zero3", "fsdp", "megatron"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name_of(PipelineSchedule schedule) {
  constexpr std::array<std::string_view, 8> kNames = {"formulas",        "gpipe",     "1f1b",
                                                      "interleaved1f1b", "loopedbfs", "interleavedzerobubble",
                                                      "zbvzerobubble",   "dualpipev"};
  return kNames[static_cast<std::size_t>(schedule)];
}

std::string tensor_words(const Strategy& s) {
  return std::to_string(s.tensor) + (s.tensor_plan.sequence ? ",sequence" : "") + (s.tensor_plan.loss ? ",loss" : "");
}

std::string pipeline_words(const PipelineSettings& s) {
  std::string words(name_of(s.schedule));
  if (s.stages_each > 1) words += ",stages=" + std::to_string(s.stages_each);
  if (!s.returns_outputs) words += ",outputs=drop";
  if (s.counts_ends) words += ",split=torchtitan";
  for (std::size_t i = 0; i < s.blocks.size(); ++i) words += (i == 0 ? ",split=" : "/") + std::to_string(s.blocks[i]);
  return words;
}

namespace {

std::string flat_words(const Strategy& s) {
  using Prefetch = FlatSettings::Prefetch;
  std::string words = "version=1";
  const auto add = [&](const std::string& word) { words += "," + word; };
  const bool whole = s.shards() == 1;
  if (!s.reshard_after_forward && !whole) add("strategy=grad-op");
  if (whole) add("strategy=none");
  if (s.replicas > 1 && !whole) add("strategy=hybrid,replicate=" + std::to_string(s.replicas));
  if (s.param_type) add("param=" + std::string(name_of(*s.param_type)));
  if (s.reduce_type) add("reduce=" + std::string(name_of(*s.reduce_type)));
  if (s.flat->buffer_type) add("buffer=" + std::string(name_of(*s.flat->buffer_type)));
  if (s.flat->original_parameters) add("orig-params=true");
  if (s.flat->prefetch != Prefetch::before)
    add(s.flat->prefetch == Prefetch::after ? "prefetch=post" : "prefetch=none");
  if (s.flat->gathers_ahead) add("forward-prefetch=true");
  if (s.flat->sends_states) add("sync-states=true");
  if (!s.unit_glob.empty()) add("wrap=" + s.unit_glob);
  if (s.offloads) add("offload=true");
  if (s.reduces_last) add("sync=last");
  return words;
}

}  // namespace

std::string fsdp_words(const Strategy& s) {
  if (s.flat) return flat_words(s);
  std::string words;
  const auto add = [&](const std::string& word) { words += (words.empty() ? "" : ",") + word; };
  if (s.param_type) add("param=" + std::string(name_of(*s.param_type)));
  if (s.reduce_type) add("reduce=" + std::string(name_of(*s.reduce_type)));
  if (!s.reshard_after_forward) add("reshard=false");
  if (s.keeps_last_block) add("reshard=but-last");
  if (s.reshards_root) add("reshard-root=true");
  if (!s.unit_glob.empty()) add("wrap=" + s.unit_glob);
  if (s.replicas > 1) add("replicate=" + std::to_string(s.replicas));
  if (s.offloads) add("offload=true");
  if (s.reduces_last) add("sync=last");
  return words;
}

}  // namespace gpuplan

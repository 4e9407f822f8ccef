// A DeepSpeed config: what --deepspeed FILE reads (tools/options/deepspeed_config.h) as the plan has it. It says
// nothing of the model and its optimizer, which are the script's.
#include "estimator/base/format.h"
#include "estimator/base/list_text.h"
#include "estimator/launch/launch.h"
#include "estimator/launch/properties.h"
#include "estimator/plan/run_names.h"

namespace gpuplan {
namespace {

std::string member(const std::string& key, const std::string& value) { return "\"" + key + "\": " + value; }
std::string member(const std::string& key, std::int64_t value) { return member(key, std::to_string(value)); }
std::string member(const std::string& key, bool value) { return member(key, std::string(value ? "true" : "false")); }

std::string zero(const Launch& l) {
  const Strategy& s = l.strategy;
  const bool partitioned = s.data == DataParallel::zero3;
  std::vector<std::string> members = {member("stage", partitioned              ? std::int64_t{3}
                                                      : s.partitions_gradients ? 2
                                                                               : 1),
                                      member("overlap_comm", s.overlaps_reductions),
                                      member("reduce_bucket_size", s.reduce_bucket_elements)};
  if (partitioned) {
    const PartitionSettings& p = s.partition;
    members.push_back(member("sub_group_size", p.part_elements));
    members.push_back(member("stage3_prefetch_bucket_size", p.prefetch_elements));
    members.push_back(member("stage3_param_persistence_threshold", p.persistence_elements));
    members.push_back(member("stage3_max_live_parameters", p.live_elements));
    members.push_back(member("stage3_max_reuse_distance", p.reuse_elements));
    const std::string host = R"({"device": "cpu", "pin_memory": true})";
    if (s.offloads) members.push_back(member("offload_optimizer", host));
    if (s.offloads_parameters) members.push_back(member("offload_param", host));
  }
  return "{\n    " + joined(members, ",\n    ") + "\n  }";
}

std::vector<std::string> notes_of(const Launch& l) {
  const OptimizerConfig& o = l.run.optimizer;
  std::vector<std::string> notes;
  std::vector<std::string> flags = left_to_script(l);
  if (o.kind != OptimizerKind::none && o.impl != OptimizerImpl::foreach_)
    flags.push_back("--opt-impl " + std::string(name_of(o.impl)));
  notes.push_back("The config says nothing of the model; your script has " + joined(flags) +
                  ", and hands its optimizer to deepspeed.initialize().");
  if (l.strategy.data == DataParallel::zero3)
    notes.emplace_back(l.strategy.made_partitioned
                           ? "The model is made under deepspeed.zero.Init, as transformers and Accelerate make it."
                           : "The model is made whole, without deepspeed.zero.Init.");
  return notes;
}

}  // namespace

LaunchText deepspeed_text(const Launch& l) {
  std::vector<std::string> members = {member("train_batch_size", l.run.batch),
                                      member("train_micro_batch_size_per_gpu", l.samples()),
                                      member("gradient_accumulation_steps", l.run.micro_batches)};
  if (l.run.clip_grad_norm) members.push_back(member("gradient_clipping", std::string("1.0")));
  if (is_half(l.run.precision))
    members.push_back(member(std::string(name_of(l.run.precision)), std::string(R"({"enabled": true})")));
  members.push_back(member("zero_allow_untested_optimizer", true));
  if (l.strategy.offloads) members.push_back(member("zero_force_ds_cpu_optimizer", false));
  members.push_back(member("zero_optimization", zero(l)));
  LaunchText text;
  text.file = "{\n  " + joined(members, ",\n  ") + "\n}\n";
  if (!l.run.alloc_conf.empty()) text.command = "PYTORCH_ALLOC_CONF='" + l.run.alloc_conf + "' ";
  text.command += "deepspeed ";
  if (l.nodes() > 1) text.command += "--hostfile hostfile --num_nodes " + std::to_string(l.nodes()) + " ";
  text.command += "--num_gpus " + std::to_string(l.gpus_of_node()) + " train.py --deepspeed " + l.script;
  text.notes = notes_of(l);
  return text;
}

}  // namespace gpuplan

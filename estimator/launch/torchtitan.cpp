// A configuration of torchtitan 0.3.0, as Python (torchtitan/config/configs.py). Its own models are run, so a plan is
// said of those whose sizes are one of its flavors'.
#include <algorithm>
#include <array>

#include "estimator/base/error.h"
#include "estimator/launch/launch.h"
#include "estimator/plan/run_names.h"

namespace gpuplan {
namespace {

// torchtitan/models/llama3/__init__.py, llama3_configs, by the number of their parameters (arXiv:2407.21783; the 1B's
// and 3B's are those of their checkpoints on Hugging Face).
struct Flavor {
  const char* name;
  std::int64_t parameters;
};
constexpr std::array<Flavor, 5> kFlavors = {{{"1B", 1'235'814'400},
                                             {"3B", 3'212'749'824},
                                             {"8B", 8'030'261'248},
                                             {"70B", 70'553'706'496},
                                             {"405B", 405'853'388'800}}};

const Flavor& flavor_of(const Launch& l) {
  const auto found = std::ranges::find(kFlavors, l.parameters, &Flavor::parameters);
  if (found == kFlavors.end())
    throw Error("--emit torchtitan writes Llama 3 of 1B, 3B, 8B, 70B and 405B, and " + l.model + " has " +
                    std::to_string(l.parameters) + " parameters",
                ErrorKind::usage)
        .help("torchtitan runs its own models; --emit torchrun runs this one");
  return *found;
}

std::string type_word(DType type) { return type == DType::bf16 ? "\"bfloat16\"" : "\"float32\""; }

std::string line(const std::string& key, const std::string& value) {
  return "    config." + key + " = " + value + "\n";
}

// "always": norm and head, too (torchtitan/distributed/fsdp.py, apply_fsdp_to_decoder).
std::string resharding(const Strategy& s) {
  if (!s.reshard_after_forward) return "\"never\"";
  return s.reshards_root && !s.keeps_last_block ? "\"always\"" : "\"default\"";
}

std::string parallelism(const Launch& l) {
  const Strategy& s = l.strategy;
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  const std::string shards = number(s.data == DataParallel::fsdp ? s.shards() : 1);
  std::string out = line("parallelism.data_parallel_replicate_degree", number(s.replicas)) +
                    line("parallelism.data_parallel_shard_degree", shards) +
                    line("parallelism.fsdp_reshard_after_forward", resharding(s)) +
                    line("parallelism.tensor_parallel_degree", number(s.tensor));
  if (s.tensor > 1) out += line("parallelism.enable_sequence_parallel", s.tensor_plan.sequence ? "True" : "False");
  out += line("parallelism.pipeline_parallel_degree", number(s.pipeline));
  if (!s.runs_stages()) return out;
  out += line("parallelism.pipeline_parallel_schedule",
              s.pipelining.schedule == PipelineSchedule::gpipe ? "\"GPipe\"" : "\"1F1B\"") +
         line("parallelism.pipeline_parallel_microbatch_size", number(l.samples()));
  std::string parts;
  std::int64_t block = 0;
  for (std::size_t stage = 0; stage < l.stages.size(); ++stage) {
    const std::int64_t end = block + l.stages[stage];
    const bool first = stage == 0, last = stage + 1 == l.stages.size();
    parts += std::string("        ") + (first ? "[\"tok_embeddings\"] + " : "") + "[f\"layers.{i}\" for i in range(" +
             number(block) + ", " + number(end) + ")]" + (last ? " + [\"norm\", \"lm_head\"]" : "") + ",\n";
    block = end;
  }
  return out + line("parallelism.module_fqns_per_model_part", "[\n" + parts + "    ]");
}

std::string training(const Launch& l) {
  const Strategy& s = l.strategy;
  // Those of a pipeline are parts of the local batch, others are accumulated.
  const std::int64_t local = l.samples() * (s.runs_stages() ? l.run.micro_batches : 1);
  return line("training.seq_len", std::to_string(l.sequence)) +
         line("training.local_batch_size", std::to_string(local)) +
         line("training.global_batch_size", std::to_string(l.run.batch)) +
         line("training.dtype", type_word(l.run.precision)) +
         line("training.mixed_precision_param", type_word(s.param_type.value_or(l.run.precision))) +
         line("training.mixed_precision_reduce", "\"float32\"") +
         line("training.enable_cpu_offload", s.offloads ? "True" : "False") + line("training.max_norm", "1.0") +
         line("training.disable_cuda_graphs", "True");
}

std::string checkpointing(const Launch& l) {
  const std::string way = l.run.checkpoint.kind == CheckpointConfig::Kind::block ? "FullAC.Config()"
                          : l.run.checkpoint.kind == CheckpointConfig::Kind::op  ? "SelectiveAC.Config()"
                                                                                 : "None";
  return line("activation_checkpoint", way);
}

std::string optimizer(const Launch& l) {
  const char* const implementation = l.run.optimizer.impl == OptimizerImpl::fused      ? "\"fused\""
                                     : l.run.optimizer.impl == OptimizerImpl::for_loop ? "\"for-loop\""
                                                                                       : "\"foreach\"";
  return "    config.optimizer = default_adamw(lr=3e-4)\n" + line("optimizer.implementation", implementation);
}

std::vector<std::string> differences(const Launch& l) {
  std::vector<std::string> notes = {
      "torchtitan runs its own Llama: its products, norms and rotations are not transformers'.",
      "Its attention knows where documents begin (varlen); the plan has scaled_dot_product_attention.",
      "It wraps the embedding, and the norm with the head, by themselves; FSDP2 of the plan leaves them to the root."};
  if (!l.run.clip_grad_norm) notes.emplace_back("It always clips gradients; the plan has no --clip-grad-norm.");
  if (l.run.optimizer.kind == OptimizerKind::adam)
    notes.emplace_back("Its default is AdamW, which allocates what Adam does.");
  if (l.run.checkpoint.kind == CheckpointConfig::Kind::op)
    notes.emplace_back("Its selective checkpointing of 2026 keeps results of collectives and of other kernels, too.");
  if (l.strategy.keeps_last_block)
    notes.emplace_back("It keeps norm and head after the forward, no longer the last block (reshard=but-last).");
  if (l.strategy.tensor > 1 && !l.strategy.tensor_plan.sequence)
    notes.emplace_back("Its tensor parallelism also shares norms as DTensors, which transformers' does not.");
  if (l.strategy.tensor > 1 && !l.strategy.tensor_plan.loss)
    notes.emplace_back("Its logits stay shared by the ranks, and so does its loss; the plan has that with " +
                       ("--tp " + std::to_string(l.strategy.tensor)) + ",sequence,loss.");
  return notes;
}

}  // namespace

LaunchText torchtitan_text(const Launch& l) {
  const Flavor& flavor = flavor_of(l);
  const std::size_t dot = l.script.rfind('.'), slash = l.script.find_last_of('/') + 1;
  const std::string module = l.script.substr(slash, dot == std::string::npos || dot < slash ? dot : dot - slash);
  LaunchText text;
  text.command = torchrun_command(l) + " -m torchtitan.train --module " + module + " --config planned";
  text.notes = differences(l);
  std::string where = "In this folder, with torchtitan installed:";
  if (l.nodes() > 1)
    where = "On each node, in this folder, with torchtitan installed; $HEAD is the first one's address:";
  text.file = "r\"\"\"" + l.model + " on " + std::to_string(l.strategy.gpus) +
              " GPUs in torchtitan, as gpuplan planned it:\n\n    gpuplan " + l.plan + "\n\n" + where + "\n\n    " +
              text.command + "\n\nWhat differs from the plan:\n\n" + commented(text.notes, "*") +
              "\"\"\"\n"
              "from torchtitan.components.loss import CrossEntropyLoss\n"
              "from torchtitan.components.optimizer import default_adamw\n"
              "from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC  # noqa: F401\n"
              "from torchtitan.models.common.config_utils import decoder_vocab_size\n"
              "from torchtitan.models.llama3 import model_registry\n"
              "from torchtitan.models.llama3.config_registry import llama3_8b\n"
              "\n\ndef planned():\n    config = llama3_8b()  # its data, checkpoints and logs; set your own\n"
              "    config.model_spec = model_registry(\"" +
              std::string(flavor.name) +
              "\", attn_backend=\"varlen\")\n"
              "    config.loss = CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(config.model_spec))\n" +
              optimizer(l) + parallelism(l) + training(l) + checkpointing(l) + "    return config\n";
  return text;
}

}  // namespace gpuplan

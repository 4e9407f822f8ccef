// Arguments of Megatron-LM's pretrain_gpt.py (megatron/training/arguments.py and the configurations that it makes
// arguments of, August 2026), of a GPT as the formulas of stage_plan.h have it.
#include <string>
#include <utility>
#include <vector>

#include "estimator/launch/launch.h"

namespace gpuplan {
namespace {

using Arguments = std::vector<std::pair<const char*, std::string>>;

std::string number(std::int64_t n) { return std::to_string(n); }

// The formulas keep attention's matrices and masks of dropout, so that its kernels are not fused.
Arguments arguments_of(const Launch& l) {
  const Transformer& t = l.transformer;
  const Strategy& s = l.strategy;
  Arguments all = {{"num-layers", number(t.layers)},
                   {"hidden-size", number(t.hidden)},
                   {"num-attention-heads", number(t.heads)},
                   {"seq-length", number(t.sequence)},
                   {"max-position-embeddings", number(t.sequence)},
                   {"attention-backend", "unfused"},
                   {"hidden-dropout", "0.1"},
                   {"attention-dropout", "0.1"},
                   {"tensor-model-parallel-size", number(s.tensor)},
                   {"pipeline-model-parallel-size", number(s.pipeline)},
                   {"micro-batch-size", number(l.samples())},
                   {"global-batch-size", number(l.run.batch)},
                   {l.run.precision == DType::fp16 ? "fp16" : "bf16", ""},
                   {"optimizer", "adam"},
                   {"lr", "1e-4"},
                   {"clip-grad", "0.0"}};
  if (s.data == DataParallel::zero1) all.emplace_back("use-distributed-optimizer", "");
  if (l.run.checkpoint.kind == CheckpointConfig::Kind::block) {
    all.emplace_back("recompute-granularity", "full");
    all.emplace_back("recompute-method", "uniform");
    all.emplace_back("recompute-num-layers", "1");
  }
  const Arguments data = {{"tokenizer-type", "NullTokenizer"},
                          {"vocab-size", number(l.vocabulary)},
                          {"mock-data", ""},
                          {"train-iters", "3"},
                          {"eval-iters", "0"}};
  all.insert(all.end(), data.begin(), data.end());
  return all;
}

}  // namespace

LaunchText megatron_text(const Launch& l) {
  LaunchText text;
  text.notes = {"The plan is by Megatron-LM's formulas, without PyTorch's cache: each rank takes its stage's memory.",
                "Data, tokenizer, learning rate and iterations are examples."};
  const std::string node = l.nodes() > 1
                               ? "# On each node, in Megatron-LM's folder; $HEAD is the first one's address.\n"
                               : "# In Megatron-LM's folder.\n";
  std::string arguments;
  for (const auto& [name, value] : arguments_of(l))
    arguments += " \\\n  --" + std::string(name) + (value.empty() ? "" : " " + value);
  text.command = "bash " + l.script;
  text.file = "#!/bin/bash\n# " + l.model + " on " + number(l.strategy.gpus) +
              " GPUs, as gpuplan planned it:\n#   gpuplan " + l.plan + "\n" + commented(text.notes, "#") + node +
              "set -eu\n" + (l.nodes() > 1 ? ": \"${HEAD:?is the first node's address}\"\n" : "") +
              "export CUDA_DEVICE_MAX_CONNECTIONS=1\n" + torchrun_command(l) + " pretrain_gpt.py" + arguments + "\n";
  return text;
}

}  // namespace gpuplan

// What starts a plan, in the language of the program that runs it: a script for torchrun, a configuration of
// torchtitan's, one of DeepSpeed's, or arguments of Megatron-LM's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/distributed/strategy.h"
#include "estimator/distributed/transformer.h"
#include "estimator/spec/model.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

enum class LaunchTarget : std::uint8_t { torchrun, torchtitan, deepspeed, megatron };
std::string_view name_of(LaunchTarget target);

struct Launch {
  std::string model;   // its name
  std::string plan;    // what gpuplan calls the same: "zoo:llama3_8b --batch 64 --gpus 8 --zero fsdp"
  std::string config;  // Python that makes transformers' configuration of a causal decoder; empty: no such model
  Strategy strategy;
  RunConfig run;                          // run.batch is of all ranks
  std::int64_t sequence = 0;              // tokens of a sample; 0: its inputs are no tokens
  std::int64_t vocabulary = 0;            // of those
  std::int64_t parameters = 0;            // of the whole model
  std::vector<std::string> wrapped;       // modules that fully_shard is called on, but the root
  std::vector<std::string> checkpointed;  // modules that are run again in backward
  std::vector<std::int64_t> stages;       // blocks of each stage of a pipeline
  bool by_formulas = false;               // of Megatron-LM: `transformer` is the model
  Transformer transformer;
  std::string script;                                    // what the file will be called; "train.py" where it is printed
  std::int64_t allocated_bytes = 0, reserved_bytes = 0;  // at the peak, of the rank that needs the most
  std::int64_t rank = 0;                                 // that one, among all GPUs

  std::int64_t nodes() const { return (strategy.gpus + strategy.gpus_per_node - 1) / strategy.gpus_per_node; }
  std::int64_t gpus_of_node() const { return strategy.gpus / nodes(); }
  /// Samples of a micro-batch of each rank of data parallelism.
  std::int64_t samples() const { return run.batch / strategy.ranks() / run.micro_batches; }
};

struct LaunchText {
  std::string file;                // its content
  std::string command;             // what starts it, in a shell
  std::vector<std::string> notes;  // what the file does not say, a sentence each
};

/// Throws Error (usage) for what `target` cannot say, which is then said.
LaunchText launch_text(const Launch& launch, LaunchTarget target);

/// The writers behind launch_text(), of launches that their target can say.
LaunchText torchrun_text(const Launch& launch);
LaunchText torchtitan_text(const Launch& launch);
LaunchText deepspeed_text(const Launch& launch);
LaunchText megatron_text(const Launch& launch);

/// "torchrun --standalone --nproc-per-node 8", or with a rendezvous of several nodes, and PYTORCH_ALLOC_CONF before it.
std::string torchrun_command(const Launch& launch);
/// Python's list of them, of which those that are numbered are counted: [f"model.layers.{i}" for i in range(32)].
std::string python_list(const std::vector<std::string>& modules);
/// A literal of that text.
std::string python_string(const std::string& text);
/// "torch.bfloat16"
std::string torch_type(DType type);
/// What a sentence of a file's head says: the plan, and the notes, each line begun with `mark`.
std::string commented(const std::vector<std::string>& lines, std::string_view mark);

/// transformers' configuration of a Llama whose spec has its sizes as variables (configs/models/llama3_8b.yaml), in
/// Python; empty for other models.
std::string llama_config(const Model& model);

}  // namespace gpuplan

// The ways in which N GPUs can share a step, as flags.
#pragma once

#include <string>
#include <vector>

#include "estimator/spec/model.h"
#include "tools/options/run_options.h"
#include "tools/options/several_gpus.h"

namespace gpuplan {

struct MeshQuestion {
  RunOptions run;              // --gpu names the GPU, --batch is of all
  SeveralGpusOptions several;  // --gpus, --network, --fsdp
  bool checkpoints = false;    // of blocks, where nothing is said
  bool micro_batches = false;  // as few as fit, and of a pipeline as many as are fastest; where nothing is said
};

struct MeshWay {
  SeveralGpusOptions several;
  std::string checkpoint;
};

/// Of the flags that share a step: "--tp 2 --zero fsdp --checkpoint block --micro-batches 4".
std::string flags_of(const MeshWay& way, const std::string& micro_batches);

// `model` is load_model() of the question's run, read once for all of its ways.

/// DDP (where no type is gathered), FSDP2 with and without resharding and with a replica a node, and with experts
/// shared where there are some; of one GPU without --gpus what is asked.
std::vector<MeshWay> ways_of_ranks(const MeshQuestion& question, const Model& model);
/// Layers shared by `tensor` ranks of a node, with FSDP2 over the others. None where that does not divide them.
std::vector<MeshWay> ways_of_layers(const MeshQuestion& question, const Model& model, std::int64_t tensor);
/// A pipeline of `stages`, whose layers are shared by `tensor` ranks, with FSDP2 over the others. None where that does
/// not divide them.
std::vector<MeshWay> ways_of_stages(const MeshQuestion& question, const Model& model, std::int64_t stages,
                                    std::int64_t tensor);
/// FSDP2 whose ranks of a node share the tokens of a sample, for samples that do not fit one: each rank runs a kernel
/// for each other one, and longer. None where the model is no language model.
std::vector<MeshWay> ways_of_context(const MeshQuestion& question, const Model& model);
/// How many GPUs of a node there are to share layers.
std::int64_t most_layers(const MeshQuestion& question);

}  // namespace gpuplan

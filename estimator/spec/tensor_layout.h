// How tensor parallelism lays out what is between its layers, and the logits.
#pragma once

namespace gpuplan {

struct TensorPlan {
  /// As PyTorch's tutorial and torchtitan give it to parallelize_module: hidden states lie along the tokens (Shard(1)),
  /// and are gathered for attention and feed-forward. Else every rank has all of them, as transformers has it.
  bool sequence = false;
  bool loss = false;  // logits stay a rank's part of the vocabulary, and so does the loss of them (loss_parallel)
};

}  // namespace gpuplan

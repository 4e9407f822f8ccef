// What the engines of DeepSpeed's stages allocate while a checkpoint is saved. Rules: save_checkpoint() and
// save_16bit_model() of deepspeed/runtime/engine.py of 0.19.
#pragma once

#include "estimator/distributed/collective_writer.h"

namespace gpuplan {

/// torch.distributed.barrier(). `first`: of the training, whose process group keeps a tensor of 4 bytes from then on.
void write_barrier(CollectiveWriter& writer, bool first = false);

/// _checkpoint_tag_validation(): whether all ranks call the checkpoint the same, by its SHA-1.
void write_tag_validation(CollectiveWriter& writer);

}  // namespace gpuplan

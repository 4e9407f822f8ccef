// Parts of the script for torchrun (torchrun.cpp): what is called of PyTorch and of transformers, by its subject.
#pragma once

#include <string>

#include "estimator/launch/launch.h"

namespace gpuplan {

/// transformers checkpoints every block itself (gradient_checkpointing_enable); else modules are wrapped.
bool enables_checkpoints(const Launch& launch);
/// Lines of shared_model() that checkpoint `model`; empty where nothing is.
std::string checkpoints(const Launch& launch);
/// The function that --checkpoint op asks of each result; empty for other checkpoints.
std::string checkpoint_policy(const Launch& launch);

/// Whether ranks have names beyond their number, in a mesh; the call that makes it; and the part of data parallelism.
bool needs_mesh(const Launch& launch);
std::string device_mesh(const Launch& launch);
std::string data_mesh(const Launch& launch);

/// The function share_layers(model, mesh), as transformers does it, and with sequence parallelism.
std::string tensor_function(const Launch& launch);
std::string sequence_imports(const Launch& launch);
std::string sequence_function(const Launch& launch);
/// Lines that allocate what was made on "meta", after it was shared.
std::string filled(const Launch& launch);

/// Of a pipeline: the module of a stage, and shared_model() with it. `fsdp_arguments`: the line that makes `more`.
std::string pipeline_imports(const Launch& launch);
std::string pipeline_class(const Launch& launch);
std::string sharing_stages(const Launch& launch, const std::string& fsdp_arguments);

/// Whether DistributedDataParallel waits for the last of several micro-batches with its reductions.
bool waits(const Launch& launch);
/// The line that makes the optimizer; the function of a step, where --loop function has one; the lines of three steps.
std::string optimizer_of(const Launch& launch);
std::string step_function(const Launch& launch);
std::string three_steps(const Launch& launch);

}  // namespace gpuplan

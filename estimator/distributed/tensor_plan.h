// A model as one rank of tensor parallelism has it, as transformers shares decoders (tp_plan="auto").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/distributed/strategy.h"
#include "estimator/spec/model.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// Whether it is a decoder whose modules are called as transformers' tp_plan knows them, with variables for its heads
/// and for the width within its MLP.
bool has_tensor_plan(const Model& model);

/// The variables that a rank has a part of, with its values: heads, those of keys and values, the MLP's width. Throws
/// Error, of kind usage, where `ranks` do not divide them, or the vocabulary.
std::vector<Variable> divided_variables(const Model& model, std::int64_t ranks);

/// How `strategy` shares a step whose layers are shared: ranks beside those are FSDP2's. Throws Error, of kind usage,
/// for others, and for what is not planned with tensor parallelism.
Strategy with_shared_layers(Strategy strategy, bool says_how, const RunConfig& run);

}  // namespace gpuplan

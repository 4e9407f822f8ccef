// A model as one rank of tensor parallelism has it, as transformers shares decoders (tp_plan="auto").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/distributed/strategy.h"
#include "estimator/spec/model.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// Whether it is a decoder whose modules are called as transformers' tp_plan knows them, q_proj to down_proj, with
/// variables for its heads and for the width within its MLP, and without weights that its code reads itself.
bool has_tensor_plan(const Model& model);

/// Whether it has experts that ranks can share (--ep): MixtureOfExperts, Experts or GptOssExperts.
bool has_experts(const Model& model);
/// Of a layer by its type: stacked, or with a router.
bool is_experts_layer(std::string_view type);

/// The variables that a rank has a part of, with its values: heads, those of keys and values, the MLP's width. Throws
/// Error, of kind usage, where `ranks` do not divide them, or the vocabulary.
std::vector<Variable> divided_variables(const Model& model, std::int64_t ranks);

/// What flags said by themselves.
struct GivenFlags {
  bool data_parallel = false, optimizer_impl = false;
};

/// How `strategy` shares a step whose layers are shared: ranks beside those are FSDP2's. `run` steps its optimizer
/// parameter by parameter where PyTorch refuses anything else. Throws Error, of kind usage, for other ways to share,
/// and for what is not planned with tensor parallelism.
Strategy with_shared_layers(Strategy strategy, GivenFlags given, RunConfig& run);

}  // namespace gpuplan

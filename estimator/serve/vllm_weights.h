// What vLLM 0.33 keeps on the GPU before it runs anything: weights, adapters, and the sampler's states.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/serve/engine_memory.h"
#include "estimator/serve/served_model.h"
#include "estimator/serve/vllm_memory.h"

namespace gpuplan {

void load_weights(EngineMemory& memory, const ServedModel& model, const VllmSizes& sizes);
void load_adapters(EngineMemory& memory, const ServedModel& model, const VllmSizes& sizes);
/// For each of the sequences.
void keep_states(EngineMemory& memory, const ServedModel& model, const VllmSizes& sizes);

/// A matrix as vLLM stores it, of one rank: bytes of its elements, of its scales, and of its zeros.
std::vector<std::int64_t> stored_parts(const ServedMatrix& matrix, WeightForm form, std::int64_t ranks);

/// VocabParallelEmbedding pads to 64 tokens.
std::int64_t vocabulary_of_rank(const ServedModel& model, std::int64_t ranks);

}  // namespace gpuplan

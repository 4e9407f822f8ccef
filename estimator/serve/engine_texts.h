// What starts of all engines have in common: amounts as they print them, the length, and flags that one does not have.
#pragma once

#include <cstdint>
#include <string>

#include "estimator/serve/engine_start.h"
#include "estimator/serve/served_model.h"

namespace gpuplan {

/// "3.66", "16.0": GiB with two decimals, without zeros at the end but the first (vLLM's format_gib()).
std::string gib(std::int64_t bytes);

/// Of a sequence: as asked, or as the model was made for. Throws Error (usage) where it is longer than that or nobody
/// says it; `refusal`: how the engine itself refuses a longer one, in its own words.
std::int64_t served_length(const ServedModel& model, const ServeSettings& settings, const std::string& refusal);

/// Throws Error (usage) that `engine` does not take `flag`.
void refuse_flag(bool given, const char* flag, const std::string& engine, const char* help);

/// Throws Error (usage) where so many GPUs cannot share the heads evenly: those of the queries, and of keys and values,
/// of which each GPU has as many, or several have the same one.
void refuse_ranks(const ServedModel& model, std::int64_t ranks);

/// Throws Error (usage) where layers have a window: `engine` decides by classes of models which layers keep less.
void refuse_windows(const ServedModel& model, const std::string& engine);

}  // namespace gpuplan

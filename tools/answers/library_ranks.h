// --gpus beside a library's own code (library_loop.h): which rank of how many is run, and how its Python shares the
// model. Trainers are told by their own settings, 'lightning(strategy="fsdp")'; a loop of one's own by gpuplan's flags.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "estimator/distributed/strategy.h"
#include "tools/options/several_gpus.h"

namespace gpuplan {

struct LibraryRanks {
  Strategy strategy;
  std::string settings;  // JSON, tools/python/gpuplan/shared_model.py's Sharing
  std::string words;     // for people: "--gpus 8 --fsdp param=bf16"
};

/// Nothing for one GPU. `loop`: pytorch, trainer, lightning, ...; `asked`: the flag that names it. Throws Error (usage)
/// for flags that the library's code is not told of.
std::optional<LibraryRanks> library_ranks(const SeveralGpusOptions& several, const std::string& loop,
                                          const std::string& asked);

}  // namespace gpuplan

// gpuplan fit --may checkpoint,amp,lora,...: which of these changes, together, make a step fit, the fastest first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/search/sweep_row.h"
#include "tools/options/run_options.h"
#include "tools/options/swept_flags.h"

namespace gpuplan {

/// The words that --may takes.
std::vector<std::string> combined_words();

/// Throws Error (usage) for a word that --may does not take.
void refuse_unknown_changes(const std::vector<std::string>& words);

struct CombinationQuestion {
  RunOptions run;                  // --gpu names the GPU
  std::vector<std::string> words;  // of combined_words()
};

/// A row a combination, its flags as the value: those that fit, by their throughput, the plainest first where that is
/// not known; then those that do not, by what they need. What the run has already, or a library refuses beside another
/// change, is in none. Throws Error (usage) for a word that is none, and what every combination is refused for.
std::vector<SweepRow> combinations(const CombinationQuestion& question);

/// A part of the same search.
struct CombinationPart {
  std::vector<SweepRow> rows;  // by the number of the combination among all; with an error where it is not planned
  std::int64_t points = 0;     // of all of them
};
CombinationPart combination_part(const CombinationQuestion& question, Shard shard);

}  // namespace gpuplan

// Parts of a RunConfig, each from the flags that say it. Every function throws Error (usage) for a value that is not
// understood and for flags that contradict each other.
#pragma once

#include <string>

#include "estimator/plan/run_names.h"
#include "tools/options/run_options.h"
#include "tools/options/words.h"

namespace gpuplan {

/// The value of a flag that may have been left out.
template <class T>
T choice_or(std::string_view flag, const std::string& word, T fallback, const Choices<T>& choices) {
  return word.empty() ? fallback : choose<T>(flag, word, choices);
}

/// The value that one of the enum's words asks for (run_names.h).
template <class Enum>
Enum word_or(std::string_view flag, const std::string& word, Enum fallback) {
  Choices<Enum> choices;
  int value = 0;
  for (const std::string_view name : split(all_words(Enum{}), '|')) {
    if (!name.empty()) choices.emplace_back(name, static_cast<Enum>(value));
    ++value;
  }
  return choice_or(flag, word, fallback, choices);
}

/// A bare flag, or a number, of which 0 is off.
bool flag_with_number(const std::string& flag, const std::string& text);

OptimizerConfig optimizer_config(const RunOptions& options, Mode mode, PyTorchVersion pytorch);
/// --precision and --amp.
void set_precision(const RunOptions& options, RunConfig& run);
/// --phase, --prompt, --generate, --cache.
Generation generation(const RunOptions& options);
/// --checkpoint
CheckpointConfig checkpoint_config(const std::string& text);
/// --micro-batches, --checkpoint, --master, --optimizer-in-backward, --offload, --weights, once the mode, the precision
/// and the optimizer are known.
void set_memory_savers(const RunOptions& options, RunConfig& run);

}  // namespace gpuplan

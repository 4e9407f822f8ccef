// --over NAME=VALUES of gpuplan sweep: which flag takes which values.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tools/options/run_options.h"
#include "tools/options/several_gpus.h"

namespace gpuplan {

/// A flag and the values that it takes one after the other, as its own parser reads them.
struct SweptFlag {
  std::string name;  // "batch", "precision" for dtype too, or "set.classes" for a variable of the model
  std::vector<std::string> values;
};

/// "batch=8,12,64:512:x2": values with commas, and for whole numbers ranges FROM:TO (in ones), FROM:TO:STEP and
/// FROM:TO:xFACTOR, both ends included where the steps meet them. Throws Error (usage): no such flag, with the nearest
/// one; no value; a value twice; a range of no numbers or of more than kMostValues.
SweptFlag read_swept_flag(const std::string& text);
constexpr std::size_t kMostValues = 100'000;

/// The options with that flag set. What the value means, and whether it is one, says whoever reads the options.
void set_flag(RunOptions& options, const std::string& name, const std::string& value);
/// The value of the flag as the options have it; "" where it is not given.
std::string flag_value(const RunOptions& options, const std::string& name);
/// Where the options of several GPUs have the flag of that name; null: it is none of theirs.
std::string* several_gpus_flag(SeveralGpusOptions& options, const std::string& name);
/// The first of a flag's names: "precision" of "dtype".
std::string first_flag_name(const std::string& name);
/// Those flags that are given, each under its first name, with their values; variables are not among them.
std::vector<std::pair<std::string, std::string>> given_flags(const RunOptions& options);
/// Whether the flag decides what the model is, rather than how it is run.
bool changes_model(const std::string& name);

/// The names of flags of a run that --over takes, set.NAME left out.
std::vector<std::string> swept_run_names();

/// A part of the points of a sweep: those whose number has this remainder.
struct Shard {
  std::size_t number = 0, count = 1;  // number counts from 0
};
/// "3/16": the third of sixteen. Throws Error (usage) for what is outside of its range.
Shard read_shard(const std::string& text);

}  // namespace gpuplan

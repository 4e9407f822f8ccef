// --seq-lengths and --steps: the lengths of the samples that a loop is given.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpuplan {

struct LengthsOptions {
  std::string lengths, steps;  // as written; empty: not given
};

struct SampleLengths {
  std::string words;  // where they come from, for a headline
  std::vector<std::int64_t> samples;
};

/// Of "FILE", whose numbers are the samples' lengths in their order, or "lognormal:mean=600,max=4096[,sigma=][,min=]
/// [,seed=]", of `batch` samples a step. Throws Error: usage for what is not understood, and with the place in a file.
SampleLengths sample_lengths(const LengthsOptions& options, std::int64_t batch);

}  // namespace gpuplan

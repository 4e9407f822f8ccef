// Samples of unequal length -> the batches of a loop's steps, each as long as its longest sample.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gpuplan {

struct StepBatch {
  std::int64_t samples = 0;
  std::int64_t tokens = 0;  // of each sample, once it is padded; 0: as long as the model's samples are
  bool padded = false;      // some sample is shorter
  bool evaluates = false;   // and is not trained on
  auto operator<=>(const StepBatch&) const = default;
};

/// Lengths whose logarithms are normal, as those of instructions and of documents are, rounded and cut off at `most`.
struct LognormalLengths {
  std::int64_t mean = 0;  // of the lengths, before they are cut off
  double sigma = 0.8;     // of their logarithms
  std::int64_t least = 1, most = 0;
  std::uint64_t seed = 0;
};
/// The same on every machine.
std::vector<std::int64_t> draw_lengths(const LognormalLengths& from, std::int64_t samples);

/// Samples as they come, `batch` a step; the last step has what is left. Neither may be empty or 0.
std::vector<StepBatch> batches_of(std::span<const std::int64_t> lengths, std::int64_t batch);
/// Of transformers' group_by_length (trainer_pt_utils.py, get_length_grouped_indices): sorted within groups of 50
/// batches, but at most of a quarter of all, the longest sample of all first.
std::vector<std::int64_t> grouped_by_length(std::span<const std::int64_t> lengths, std::int64_t batch);
/// The longest one before the others.
std::vector<StepBatch> longest_first(std::vector<StepBatch> batches);
/// pad_to_multiple_of, but to no more than `most`.
std::vector<StepBatch> padded_to_multiples(std::vector<StepBatch> batches, std::int64_t multiple, std::int64_t most);
/// Of all tokens of the batches those that are no sample's.
double padding_share(std::span<const std::int64_t> lengths, std::span<const StepBatch> batches);

}  // namespace gpuplan

// The blocks of a model that come one after the other: what a pipeline cuts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "estimator/spec/model.h"

namespace gpuplan {

/// A repeat, or entries layers.0, layers.1, ... of a body. It refers to the model that it was found in.
struct BlockSequence {
  Body* body = nullptr;
  std::size_t begin = 0, end = 0;  // entries of it
  std::int64_t blocks = 0;
  std::string path;                                   // of the body
  std::vector<std::pair<Body*, std::size_t>> around;  // the entries that it lies in, from the outside
};

/// The one with the most blocks, which may lie in others; without blocks where there is none.
BlockSequence longest_sequence(Body& layers);
/// The one at the place of `other`, which is of another copy of the model.
BlockSequence sequence_like(Body& layers, const BlockSequence& other);

/// Leaves the blocks from `first` on, `count` of them. The first one is given what the first of all was.
void keep_blocks(BlockSequence& sequence, std::int64_t first, std::int64_t count);

/// The model with a few of its blocks alone, whose graph says what they are given and return.
Model first_blocks(Model model);

/// The entry that a reference names: "rotary_emb" of "rotary_emb.0"; "" where there is none.
std::string entry_of(const Body& body, const std::string& reference);

}  // namespace gpuplan

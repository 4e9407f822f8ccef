// The largest batch that fits, of a function that says what a batch needs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace gpuplan {

/// Bytes that a batch of so many samples needs; nothing where it cannot be run whatever the memory, since sizes
/// overflow or the model refuses it.
using NeedOfBatch = std::function<std::optional<std::int64_t>(std::int64_t samples)>;

struct FittingBatch {
  std::int64_t samples = 0;  // 0: none fits
  std::int64_t bytes = 0;    // needed by it; where none fits, by `least`
  std::int64_t least = 0;    // the smallest that can be run; 0: none
};

/// A batch of at most `most` samples that needs no more than `limit_bytes` while one sample more needs more, or is more
/// than `most`. Both are known from `need` itself; an interpolation only says where to look, so that some six calls do.
///
/// What a step needs mostly grows with the batch, and there is one such batch then. It need not: cuDNN chooses another
/// algorithm, with another workspace, from one batch to the next, and the allocator fills gaps. So a larger batch may
/// fit again, which largest_again() asks.
FittingBatch largest_batch(const NeedOfBatch& need, std::int64_t limit_bytes, std::int64_t most);

/// Of the batches from `least` to `most` samples the largest that fits, by asking them from the largest one down.
FittingBatch largest_again(const NeedOfBatch& need, std::int64_t limit_bytes, std::int64_t least, std::int64_t most);

/// The largest power of two up to `largest` samples that fits.
FittingBatch largest_power_of_two(const NeedOfBatch& need, std::int64_t limit_bytes, std::int64_t largest);

}  // namespace gpuplan

// What dropout draws: a number in [0, 1) of a seed and an element's index alone, the same on every device. Philox
// 4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011), the generator that
// cuRAND and PyTorch use, though with another use of its counter than theirs: no number is PyTorch's.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define GPUPLAN_ON_BOTH __host__ __device__
#else
#define GPUPLAN_ON_BOTH
#endif

namespace gpuplan {

struct Philox {
  std::uint32_t word[4];
};

/// The ten rounds of one counter, whose upper two words are 0.
GPUPLAN_ON_BOTH constexpr Philox philox(std::uint64_t seed, std::uint64_t counter) {
  Philox c{{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0}};
  std::uint32_t key[2] = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * c.word[0], b = std::uint64_t{0xCD9E8D57} * c.word[2];
    c = {{static_cast<std::uint32_t>(b >> 32) ^ c.word[1] ^ key[0], static_cast<std::uint32_t>(b),
          static_cast<std::uint32_t>(a >> 32) ^ c.word[3] ^ key[1], static_cast<std::uint32_t>(a)}};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return c;
}

/// Of the element with this index, counted row-major: in [0, 1), a multiple of 2^-24, so exact in fp32. Four elements
/// share a counter.
GPUPLAN_ON_BOTH constexpr float uniform(std::uint64_t seed, std::uint64_t element) {
  return static_cast<float>(philox(seed, element / 4).word[element % 4] >> 8) * (1.0F / 16777216.0F);
}

/// Whether dropout of probability `p` keeps the element.
GPUPLAN_ON_BOTH constexpr bool keeps(std::uint64_t seed, std::uint64_t element, double p) {
  return uniform(seed, element) >= static_cast<float>(p);
}

}  // namespace gpuplan

#undef GPUPLAN_ON_BOTH

// What dropout draws: numbers by seed and element, the same on the host and on a GPU, in whatever order they are drawn.
// Philox 4x32-10: Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011, table 2.
#pragma once

#include <cstdint>

namespace gpuplan {

struct RandomBlock {
  std::uint32_t words[4];
};

/// The four numbers of elements 4 block .. 4 block + 3.
constexpr RandomBlock random_block(std::uint64_t seed, std::uint64_t block) {
  constexpr std::uint64_t kFactor[] = {0xD2511F53, 0xCD9E8D57};
  constexpr std::uint32_t kWeyl[] = {0x9E3779B9, 0xBB67AE85};  // golden ratio, sqrt(3) - 1
  std::uint32_t key[] = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  RandomBlock x{{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0}};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p = kFactor[0] * x.words[0], q = kFactor[1] * x.words[2];
    x = {{static_cast<std::uint32_t>(q >> 32) ^ x.words[1] ^ key[0], static_cast<std::uint32_t>(q),
          static_cast<std::uint32_t>(p >> 32) ^ x.words[3] ^ key[1], static_cast<std::uint32_t>(p)}};
    key[0] += kWeyl[0];
    key[1] += kWeyl[1];
  }
  return x;
}

/// In [0, 1), of 24 bits: exact in fp32.
constexpr float random_fraction(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24F; }

/// Of one element, numbered row-major. Dropout drops those below p.
constexpr float random_fraction(std::uint64_t seed, std::uint64_t element) {
  return random_fraction(random_block(seed, element / 4).words[element % 4]);
}

}  // namespace gpuplan

// What the threads of a block and the lanes of a warp do together; defined in threads.cpp. Called by kernels only.
#pragma once

#include <cstdint>
#include <cstring>

namespace gpuplan::emulation {

/// Where in a kernel something is called: {__builtin_FILE(), __builtin_LINE()} as a default argument. Clang 14 has no
/// std::source_location.
struct Place {
  const char* file = "";
  int line = 0;
};

constexpr unsigned kWholeWarp = 0xFFFFFFFF;

/// Ends the launch with an Error that names the place.
[[noreturn]] void fail(const char* why, Place where);
/// Every thread of the block that has not ended comes here before one goes on. Ends the launch where they wait at
/// different places.
void wait_for_block(Place where);
/// The values of all lanes of `mask`, once they have come to the same place.
void exchange(unsigned mask, std::uint64_t value, std::uint64_t (&all)[32], Place where);
/// One bit a lane of `mask` that says yes.
unsigned vote(unsigned mask, bool yes, Place where);
/// The calling thread's place in its warp.
int lane();

/// All lanes of the warp come here before one goes on.
inline void meet(Place where) { (void)vote(kWholeWarp, false, where); }

/// Where each lane has its own.
template <class T>
void gather(const T* mine, const T* (&all)[32], Place where) {
  std::uint64_t addresses[32];
  exchange(kWholeWarp, reinterpret_cast<std::uint64_t>(mine), addresses, where);
  std::memcpy(all, addresses, sizeof all);
}

/// `value` of the lane that `source` names.
template <class T>
T shuffled(unsigned mask, T value, int source, Place where) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0, all[32];
  std::memcpy(&bits, &value, sizeof value);
  exchange(mask, bits, all, where);
  if (source < 0 || source >= 32 || (mask >> source & 1U) == 0) fail("a lane that takes no part is asked", where);
  std::memcpy(&value, &all[source], sizeof value);
  return value;
}

}  // namespace gpuplan::emulation

// Copies and fills of more than one kind of memory; copy_memory() of runtime.h is the plain one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuplan::shadow {

/// `rows` of `width` bytes each, `to_pitch` and `from_pitch` bytes apart, as copy_memory() copies: whether any bytes
/// move depends on all of them. False, and nothing done, where the bytes do not fit an address space.
bool copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
               std::size_t rows);

/// `count` times `value`, of 1, 2 or 4 bytes. Zeros take no device memory; more than settings().copy_limit of anything
/// else reads as zero there. False as above.
template <typename Word>
bool fill_memory(void* address, Word value, std::size_t count);
extern template bool fill_memory(void*, std::uint8_t, std::size_t);
extern template bool fill_memory(void*, std::uint16_t, std::size_t);
extern template bool fill_memory(void*, std::uint32_t, std::size_t);

}  // namespace gpuplan::shadow

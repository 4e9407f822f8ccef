#include "validate/shadow/runtime/copies.h"

#include <algorithm>
#include <cstring>

#include "validate/shadow/runtime/address_space.h"
#include "validate/shadow/runtime/answers.h"
#include "validate/shadow/runtime/runtime.h"
#include "validate/shadow/runtime/written.h"

namespace gpuplan::shadow {
namespace {

// Managed memory is the host's here: its bytes are always real.
bool on_device(const void* address) {
  const DeviceRange range = range_of(address);
  return range.device >= 0 && !range.managed;
}

bool is_small(std::size_t bytes) { return bytes <= static_cast<std::size_t>(settings().copy_limit); }

// A copy, or a part of one that is `small` as a whole. Between two places of the host it is always real.
void copy_part(void* to, const void* from, std::size_t bytes, bool small) {
  const bool to_device = on_device(to), from_device = on_device(from);
  const bool moves = from_device ? small && is_known(from, bytes) : small || !to_device;
  if (moves) std::memmove(to, from, bytes);
  if (!moves && !to_device) answer_read(to, bytes);
  if (!to_device) return;
  if (moves) {
    remember_written(to, bytes);
  } else {
    forget_written(to, bytes);
  }
}

// Whether the last of `rows` ends within an address space.
bool spans(std::size_t pitch, std::size_t width, std::size_t rows) {
  std::size_t bytes = 0;
  return !__builtin_mul_overflow(pitch, rows - 1, &bytes) && !__builtin_add_overflow(bytes, width, &bytes);
}

}  // namespace

void copy_memory(void* destination, const void* source, std::size_t bytes) {
  copy_part(destination, source, bytes, is_small(bytes));
}

bool copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
               std::size_t rows) {
  if (width == 0 || rows == 0) return true;
  std::size_t all = 0;
  if (__builtin_mul_overflow(width, rows, &all) || !spans(to_pitch, width, rows) || !spans(from_pitch, width, rows)) {
    return false;
  }
  if (width == to_pitch && width == from_pitch) {
    copy_memory(to, from, all);
    return true;
  }
  for (std::size_t row = 0; row < rows; ++row) {
    copy_part(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width,
              is_small(all));
  }
  return true;
}

template <typename Word>
bool fill_memory(void* address, Word value, std::size_t count) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, sizeof(Word), &bytes)) return false;
  const bool device = on_device(address);
  if (device) forget_written(address, bytes);
  if (device && (value == 0 || !is_small(bytes))) return true;
  std::fill_n(static_cast<Word*>(address), count, value);
  if (device) remember_written(address, bytes);
  return true;
}

template bool fill_memory(void*, std::uint8_t, std::size_t);
template bool fill_memory(void*, std::uint16_t, std::size_t);
template bool fill_memory(void*, std::uint32_t, std::size_t);

}  // namespace gpuplan::shadow

#include "validate/shadow/runtime/answers.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include "validate/shadow/runtime/address_space.h"
#include "validate/shadow/runtime/host_memory.h"
#include "validate/shadow/runtime/runtime.h"
#include "validate/shadow/runtime/written.h"

namespace gpuplan::shadow {
namespace {

std::deque<std::int64_t>& answers() {
  thread_local std::deque<std::int64_t> left;
  return left;
}

std::atomic<std::int64_t> guesses{0};        // of the process
thread_local std::int64_t guesses_here = 0;  // of this thread

thread_local bool noted_here = false;

}  // namespace

bool python_notes_reads() { return noted_here; }

void answer_read(void* to, std::size_t bytes) {
  std::memset(to, 0, bytes);
  if (bytes > sizeof(std::int64_t) || answers().empty()) {
    guesses.fetch_add(1, std::memory_order_relaxed);
    ++guesses_here;
    return;
  }
  std::memcpy(to, &answers().front(), bytes);
  answers().pop_front();
}

// A tensor may claim memory that nobody handed out: of another allocator, or one that only stands for a shape.
SHADOW_API std::uint64_t gpuplan_shadow_write(void* address, const void* bytes, std::size_t count) {
  const DeviceRange range = range_of(address);
  const bool inside =
      range.device >= 0 && reinterpret_cast<std::uintptr_t>(address) + count <= range.base + range.bytes;
  if (!inside && !is_pinned(address)) return 0;
  std::memcpy(address, bytes, count);
  return remember_written(address, count, /*watched=*/true);
}

SHADOW_API int gpuplan_shadow_read(const void* address, void* to, std::size_t count) {
  if (!is_known(address, count)) return 0;
  std::memcpy(to, address, count);
  return 1;
}

SHADOW_API void gpuplan_shadow_forget(const void* address, std::size_t count) { forget_written(address, count); }

SHADOW_API int gpuplan_shadow_holds(const void* address, std::uint64_t write) {
  return holds_write(address, write) ? 1 : 0;
}

SHADOW_API std::size_t gpuplan_shadow_lost(std::uintptr_t* addresses, std::size_t most) {
  const std::vector<std::uintptr_t> lost = lost_writes();
  const std::size_t count = std::min(lost.size(), most);
  std::copy_n(lost.begin(), count, addresses);
  return count;
}

SHADOW_API std::size_t gpuplan_shadow_answer(const std::int64_t* values, std::size_t count) {
  const std::size_t left = answers().size();
  answers().assign(values, values + count);
  return left;
}

SHADOW_API std::int64_t gpuplan_shadow_guesses(int everywhere) {
  if (everywhere == 0) noted_here = true;
  return everywhere != 0 ? guesses.load(std::memory_order_relaxed) : guesses_here;
}

}  // namespace gpuplan::shadow

// Where NVIDIA's driver places device memory, which decides ties in PyTorch's allocator: of free blocks of one size it
// takes the one with the lowest address. Read off an H200 (driver 580.159): tests/reference/h200/questions/addresses.*.
//   - memory lies in windows of whole 32 MiB, each below the one before
//   - a request takes the lowest gap in the windows that is large enough, from its beginning; else a new window
//   - a window that is empty goes
// In a process the host's other mappings stand between the windows, so that a few of them come in another order: of two
// segments of a GPT-2 step, the lower one is told rightly for 96 %, and for 4 % if addresses grew. Over 596 runs of
// drawn models neither order is the better one everywhere: tests/reference/h200/README.md has the table. Plain values,
// nothing of the estimator's: the CUDA runtime of `gpuplan shadow` compiles this file too.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>

namespace gpuplan {

class DriverAddresses {
 public:
  /// Addresses between `bottom` and `top`, multiples of 32 MiB; above all windows the gaps that a new context has.
  explicit DriverAddresses(std::uint64_t top = kTop, std::uint64_t bottom = 0);

  /// The address of `bytes`, rounded up to 2 MiB; 0 where there is no room.
  std::uint64_t place(std::int64_t bytes);
  /// A window for them alone, as an expandable segment's.
  std::uint64_t place_alone(std::int64_t bytes);
  /// What place() or place_alone() returned, whole.
  void release(std::uint64_t address, std::int64_t bytes);

  static constexpr std::uint64_t kTop = std::uint64_t{1} << 47;  // of a process's addresses on x86-64

 private:
  struct Window {
    std::uint64_t bytes = 0, used = 0;
  };
  using Gaps = std::map<std::uint64_t, std::uint64_t>;  // bytes by address
  std::uint64_t add_window(std::uint64_t bytes, std::uint64_t used);
  std::uint64_t lowest_gap(std::uint64_t bytes) const;
  void add_gap(std::uint64_t address, std::uint64_t bytes);
  Gaps::iterator remove_gap(Gaps::iterator gap);

  std::uint64_t top_, bottom_;
  std::map<std::uint64_t, Window> windows_;                // by address
  Gaps gaps_;                                              // each within a window
  std::array<std::set<std::uint64_t>, 17> gaps_by_pages_;  // their addresses; in the last those of 32 MiB and more
};

}  // namespace gpuplan

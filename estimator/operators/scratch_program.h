// What a kernel allocates and frees while it runs, one action after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace gpuplan {

/// One number an action: bytes > 0 allocates them, kResultAllocation the operation's next result, and what is negative
/// frees an allocation of the program (see frees()). ScratchWriter writes them. Eight bytes, as a OpaqueKernel holds
/// twenty and a graph a Primitive for every operation.
using ScratchProgram = std::vector<std::int64_t>;
constexpr std::int64_t kResultAllocation = 0;
/// torch.cuda.empty_cache(), of a model's construction.
constexpr std::int64_t kEmptiesCache = std::numeric_limits<std::int64_t>::min();

constexpr bool allocates(std::int64_t action) { return action > 0; }
constexpr bool frees(std::int64_t action) { return action < 0; }
/// Which allocation of the program goes, in their order, from 0; results do not count. Of an action that frees.
constexpr std::size_t freed_by(std::int64_t action) { return static_cast<std::size_t>(-action - 1); }

/// Appends to a program. What is not released in it goes when the operation ends.
class ScratchWriter {
 public:
  /// `allocated`: so many allocations of the program are there already.
  explicit ScratchWriter(ScratchProgram& program, std::int64_t allocated = 0)
      : program_(program), allocated_(allocated) {}

  void result(int count = 1);
  /// Returns what release() takes. 0 bytes: nothing is allocated, as in PyTorch, and releasing that does nothing.
  std::int64_t allocate(std::int64_t bytes);
  void release(std::int64_t allocation);
  void use(std::int64_t bytes) { release(allocate(bytes)); }
  /// What is not released yet, the last one first, of a program that this writer alone wrote.
  void release_all();
  /// A program of its own, whose allocations are counted from 0.
  void append(std::span<const std::int64_t> program);
  static constexpr std::int64_t kNothing = -1;

 private:
  ScratchProgram& program_;
  std::int64_t allocated_;
};

}  // namespace gpuplan

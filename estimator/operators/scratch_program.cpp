#include "estimator/operators/scratch_program.h"

#include <algorithm>

#include "estimator/operators/side_stream.h"

namespace gpuplan {

void ScratchWriter::result(int count) {
  program_.insert(program_.end(), static_cast<std::size_t>(count), kResultAllocation);
}

std::int64_t ScratchWriter::allocate(std::int64_t bytes) {
  if (bytes == 0) return kNothing;
  program_.push_back(bytes);
  return allocated_++;
}

void ScratchWriter::release(std::int64_t allocation) {
  if (allocation != kNothing) program_.push_back(-allocation - 1);
}

void ScratchWriter::release_all() {
  for (std::int64_t i = allocated_; i-- > 0;)
    if (std::ranges::find(program_, -i - 1) == program_.end()) release(i);
}

void ScratchWriter::append(std::span<const std::int64_t> program) {
  const std::int64_t before = allocated_;
  for (const std::int64_t action : program) {
    program_.push_back(frees(action) && action != kSideStream ? action - before : action);
    if (allocates(action)) ++allocated_;
  }
}

}  // namespace gpuplan

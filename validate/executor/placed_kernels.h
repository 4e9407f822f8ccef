// Kernels of a plan's steps with the addresses that its buffers have at the time.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "estimator/allocator/loop_observer.h"
#include "validate/executor/execution.h"

namespace gpuplan {

inline void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): the allocator counts in addresses
}

/// data is null where the address is 0.
KernelTensor tensor_at(const OperandView& view, std::uint64_t address);

/// aten::empty: no kernel.
bool allocates_only(const ScheduledOp& step);

class PlacedKernels {
 public:
  PlacedKernels(const RankStep& rank, std::uint64_t seed, bool repeatable = false);

  void place(BufferId buffer, std::uint64_t address) { addresses_[static_cast<std::size_t>(buffer)] = address; }
  std::uint64_t address(BufferId buffer) const { return addresses_[static_cast<std::size_t>(buffer)]; }
  /// The micro-batch takes its part of the batch from now on, and what it draws is its own.
  void begin(int training_step, std::int64_t micro_batch);
  /// Where the GradScaler's scale is: a scalar in fp32.
  void set_scale(std::uint64_t address) { scale_ = address; }

  KernelTensor tensor(const OperandView& view) const;
  /// Null where the plan says nothing of what the step is given.
  const KernelCall* call(std::size_t pass, std::int32_t step) const;
  /// Valid until the next one.
  const Kernel& kernel(std::size_t pass, const KernelCall& call, std::span<const PlacedScratch> scratch);

 private:
  void fill(std::vector<KernelTensor>& to, std::span<const OperandView> views) const;
  bool multiplies_by_scale(const ScheduledOp& step) const;
  std::uint64_t seed_of(const Primitive* what) const;

  const RankStep& rank_;
  std::unordered_map<const Primitive*, std::uint64_t> forward_;  // which operation it is
  std::uint64_t seed_, passed_ = 0;                              // passes before this one
  std::vector<std::uint64_t> addresses_;                         // by buffer
  std::vector<std::int64_t> part_bytes_;                         // by buffer: of an input's part; 0 of anything else
  std::int64_t micro_batch_ = 0;
  std::uint64_t scale_ = 0;
  Kernel kernel_;
  std::vector<KernelTensor> reads_, extra_, writes_;
  std::vector<KernelScratch> scratch_;
};

}  // namespace gpuplan

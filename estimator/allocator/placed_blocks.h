// What a training loop holds: its blocks by buffer and category, and the readings of its phases and its peak. The
// lowest part of TrainingLoop.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "estimator/allocator/allocator.h"
#include "estimator/allocator/loop_follower.h"
#include "estimator/allocator/loop_parts.h"
#include "estimator/allocator/placement.h"
#include "estimator/base/error.h"
#include "estimator/graph/graph.h"

namespace gpuplan {

/// Thrown where the allocator has no room, to where the loop began.
struct NoRoom {};

template <class Allocator>
class PlacedBlocks {
 protected:
  PlacedBlocks(Allocator& allocator, const LoopParts& parts, LoopFollower* follower)
      : graph_(parts.graph),
        passes_(parts.passes),
        optimizer_(parts.optimizer),
        run_(parts.run),
        gpu_(parts.gpu),
        collectives_(parts.collectives),
        allocator_(allocator),
        buffers_(parts.passes.back().buffers),
        follower_(follower) {
    blocks_.assign(buffers_.size(), kNoBlock);
    result_.charged_bytes.assign(buffers_.size(), 0);
  }

  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
  const Buffer& buffer(BufferId id) const { return buffers_[index(id)]; }
  std::uint64_t address(BlockId b) const {
    if constexpr (requires { allocator_.address(b); }) return b == kNoBlock ? 0 : allocator_.address(b);
    return 0;
  }
  BlockId block_of(BufferId id) const { return id == kNone ? kNoBlock : blocks_[index(id)]; }
  const Schedule& s() const { return passes_[pass_]; }
  BufferId buffer_of(TensorId t) const { return graph_.tensors[index(t)].buffer; }

  BlockId allocate_bytes(std::int64_t bytes, Category category, std::int64_t stream = 0) {
    // Beyond an exbibyte every answer is "no"; stopping there keeps every sum of sizes within 64 bits.
    constexpr std::int64_t kTooMuch = std::int64_t{1} << 60;
    if (bytes > kTooMuch || allocator_.reserved_bytes() > kTooMuch)
      throw Error("the step needs more than 1 EiB of memory");
    const BlockId b = allocate_on(stream, bytes);
    if (b == kOutOfMemory) throw NoRoom{};
    ++allocations_;
    if (b != kNoBlock) categories_[static_cast<std::size_t>(category)] += allocator_.charged_bytes(b);
    if (reporting_) note_peak(phase_, step_);
    if (follower_ != nullptr && b != kNoBlock) follower_->allocated(address(b), allocator_.charged_bytes(b));
    return b;
  }

  // Scratch that goes before anything else happens.
  void use_scratch(std::int64_t bytes) {
    if constexpr (requires { allocator_.use(bytes); }) {
      if (const std::optional<std::int64_t> charged = allocator_.use(bytes)) {
        ++allocations_;
        if (!reporting_) return;
        std::int64_t& scratch = categories_[static_cast<std::size_t>(Category::scratch)];
        scratch += *charged;
        note_peak(phase_, step_, allocator_.allocated_bytes() + *charged);
        scratch -= *charged;
        return;
      }
    }
    BlockId b = allocate_bytes(bytes, Category::scratch);
    release_scratch(b);
  }

  // Only PyTorch's allocator keeps the blocks of streams apart.
  BlockId allocate_on(std::int64_t stream, std::int64_t bytes) {
    if constexpr (requires { allocator_.allocate(bytes, stream); }) return allocator_.allocate(bytes, stream);
    return allocator_.allocate(bytes);
  }

  void allocate(BufferId id) {
    const Buffer& storage = buffer(id);
    const BlockId b = allocate_bytes(storage.bytes, storage.category);
    blocks_[index(id)] = b;
    if (b != kNoBlock) result_.charged_bytes[index(id)] = allocator_.charged_bytes(b);
    if (follower_ != nullptr) follower_->placed(id, address(b));
  }

  void release_block(BlockId b, BufferId id) {
    if (b == kNoBlock) return;
    release_as(b, buffer(id).category);
  }
  void release(BufferId id) {
    release_block(blocks_[index(id)], id);
    blocks_[index(id)] = kNoBlock;
  }
  void release_result(BufferId id) {
    if (id != kNone) release(id);
  }
  void release_as(BlockId& b, Category category) {
    if (b == kNoBlock) return;
    categories_[static_cast<std::size_t>(category)] -= allocator_.charged_bytes(b);
    if (follower_ != nullptr) follower_->releasing(address(b), allocator_.charged_bytes(b));
    allocator_.release(b);
    b = kNoBlock;
  }
  void release_scratch(BlockId& b) { release_as(b, Category::scratch); }

  void note_peak(Phase phase, std::int32_t step) { note_peak(phase, step, allocator_.allocated_bytes()); }
  void note_peak(Phase phase, std::int32_t step, std::int64_t now) {
    step_peak_ = std::max(step_peak_, now);
    if (now <= highest_) return;
    highest_ = now;
    result_.at = {phase, step, pass_, categories_};
  }

  void record(Phase phase) {
    if (follower_ != nullptr) follower_->phase_ended(training_step_, phase);
    if (!recording_) return;
    PhaseRow row;
    row.steady = steady_;
    row.phase = phase;
    row.live = {allocator_.requested_bytes(), allocator_.allocated_bytes(), allocator_.reserved_bytes()};
    row.peak = {allocator_.peak_requested_bytes(), allocator_.peak_allocated_bytes(), allocator_.peak_reserved_bytes()};
    row.kernels = kernels_;
    kernels_ = 0;
    allocator_.reset_peaks();
    if (reporting_) {
      Reading& p = result_.peak;
      p.requested_bytes = std::max(p.requested_bytes, row.peak.requested_bytes);
      p.allocated_bytes = std::max(p.allocated_bytes, row.peak.allocated_bytes);
      p.reserved_bytes = std::max(p.reserved_bytes, row.peak.reserved_bytes);
      if (phase != Phase::forward && phase != Phase::loss && phase != Phase::backward)
        result_.timeline.push_back({phase, row.live.allocated_bytes, row.peak.allocated_bytes});
    }
    if (!silent_) result_.phases.push_back(row);
  }

  const Graph& graph_;
  std::span<const Schedule> passes_;
  const OptimizerWork& optimizer_;
  const RunConfig& run_;
  const Gpu& gpu_;
  const CollectiveMemory* collectives_;
  Allocator& allocator_;
  std::span<const Buffer> buffers_;  // of the last pass, which has those of all
  LoopFollower* follower_;
  Placement result_;
  std::vector<BlockId> blocks_;  // by buffer
  std::array<std::int64_t, kCategories> categories_{};
  // Where the loop is.
  int training_step_ = -1;
  Phase phase_ = Phase::start;
  std::size_t pass_ = 0;       // of the schedules
  std::int32_t step_ = kNone;  // of that schedule
  // What is told of it: readings, the peak and the timeline, and whether the step is the steady one.
  bool recording_ = false, reporting_ = false, steady_ = false;
  bool silent_ = false;  // of the phases of a step's passes the last ones are told
  std::int64_t highest_ = -1, step_peak_ = 0, kernels_ = 0, allocations_ = 0;
};

}  // namespace gpuplan

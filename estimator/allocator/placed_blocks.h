// What a training loop holds: its blocks by buffer, and their bytes by category.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "estimator/allocator/block_allocator.h"
#include "estimator/allocator/carried_over.h"
#include "estimator/allocator/loop_readings.h"
#include "estimator/base/error.h"
#include "estimator/base/integers.h"

namespace gpuplan {

/// Thrown when the allocator is out of memory; caught where the loop was started.
struct NoRoom {};

class PlacedBlocks {
 public:
  PlacedBlocks(const RunningLoop& loop, BlockAllocator& allocator, LoopReadings& readings)
      : loop_(loop),
        allocator_(allocator),
        readings_(readings),
        buffers_(loop.rank->micro_batches.schedules.back().buffers),
        blocks_(buffers_.size(), kNoBlock) {}

  const Buffer& buffer(BufferId id) const { return buffers_[index(id)]; }
  BlockId block_of(BufferId id) const { return id == kNone ? kNoBlock : blocks_[index(id)]; }
  std::uint64_t address(BlockId b) const { return b == kNoBlock ? 0 : allocator_.address(b); }

  /// Throws Error beyond an exbibyte: there every answer is "no", and every sum of sizes stays within 64 bits.
  BlockId allocate_bytes(std::int64_t bytes, Category category, std::int64_t stream = 0) {
    constexpr std::int64_t kTooMuch = std::int64_t{1} << 60;
    if (bytes > kTooMuch || allocator_.reserved_bytes() > kTooMuch)
      throw Error("the step needs more than 1 EiB of memory");
    const BlockId b = allocator_.allocate(bytes, stream);
    if (b == kOutOfMemory) throw NoRoom{};
    readings_.count_allocation();
    const std::int64_t charged = b == kNoBlock ? 0 : allocator_.charged_bytes(b);
    of(category) += charged;
    note_peak();
    if (loop_.observer != nullptr && b != kNoBlock) loop_.observer->allocated(address(b), charged, bytes, category);
    return b;
  }
  /// `later`: when the next allocation is asked for, as what another stream has used.
  void release_as(BlockId& b, Category category, bool later = false) {
    if (b == kNoBlock) return;
    const std::int64_t charged = allocator_.charged_bytes(b);
    if (let_share_go(b, category, charged)) return;
    of(category) -= charged;
    if (loop_.observer != nullptr) loop_.observer->releasing(address(b), charged);
    if (later)
      allocator_.release_later(b);
    else
      allocator_.release(b);
    b = kNoBlock;
  }

  BlockId allocate_scratch(std::int64_t bytes, std::int64_t stream = 0) {
    return allocate_bytes(bytes, Category::scratch, stream);
  }
  void release_scratch(BlockId& b) { release_as(b, Category::scratch); }
  /// Scratch that goes before anything else happens.
  void use_scratch(std::int64_t bytes) {
    const bool told = loop_.observer != nullptr && loop_.observer->follows_scratch();
    const std::optional<std::int64_t> charged = told ? std::nullopt : allocator_.use(bytes);
    if (!charged) {
      BlockId b = allocate_scratch(bytes);
      return release_scratch(b);
    }
    readings_.count_allocation();
    if (!readings_.reports()) return;
    of(Category::scratch) += *charged;
    readings_.note_peak(allocator_.allocated_bytes() + *charged, by_category_);
    of(Category::scratch) -= *charged;
  }

  void allocate(BufferId id, std::int64_t stream = 0) {
    const Buffer& storage = buffer(id);
    const BlockId b = allocate_bytes(storage.bytes, storage.category, stream);
    blocks_[index(id)] = b;
    if (b != kNoBlock) readings_.charge(id, allocator_.charged_bytes(b));
    if (loop_.observer != nullptr) loop_.observer->placed(id, address(b));
  }
  void release(BufferId id, bool later = false) { release_as(blocks_[index(id)], buffer(id).category, later); }
  /// What a name still holds of the buffer, which may lie in another block by now.
  void release_held(BlockId b, BufferId id) {
    if (b != kNoBlock) release_as(b, buffer(id).category);
  }
  void empty_cache() { allocator_.empty_cache(); }
  /// As a copy that takes its place: tensor.to(memory_format=...).
  void move(BufferId id) {
    const BlockId old = blocks_[index(id)];
    allocate(id);
    release_held(old, id);
  }
  void replace(const Schedule::Replacement& r) {
    release(r.old_buffer);
    BlockId& b = blocks_[index(r.old_buffer)];
    std::swap(b, blocks_[index(r.new_buffer)]);
    const std::int64_t bytes = allocator_.charged_bytes(b);
    of(buffer(r.new_buffer).category) -= bytes;
    of(buffer(r.old_buffer).category) += bytes;
    if (loop_.observer != nullptr) loop_.observer->placed(r.old_buffer, address(b));
  }

  /// From here on the buffers are those of `to`: another step of the same model, of another batch. Everything that is
  /// alive when a step begins lies where it lay.
  void go_on(const RankStep& from, const RankStep& to) {
    blocks_ = carried_over(from, to, blocks_);
    buffers_ = to.micro_batches.schedules.back().buffers;
  }

  /// Until resume() the buffers are those of an evaluation's step: the model lies where it lay, and what else the
  /// training holds waits.
  void set_aside(const RankStep& from, const RankStep& evaluation) {
    std::vector<BlockId> blocks = model_carried_over(from, evaluation, blocks_);
    aside_ = std::exchange(blocks_, std::move(blocks));
    aside_buffers_ = std::exchange(buffers_, evaluation.micro_batches.schedules.back().buffers);
  }
  void resume() {
    blocks_ = std::move(aside_);
    buffers_ = aside_buffers_;
  }
  /// From here on micro-batches are in flight at once, and these buffers are each one's own; all others are the same
  /// for all. This is the first one.
  void keep_apart(std::size_t micro_batches, std::vector<BufferId> own) {
    own_ = std::move(own);
    in_flight_.assign(micro_batches, {});
  }
  void switch_to(std::size_t micro_batch) {
    if (micro_batch == micro_batch_) return;
    std::vector<std::pair<BufferId, BlockId>>& left = in_flight_[micro_batch_];
    for (const BufferId b : own_)
      if (const BlockId there = std::exchange(blocks_[index(b)], kNoBlock); there != kNoBlock)
        left.emplace_back(b, there);
    for (const auto& [buffer, block] : in_flight_[micro_batch]) blocks_[index(buffer)] = block;
    in_flight_[micro_batch].clear();
    micro_batch_ = micro_batch;
  }
  /// Another buffer, of another micro-batch or stage, lies in the block as well from now on: it goes with the last of
  /// them. `place` puts it there.
  BlockId share(BufferId id, BufferId with) {
    const BlockId b = block_of(id);
    if (b != kNoBlock) shared_.push_back({b, buffer(id).category, buffer(with).category});
    return b;
  }
  /// The same where the buffer itself has gone.
  BlockId take(BufferId id, BufferId by) {
    const BlockId b = take(id);
    if (b == kNoBlock || buffer(id).category == buffer(by).category) return b;
    const std::int64_t charged = allocator_.charged_bytes(b);
    of(buffer(id).category) -= charged;
    of(buffer(by).category) += charged;
    return b;
  }
  void place(BufferId id, BlockId b) {
    blocks_[index(id)] = b;
    if (loop_.observer != nullptr) loop_.observer->placed(id, address(b));
  }
  /// The buffer's block, which the table has no longer.
  BlockId take(BufferId id) { return id == kNone ? kNoBlock : std::exchange(blocks_[index(id)], kNoBlock); }

  void note_peak() {
    if (readings_.reports()) readings_.note_peak(allocator_.allocated_bytes(), by_category_);
  }

 private:
  struct Shared {
    BlockId block;
    Category charged, other;  // of the buffer that made it, and of the other one
  };
  // Whether another buffer still lies in the block, which is charged to that then.
  bool let_share_go(BlockId& b, Category category, std::int64_t charged) {
    const auto shared = std::ranges::find(shared_, b, &Shared::block);
    if (shared == shared_.end()) return false;
    if (category == shared->charged) {
      of(category) -= charged;
      of(shared->other) += charged;
    }
    shared_.erase(shared);
    b = kNoBlock;
    return true;
  }
  std::int64_t& of(Category category) { return by_category_[static_cast<std::size_t>(category)]; }

  const RunningLoop& loop_;
  BlockAllocator& allocator_;
  LoopReadings& readings_;
  std::span<const Buffer> buffers_;  // of the last pass, which has those of all
  std::vector<BlockId> blocks_;      // by buffer
  std::span<const Buffer> aside_buffers_;
  std::vector<BlockId> aside_;                                        // of the training, while the model is evaluated
  std::vector<BufferId> own_;                                         // see keep_apart()
  std::vector<std::vector<std::pair<BufferId, BlockId>>> in_flight_;  // what of it the others have
  std::size_t micro_batch_ = 0;
  std::vector<Shared> shared_;
  std::array<std::int64_t, kCategories> by_category_{};
};

}  // namespace gpuplan

#include "estimator/snapshot/replayed_snapshot.h"

#include <vector>

#include "estimator/snapshot/snapshot_recorder.h"
#include "estimator/snapshot/snapshot_trace.h"

namespace gpuplan {

Snapshot replayed_snapshot(const Snapshot& of, std::size_t device, const AllocatorSettings& settings,
                           std::string_view alloc_conf) {
  const Trace trace = trace_of(of, device);
  const std::span<const SnapshotEvent> events = of.events_of(device);
  SnapshotRecorder recorder(of, device, settings.segment_order);
  recorder.stop_counting();
  if (!events.empty()) recorder.set_clock(events.front().microseconds);
  CachingAllocator allocator(recorder, settings);
  std::vector<BlockId> blocks(trace.tensor_count, kNoBlock);
  for (const TraceEvent& e : trace.events) {
    const SnapshotEvent* const recorded = e.line > 0 ? &events[static_cast<std::size_t>(e.line) - 1] : nullptr;
    if (recorded != nullptr) recorder.set_clock(recorded->microseconds);
    if (e.action == TraceAction::free_completed) {
      if (blocks[e.tensor] == kNoBlock) continue;
      recorder.released(allocator.address(blocks[e.tensor]), e.stream);
      allocator.release(blocks[e.tensor]);
      blocks[e.tensor] = kNoBlock;
    } else if (e.action == TraceAction::alloc) {
      const BlockId block = allocator.allocate(e.bytes, e.stream);
      if (block == kOutOfMemory) break;
      if (block == kNoBlock) continue;  // of no byte
      blocks[e.tensor] = block;
      recorder.allocated(allocator.address(block), e.bytes, recorded == nullptr ? kNoStack : recorded->stack, e.stream);
    }
  }
  return recorder.take(allocator, alloc_conf);
}

}  // namespace gpuplan

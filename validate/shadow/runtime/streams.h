// Streams, events and captures as the runtime's files share them. Work on a stream is done when it is enqueued; with
// Settings::events_lag it is taken to be done only once the host has waited for it, the other end of what a GPU may do.
//
// A program may also wait by asking (cudaEventQuery, cudaStreamQuery) until the answer changes, as NCCL's watchdog in
// PyTorch does. So with events_lag the answer becomes "done" where the same is asked 4,096 times, or 8 times 10 ms or
// more apart, and nothing is enqueued on any stream meanwhile. PyTorch's allocator, which asks at every allocation and
// goes on, launches kernels in between. For an event this is its own answer alone, and not that of what lies before it
// on the stream: a watchdog asks by the clock, and what the allocator sees must be the same on every run.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "validate/shadow/runtime/abi.h"

namespace gpuplan::shadow {

struct Graph;
struct Node;

/// A capture in progress, shared by the streams that have joined it.
struct Capture {
  std::uint64_t id = 0;
  std::unique_ptr<Graph, void (*)(Graph*)> graph{nullptr,
                                                 nullptr};  // its deleter does nothing where it is the caller's
  Stream* origin = nullptr;
  std::vector<Stream*> streams;  // origin included
  bool invalidated = false;
};

/// Questions in vain, one after another, while nothing was enqueued.
struct Polls {
  std::uint64_t enqueued = 0;  // on all streams, when it was last asked
  int asked = 0;
  int apart = 0;  // those among them that came a while after the one before
  std::chrono::steady_clock::time_point last;
};

struct Stream;

/// What a stream waits for before it goes on.
struct Wait {
  std::uint64_t sequence = 0;  // of the wait among the work of its own stream
  std::shared_ptr<Stream> other;
  std::uint64_t until = 0;  // work of `other`
};

struct Stream {
  int device = 0;
  int priority = 0;
  unsigned flags = 0;
  std::uint64_t id = 0;
  std::shared_ptr<Capture> capture;  // guarded by stream_mutex()
  Node* last_node = nullptr;         // of the capture
  // With events_lag, guarded by stream_mutex(): work enqueued, work that the host has waited for, and what this stream
  // waits for on others, in order.
  std::uint64_t enqueued = 0;
  std::uint64_t completed = 0;
  std::vector<Wait> waits;
  Polls polls;
};

std::mutex& stream_mutex();

/// The stream behind a handle. Null and cudaStreamLegacy (1) are the current device's default stream; so is
/// cudaStreamPerThread (2), as nothing runs at the same time here.
std::shared_ptr<Stream> stream_of(Stream* handle);

/// One piece of work on a stream, which runs at once: `launches` kernels or library computations (0 for a copy), which
/// can write at the addresses `touched` (written.h). True while the stream is being captured: the work became a node of
/// the graph and nothing may run.
bool enqueue(Stream* handle, std::int64_t launches, std::span<const std::uintptr_t> touched = {});

/// What a synchronous call does before it returns to the host. cudaErrorStreamCaptureUnsupported, and the capture is
/// lost, where the stream (any stream of this thread's) is being captured.
cudaError_t wait_for_stream(Stream* handle);
cudaError_t wait_for_device();

/// One more piece of work on `stream`; returns its number. Call with stream_mutex() held, as the next two.
std::uint64_t add_work(Stream& stream);
/// Everything up to work number `sequence` of `stream` is done, and what that work waited for.
void complete(const std::shared_ptr<Stream>& stream, std::uint64_t sequence);
/// Counts a question in vain. Whether the program has asked so often that it waits for the answer.
bool waits_by_asking(Polls& polls);

/// How many captures are under way in the process.
int captures_under_way();
void capture_began();
void capture_ended();

// In graphs.cpp; call with stream_mutex() held.
/// A node of the capture's graph.
Node* add_node(Graph& graph, std::int64_t launches, Node* after, std::span<const std::uintptr_t> touched = {});
/// Takes a stream that is being destroyed out of its capture, which is lost, and ended where it began in this stream.
/// The caller lets go of it without the lock, as its graph may own objects of the program's.
std::shared_ptr<Capture> leave_capture(Stream& stream);

}  // namespace gpuplan::shadow

// Streams, events and captures as the runtime's files share them. Work on a stream is done when it is enqueued; with
// Settings::events_lag it is taken to be done only once the host has waited for it, the other end of what a GPU may do.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "validate/shadow/runtime/abi.h"

namespace gpuplan::shadow {

struct Graph;
struct Node;

/// A capture in progress, shared by the streams that have joined it.
struct Capture {
  std::uint64_t id = 0;
  Graph* graph = nullptr;
  Stream* origin = nullptr;
  std::vector<Stream*> streams;  // origin included
  bool invalidated = false;
};

struct Stream {
  int device = 0;
  int priority = 0;
  unsigned flags = 0;
  std::uint64_t id = 0;
  std::shared_ptr<Capture> capture;  // guarded by stream_mutex()
  Node* last_node = nullptr;         // of the capture
  // With events_lag, guarded by stream_mutex(): work enqueued, work that the host has waited for, and what this stream
  // waits for on others.
  std::uint64_t enqueued = 0;
  std::uint64_t completed = 0;
  std::vector<std::pair<std::shared_ptr<Stream>, std::uint64_t>> waits;
};

std::mutex& stream_mutex();

/// The stream behind a handle. Null and cudaStreamLegacy (1) are the current device's default stream; so is
/// cudaStreamPerThread (2), as nothing runs at the same time here.
std::shared_ptr<Stream> stream_of(Stream* handle);

/// One piece of work on a stream, which runs at once: `launches` kernels or library computations (0 for a copy). True
/// while the stream is being captured: the work became a node of the graph and nothing may run.
bool enqueue(Stream* handle, std::int64_t launches);

/// What a synchronous call does before it returns to the host. cudaErrorStreamCaptureUnsupported, and the capture is
/// lost, where the stream (any stream of this thread's) is being captured.
cudaError_t wait_for_stream(Stream* handle);
cudaError_t wait_for_device();

/// Everything up to work number `sequence` of `stream` is done; call with stream_mutex() held.
void complete(const std::shared_ptr<Stream>& stream, std::uint64_t sequence);

/// How many captures are under way in the process.
int captures_under_way();
void capture_began();
void capture_ended();

/// A node of the capture's graph; call with stream_mutex() held. In graphs.cpp.
Node* add_node(Graph& graph, std::int64_t launches, Node* after);

}  // namespace gpuplan::shadow

// Events. An event that was never recorded counts as complete, as in CUDA.
#include <memory>

#include "validate/shadow/runtime/runtime.h"
#include "validate/shadow/runtime/streams.h"

namespace gpuplan::shadow {

struct Event {
  unsigned flags = 0;
  bool recorded = false;
  std::int64_t launches = 0;  // of the process when it was recorded
  std::shared_ptr<Stream> stream;
  std::uint64_t sequence = 0;
  Polls polls;
  bool awaited = false;            // by asking
  std::weak_ptr<Capture> capture;  // recorded in it
};

namespace {

constexpr unsigned kDisableTiming = 2;  // cudaEventDisableTiming

cudaError_t create(Event** event, unsigned flags) {
  if (event == nullptr) return fail(cudaErrorInvalidValue);
  *event = new Event;
  (*event)->flags = flags;
  return cudaSuccess;
}

cudaError_t record(Event* event, Stream* handle) {
  if (event == nullptr) return fail(cudaErrorInvalidResourceHandle);
  const std::lock_guard lock(stream_mutex());
  const std::shared_ptr<Stream> stream = stream_of(handle);
  if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle);
  event->recorded = true;
  event->launches = counters().launches.load(std::memory_order_relaxed);
  event->capture = stream->capture;
  event->sequence = stream->capture == nullptr ? add_work(*stream) : 0;  // the event itself is work
  event->polls = {};
  event->awaited = false;
  if (!settings().events_lag) stream->completed = stream->enqueued;
  event->stream = stream;
  return cudaSuccess;
}

// Call with stream_mutex() held.
bool is_complete(const Event& event) {
  return !event.recorded || !settings().events_lag || event.awaited || event.stream->completed >= event.sequence;
}

cudaError_t query(Event* event) {
  if (event == nullptr) return fail(cudaErrorInvalidResourceHandle);
  const std::lock_guard lock(stream_mutex());
  if (event->recorded && !event->capture.expired()) return fail(cudaErrorCapturedEvent);
  if (is_complete(*event)) return cudaSuccess;
  event->awaited = waits_by_asking(event->polls);
  return event->awaited ? cudaSuccess : fail(cudaErrorNotReady);
}

// `stream` joins the capture that the event was recorded in.
cudaError_t join(Stream* stream, const std::shared_ptr<Capture>& capture) {
  if (stream->capture == capture) return cudaSuccess;
  if (stream->capture != nullptr) {
    stream->capture->invalidated = capture->invalidated = true;
    return fail(cudaErrorStreamCaptureMerge);
  }
  stream->capture = capture;
  stream->last_node = capture->origin->last_node;
  capture->streams.push_back(stream);
  return cudaSuccess;
}

}  // namespace

SHADOW_API cudaError_t cudaEventCreateWithFlags(Event** event, unsigned flags) { return create(event, flags); }
SHADOW_API cudaError_t cudaEventCreate(Event** event) { return create(event, 0); }

SHADOW_API cudaError_t cudaEventDestroy(Event* event) {
  if (event == nullptr) return fail(cudaErrorInvalidResourceHandle);
  const std::lock_guard lock(stream_mutex());
  delete event;
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaEventRecord(Event* event, Stream* stream) { return record(event, stream); }
SHADOW_API cudaError_t cudaEventRecordWithFlags(Event* event, Stream* stream, unsigned) {
  return record(event, stream);
}

SHADOW_API cudaError_t cudaEventQuery(Event* event) { return query(event); }

SHADOW_API cudaError_t cudaEventSynchronize(Event* event) {
  if (event == nullptr) return fail(cudaErrorInvalidResourceHandle);
  const std::lock_guard lock(stream_mutex());
  if (!event->recorded) return cudaSuccess;
  if (!event->capture.expired()) return fail(cudaErrorCapturedEvent);
  complete(event->stream, event->sequence);
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaStreamWaitEvent(Stream* handle, Event* event, unsigned) {
  if (event == nullptr) return fail(cudaErrorInvalidResourceHandle);
  const std::lock_guard lock(stream_mutex());
  const std::shared_ptr<Stream> stream = stream_of(handle);
  if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle);
  if (!event->recorded) return cudaSuccess;
  if (const std::shared_ptr<Capture> capture = event->capture.lock()) return join(stream.get(), capture);
  if (stream->capture != nullptr) {
    stream->capture->invalidated = true;
    return fail(cudaErrorStreamCaptureIsolation);
  }
  if (!is_complete(*event)) stream->waits.push_back({add_work(*stream), event->stream, event->sequence});
  return cudaSuccess;
}

// There is no time here. A microsecond a launch keeps what divides by it finite, and is the same on every run.
SHADOW_API cudaError_t cudaEventElapsedTime(float* milliseconds, Event* start, Event* end) {
  if (milliseconds == nullptr) return fail(cudaErrorInvalidValue);
  if (start == nullptr || end == nullptr) return fail(cudaErrorInvalidResourceHandle);
  const std::lock_guard lock(stream_mutex());
  if (!start->recorded || !end->recorded || ((start->flags | end->flags) & kDisableTiming) != 0) {
    return fail(cudaErrorInvalidResourceHandle);
  }
  if (!is_complete(*start) || !is_complete(*end)) return fail(cudaErrorNotReady);
  note_unknown("time: a shadow GPU has none; what events and cuDNN's benchmarking measured is a microsecond a launch");
  *milliseconds = 0.001F * static_cast<float>(1 + end->launches - start->launches);
  return cudaSuccess;
}
SHADOW_API cudaError_t cudaEventElapsedTime_v2(float* milliseconds, Event* start, Event* end) {
  return cudaEventElapsedTime(milliseconds, start, end);
}
SHADOW_API int cuEventElapsedTime(float* milliseconds, Event* start, Event* end) {
  return cudaEventElapsedTime(milliseconds, start, end);
}
SHADOW_API int cuEventElapsedTime_v2(float* milliseconds, Event* start, Event* end) {
  return cudaEventElapsedTime(milliseconds, start, end);
}

}  // namespace gpuplan::shadow

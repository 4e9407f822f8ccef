// Streams: creation, waiting, callbacks.
#include "validate/shadow/runtime/streams.h"

#include <array>
#include <atomic>
#include <unordered_map>

#include "validate/shadow/runtime/device.h"
#include "validate/shadow/runtime/memory_pools.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow {
namespace {

struct Streams {
  std::mutex mutex;  // of every Stream
  std::unordered_map<Stream*, std::shared_ptr<Stream>> created;
  std::array<std::shared_ptr<Stream>, kMaxDevices> standard;
  std::uint64_t next_id = kMaxDevices + 1;
  std::atomic<int> captures{0};
};

Streams* make_streams() {
  auto* const streams = new Streams;
  for (std::size_t device = 0; device < streams->standard.size(); ++device) {
    streams->standard[device] = std::make_shared<Stream>();
    streams->standard[device]->device = static_cast<int>(device);
    streams->standard[device]->id = device;
  }
  return streams;
}

Streams& streams() {
  static Streams* const instance = make_streams();
  return *instance;
}

bool is_standard(const Stream* handle) { return reinterpret_cast<std::uintptr_t>(handle) <= 2; }

// With stream_mutex() held.
std::shared_ptr<Stream> find(Stream* handle) {
  if (is_standard(handle)) return streams().standard[static_cast<std::size_t>(current_device())];
  const auto found = streams().created.find(handle);
  return found != streams().created.end() ? found->second : nullptr;
}

cudaError_t lose_capture(Stream& stream) {
  stream.capture->invalidated = true;
  return fail(cudaErrorStreamCaptureUnsupported);
}

cudaError_t create(Stream** handle, unsigned flags, int priority) {
  if (handle == nullptr || flags > 1) return fail(cudaErrorInvalidValue);
  auto stream = std::make_shared<Stream>();
  stream->device = current_device();
  stream->flags = flags;
  stream->priority = priority;
  const std::lock_guard lock(stream_mutex());
  stream->id = streams().next_id++;
  *handle = stream.get();
  streams().created.emplace(stream.get(), std::move(stream));
  return cudaSuccess;
}

}  // namespace

std::mutex& stream_mutex() { return streams().mutex; }
int captures_under_way() { return streams().captures.load(std::memory_order_relaxed); }
void capture_began() { ++streams().captures; }
void capture_ended() { --streams().captures; }

std::shared_ptr<Stream> stream_of(Stream* handle) { return find(handle); }

bool enqueue(Stream* handle, std::int64_t launches) {
  if (captures_under_way() == 0 && !settings().events_lag) {  // the usual case costs one addition
    if (launches != 0) counters().launches.fetch_add(launches, std::memory_order_relaxed);
    return false;
  }
  const std::lock_guard lock(stream_mutex());
  const std::shared_ptr<Stream> stream = find(handle);
  if (stream != nullptr && stream->capture != nullptr) {
    stream->last_node = add_node(*stream->capture->graph, launches, stream->last_node);
    return true;
  }
  if (stream != nullptr) ++stream->enqueued;
  counters().launches.fetch_add(launches, std::memory_order_relaxed);
  return false;
}

void complete(const std::shared_ptr<Stream>& stream, std::uint64_t sequence) {
  if (sequence <= stream->completed) return;
  stream->completed = sequence;
  const auto waits = std::exchange(stream->waits, {});
  for (const auto& [other, their_sequence] : waits) complete(other, their_sequence);
}

cudaError_t wait_for_stream(Stream* handle) {
  if (captures_under_way() == 0 && !settings().events_lag) {
    trim_memory_pools();
    return cudaSuccess;
  }
  const std::lock_guard lock(stream_mutex());
  const std::shared_ptr<Stream> stream = find(handle);
  if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle);
  if (stream->capture != nullptr) return lose_capture(*stream);
  complete(stream, stream->enqueued);
  return cudaSuccess;
}

cudaError_t wait_for_device() {
  const std::lock_guard lock(stream_mutex());
  for (const auto& [handle, stream] : streams().created) {
    if (stream->capture != nullptr) return lose_capture(*stream);
  }
  for (const auto& [handle, stream] : streams().created) complete(stream, stream->enqueued);
  for (const auto& stream : streams().standard) complete(stream, stream->enqueued);
  trim_memory_pools();
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaStreamCreateWithPriority(Stream** handle, unsigned flags, int priority) {
  return create(handle, flags, priority);
}
SHADOW_API cudaError_t cudaStreamCreateWithFlags(Stream** handle, unsigned flags) { return create(handle, flags, 0); }
SHADOW_API cudaError_t cudaStreamCreate(Stream** handle) { return create(handle, 0, 0); }

SHADOW_API cudaError_t cudaStreamDestroy(Stream* handle) {
  const std::lock_guard lock(stream_mutex());
  if (is_standard(handle) || streams().created.erase(handle) == 0) return fail(cudaErrorInvalidResourceHandle);
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaStreamSynchronize(Stream* handle) { return wait_for_stream(handle); }
SHADOW_API cudaError_t cudaDeviceSynchronize() { return wait_for_device(); }

SHADOW_API cudaError_t cudaStreamQuery(Stream* handle) {
  if (captures_under_way() == 0 && !settings().events_lag) return cudaSuccess;
  const std::lock_guard lock(stream_mutex());
  const std::shared_ptr<Stream> stream = find(handle);
  if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle);
  if (stream->capture != nullptr) return lose_capture(*stream);
  return stream->completed >= stream->enqueued ? cudaSuccess : fail(cudaErrorNotReady);
}

SHADOW_API cudaError_t cudaStreamGetPriority(Stream* handle, int* priority) {
  const std::lock_guard lock(stream_mutex());
  const std::shared_ptr<Stream> stream = find(handle);
  if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle);
  *priority = stream->priority;
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaStreamGetFlags(Stream* handle, unsigned* flags) {
  const std::lock_guard lock(stream_mutex());
  const std::shared_ptr<Stream> stream = find(handle);
  if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle);
  *flags = stream->flags;
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaStreamGetId(Stream* handle, unsigned long long* id) {
  const std::lock_guard lock(stream_mutex());
  const std::shared_ptr<Stream> stream = find(handle);
  if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle);
  *id = stream->id;
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaStreamGetDevice(Stream* handle, int* device) {
  const std::lock_guard lock(stream_mutex());
  const std::shared_ptr<Stream> stream = find(handle);
  if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle);
  *device = stream->device;
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;  // of every GPU since compute capability 7.0
  return cudaSuccess;
}

// Nothing is under way when these are called, so what they wait for has happened.
SHADOW_API cudaError_t cudaLaunchHostFunc(Stream* stream, cudaHostFn_t function, void* argument) {
  if (function == nullptr) return fail(cudaErrorInvalidValue);
  if (!enqueue(stream, 0)) function(argument);
  return cudaSuccess;
}
SHADOW_API cudaError_t cudaStreamAddCallback(Stream* stream, cudaStreamCallback_t function, void* argument, unsigned) {
  if (function == nullptr) return fail(cudaErrorInvalidValue);
  if (!enqueue(stream, 0)) function(stream, cudaSuccess, argument);
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaStreamAttachMemAsync(Stream*, void*, std::size_t, unsigned) { return cudaSuccess; }
SHADOW_API cudaError_t cudaCtxResetPersistingL2Cache() { return cudaSuccess; }
SHADOW_API cudaError_t cudaStreamSetAttribute(Stream*, int, const void*) { return cudaSuccess; }

}  // namespace gpuplan::shadow

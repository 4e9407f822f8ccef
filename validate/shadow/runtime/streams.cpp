// Streams: creation, waiting, callbacks.
#include "validate/shadow/runtime/streams.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>
#include <unordered_map>

#include "validate/shadow/runtime/device.h"
#include "validate/shadow/runtime/memory_pools.h"
#include "validate/shadow/runtime/runtime.h"
#include "validate/shadow/runtime/written.h"

namespace gpuplan::shadow {
namespace {

struct Streams {
  std::mutex mutex;  // of every Stream
  std::unordered_map<Stream*, std::shared_ptr<Stream>> created;
  std::array<std::shared_ptr<Stream>, kMaxDevices> standard;
  std::uint64_t next_id = kMaxDevices + 1;
  std::uint64_t enqueued = 0;  // with events_lag, on all streams
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

constexpr int kLeastPriority = 0, kGreatestPriority = -5;  // of every GPU since compute capability 7.0

cudaError_t create(Stream** handle, unsigned flags, int priority) {
  if (handle == nullptr || flags > 1) return fail(cudaErrorInvalidValue);
  auto stream = std::make_shared<Stream>();
  stream->device = current_device();
  stream->flags = flags;
  stream->priority = std::clamp(priority, kGreatestPriority, kLeastPriority);
  const std::lock_guard lock(stream_mutex());
  stream->id = streams().next_id++;
  *handle = stream.get();
  streams().created.emplace(stream.get(), std::move(stream));
  return cudaSuccess;
}

// Writes what `ask` says of the stream.
template <typename T, typename Ask>
cudaError_t answer(Stream* handle, T* value, Ask ask) {
  if (value == nullptr) return fail(cudaErrorInvalidValue);
  const std::lock_guard lock(stream_mutex());
  const std::shared_ptr<Stream> stream = find(handle);
  if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle);
  *value = ask(*stream);
  return cudaSuccess;
}

}  // namespace

std::mutex& stream_mutex() { return streams().mutex; }
int captures_under_way() { return streams().captures.load(std::memory_order_relaxed); }
void capture_began() { ++streams().captures; }
void capture_ended() { --streams().captures; }

std::shared_ptr<Stream> stream_of(Stream* handle) { return find(handle); }

bool enqueue(Stream* handle, std::int64_t launches, std::span<const std::uintptr_t> touched) {
  if (captures_under_way() == 0 && !settings().events_lag) {  // the usual case costs one addition
    if (launches != 0) counters().launches.fetch_add(launches, std::memory_order_relaxed);
    forget_touched(touched);
    return false;
  }
  const std::lock_guard lock(stream_mutex());
  const std::shared_ptr<Stream> stream = find(handle);
  if (stream != nullptr && stream->capture != nullptr) {
    stream->last_node = add_node(*stream->capture->graph, launches, stream->last_node, touched);
    return true;
  }
  if (stream != nullptr && settings().events_lag) add_work(*stream);
  counters().launches.fetch_add(launches, std::memory_order_relaxed);
  forget_touched(touched);
  return false;
}

std::uint64_t add_work(Stream& stream) {
  ++streams().enqueued;
  return ++stream.enqueued;
}

void complete(const std::shared_ptr<Stream>& stream, std::uint64_t sequence) {
  if (sequence <= stream->completed) return;
  stream->completed = sequence;
  std::vector<Wait>& waits = stream->waits;
  const auto later =
      std::find_if(waits.begin(), waits.end(), [&](const Wait& wait) { return wait.sequence > sequence; });
  const std::vector<Wait> over(std::move_iterator(waits.begin()), std::move_iterator(later));
  waits.erase(waits.begin(), later);
  for (const Wait& wait : over) complete(wait.other, wait.until);
}

bool waits_by_asking(Polls& polls) {
  constexpr int kOften = 4096, kOftenApart = 8;
  constexpr std::chrono::milliseconds kApart{10};
  const auto now = std::chrono::steady_clock::now();
  if (polls.asked == 0 || polls.enqueued != streams().enqueued) polls = {streams().enqueued, 0, 0, now};
  ++polls.asked;
  if (now - polls.last >= kApart) ++polls.apart;
  polls.last = now;
  return polls.asked >= kOften || polls.apart >= kOftenApart;
}

cudaError_t wait_for_stream(Stream* handle) {
  {
    const std::lock_guard lock(stream_mutex());
    const std::shared_ptr<Stream> stream = find(handle);
    if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle);
    if (stream->capture != nullptr) return lose_capture(*stream);
    complete(stream, stream->enqueued);
  }
  trim_memory_pools();
  return cudaSuccess;
}

cudaError_t wait_for_device() {
  {
    const std::lock_guard lock(stream_mutex());
    for (const auto& [handle, stream] : streams().created) {
      if (stream->capture != nullptr) return lose_capture(*stream);
    }
    for (const auto& [handle, stream] : streams().created) complete(stream, stream->enqueued);
    for (const auto& stream : streams().standard) complete(stream, stream->enqueued);
  }
  trim_memory_pools();
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaStreamCreateWithPriority(Stream** handle, unsigned flags, int priority) {
  return create(handle, flags, priority);
}
SHADOW_API cudaError_t cudaStreamCreateWithFlags(Stream** handle, unsigned flags) { return create(handle, flags, 0); }
SHADOW_API cudaError_t cudaStreamCreate(Stream** handle) { return create(handle, 0, 0); }

SHADOW_API cudaError_t cudaStreamDestroy(Stream* handle) {
  std::shared_ptr<Capture> lost;  // let go of once the lock is
  const std::lock_guard lock(stream_mutex());
  const std::shared_ptr<Stream> stream = is_standard(handle) ? nullptr : find(handle);
  if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle);
  if (stream->capture != nullptr) lost = leave_capture(*stream);
  streams().created.erase(handle);
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaStreamSynchronize(Stream* handle) { return wait_for_stream(handle); }
SHADOW_API cudaError_t cudaDeviceSynchronize() { return wait_for_device(); }

SHADOW_API cudaError_t cudaStreamQuery(Stream* handle) {
  const std::lock_guard lock(stream_mutex());
  const std::shared_ptr<Stream> stream = find(handle);
  if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle);
  if (stream->capture != nullptr) return lose_capture(*stream);
  if (!settings().events_lag || stream->completed >= stream->enqueued) return cudaSuccess;
  if (!waits_by_asking(stream->polls)) return fail(cudaErrorNotReady);
  complete(stream, stream->enqueued);
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaStreamGetPriority(Stream* handle, int* priority) {
  return answer(handle, priority, [](const Stream& stream) { return stream.priority; });
}
SHADOW_API cudaError_t cudaStreamGetFlags(Stream* handle, unsigned* flags) {
  return answer(handle, flags, [](const Stream& stream) { return stream.flags; });
}
SHADOW_API cudaError_t cudaStreamGetId(Stream* handle, unsigned long long* id) {
  return answer(handle, id, [](const Stream& stream) { return stream.id; });
}
SHADOW_API cudaError_t cudaStreamGetDevice(Stream* handle, int* device) {
  return answer(handle, device, [](const Stream& stream) { return stream.device; });
}

SHADOW_API cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = kLeastPriority;
  if (greatest != nullptr) *greatest = kGreatestPriority;
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

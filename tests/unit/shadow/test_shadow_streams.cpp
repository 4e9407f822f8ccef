// Streams, events and captures of the CUDA runtime without a GPU, called directly. Values are those of the CUDA
// runtime's documentation.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <thread>

#include "validate/shadow/runtime/abi.h"
#include "validate/shadow/runtime/runtime.h"
#include "validate/shadow/session.h"

using namespace gpuplan::shadow;

extern "C" {
cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t);
cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, std::size_t, void*);
cudaError_t cudaStreamCreateWithFlags(void**, unsigned);
cudaError_t cudaStreamCreateWithPriority(void**, unsigned, int);
cudaError_t cudaStreamDestroy(void*);
cudaError_t cudaStreamSynchronize(void*);
cudaError_t cudaStreamQuery(void*);
cudaError_t cudaStreamGetPriority(void*, int*);
cudaError_t cudaStreamBeginCapture(void*, int);
cudaError_t cudaStreamBeginCaptureToGraph(void*, void*, const void*, const void*, std::size_t, int);
cudaError_t cudaStreamEndCapture(void*, void**);
cudaError_t cudaStreamIsCapturing(void*, int*);
cudaError_t cudaStreamWaitEvent(void*, void*, unsigned);
cudaError_t cudaThreadExchangeStreamCaptureMode(int*);
cudaError_t cudaEventCreateWithFlags(void**, unsigned);
cudaError_t cudaEventDestroy(void*);
cudaError_t cudaEventRecord(void*, void*);
cudaError_t cudaEventQuery(void*);
cudaError_t cudaEventSynchronize(void*);
cudaError_t cudaEventElapsedTime(float*, void*, void*);
cudaError_t cudaGraphCreate(void**, unsigned);
cudaError_t cudaGraphGetNodes(void*, void**, std::size_t*);
cudaError_t cudaGraphInstantiateWithFlags(void**, void*, unsigned long long);
cudaError_t cudaGraphLaunch(void*, void*);
cudaError_t cudaGraphDestroy(void*);
cudaError_t cudaGraphExecDestroy(void*);
cudaError_t cudaUserObjectCreate(void**, void*, void (*)(void*), unsigned, unsigned);
cudaError_t cudaGraphRetainUserObject(void*, void*, unsigned, unsigned);
std::int64_t gpuplan_shadow_launches();
}

namespace {

const char kernel = 0;  // its address stands for a host stub

cudaError_t launch(void* stream) { return cudaLaunchKernel(&kernel, {1, 1, 1}, {128, 1, 1}, nullptr, 0, stream); }

constexpr unsigned kNonBlocking = 1;    // cudaStreamNonBlocking
constexpr unsigned kDisableTiming = 2;  // cudaEventDisableTiming

void* new_stream() {
  void* stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, kNonBlocking) == cudaSuccess);
  return stream;
}

void* new_event(unsigned flags = kDisableTiming) {
  void* event = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&event, flags) == cudaSuccess);
  return event;
}

// With events_lag while it lives.
class Lag {
 public:
  Lag() : usual_(settings()) {
    Settings lagging = usual_;
    lagging.events_lag = true;
    use_settings(lagging);
  }
  Lag(const Lag&) = delete;
  Lag& operator=(const Lag&) = delete;
  ~Lag() {
    use_settings(usual_);
    cudaGetLastError();
  }

 private:
  Settings usual_;
};

}  // namespace

TEST_CASE("shadow: a capture records across streams and a replay counts") {
  void *main = nullptr, *side = nullptr, *event = nullptr, *graph = nullptr, *executable = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&main, 1) == cudaSuccess);
  REQUIRE(cudaStreamCreateWithFlags(&side, 1) == cudaSuccess);
  REQUIRE(cudaEventCreateWithFlags(&event, 2) == cudaSuccess);
  CHECK(cudaStreamBeginCapture(nullptr, 0) == cudaErrorStreamCaptureUnsupported);  // the legacy stream
  const std::int64_t before = gpuplan_shadow_launches();
  REQUIRE(cudaStreamBeginCapture(main, 0) == cudaSuccess);
  launch(main);
  cudaEventRecord(event, main);
  CHECK(cudaStreamWaitEvent(side, event, 0) == cudaSuccess);
  int status = 0;
  cudaStreamIsCapturing(side, &status);
  CHECK(status == cudaStreamCaptureStatusActive);
  launch(side);
  cudaEventRecord(event, side);
  cudaStreamWaitEvent(main, event, 0);
  CHECK(cudaStreamEndCapture(main, &graph) == cudaSuccess);
  CHECK(gpuplan_shadow_launches() == before);
  std::size_t nodes = 0;
  cudaGraphGetNodes(graph, nullptr, &nodes);
  CHECK(nodes == 2);
  REQUIRE(cudaGraphInstantiateWithFlags(&executable, graph, 0) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  for (int i = 0; i < 3; ++i) cudaGraphLaunch(executable, main);
  CHECK(gpuplan_shadow_launches() - before == 6);
  CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);

  // Waiting for a stream that is being captured is an error, and the capture is lost.
  REQUIRE(cudaStreamBeginCapture(main, 0) == cudaSuccess);
  CHECK(cudaStreamSynchronize(main) == cudaErrorStreamCaptureUnsupported);
  CHECK(cudaStreamEndCapture(main, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(graph == nullptr);
  CHECK(cudaStreamEndCapture(main, &graph) == cudaErrorIllegalState);
  cudaEventDestroy(event);
  CHECK(cudaStreamDestroy(side) == cudaSuccess);
  CHECK(cudaStreamDestroy(main) == cudaSuccess);
  CHECK(cudaStreamDestroy(main) == cudaErrorInvalidResourceHandle);
}

TEST_CASE("shadow: a capture is lost with its stream") {
  void *main = new_stream(), *side = new_stream(), *event = new_event(), *graph = nullptr;
  const auto fork = [&] {
    REQUIRE(cudaStreamBeginCapture(main, 0) == cudaSuccess);
    cudaEventRecord(event, main);
    CHECK(cudaStreamWaitEvent(side, event, 0) == cudaSuccess);
    launch(side);
  };
  fork();
  CHECK(cudaStreamDestroy(side) == cudaSuccess);
  CHECK(cudaStreamEndCapture(main, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(graph == nullptr);

  side = new_stream();
  fork();
  CHECK(cudaStreamDestroy(main) == cudaSuccess);  // where it began: the other stream is captured no longer
  int status = 9;
  CHECK(cudaStreamIsCapturing(side, &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusNone);
  const std::int64_t before = gpuplan_shadow_launches();
  launch(side);
  CHECK(gpuplan_shadow_launches() - before == 1);
  CHECK(cudaEventQuery(event) == cudaSuccess);
  cudaEventDestroy(event);
  cudaStreamDestroy(side);
}

TEST_CASE("shadow: a capture that fails leaves a graph of the caller's, and gives back what its own graph held") {
  void *stream = new_stream(), *graph = nullptr, *captured = nullptr, *object = nullptr, *executable = nullptr;
  REQUIRE(cudaGraphCreate(&graph, 0) == cudaSuccess);
  int destroyed = 0;
  const auto count = [](void* number) { ++*static_cast<int*>(number); };
  REQUIRE(cudaUserObjectCreate(&object, &destroyed, count, 1, 1) == cudaSuccess);
  constexpr unsigned kMove = 1;  // cudaGraphUserObjectMove
  CHECK(cudaGraphRetainUserObject(graph, object, 1, kMove) == cudaSuccess);
  REQUIRE(cudaStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0, 0) == cudaSuccess);
  launch(stream);
  CHECK(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported);
  CHECK(cudaStreamEndCapture(stream, &captured) == cudaErrorStreamCaptureInvalidated);
  CHECK(captured == nullptr);
  CHECK(destroyed == 0);
  REQUIRE(cudaStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0, 0) == cudaSuccess);
  CHECK(cudaStreamEndCapture(stream, &captured) == cudaSuccess);
  CHECK(captured == graph);
  REQUIRE(cudaGraphInstantiateWithFlags(&executable, graph, 0) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(destroyed == 0);  // the executable holds it, too
  CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);
  CHECK(destroyed == 1);
  cudaStreamDestroy(stream);
  cudaGetLastError();
}

TEST_CASE("shadow: streams answer for themselves") {
  void* stream = nullptr;
  REQUIRE(cudaStreamCreateWithPriority(&stream, kNonBlocking, -100) == cudaSuccess);
  int priority = 0;
  CHECK(cudaStreamGetPriority(stream, &priority) == cudaSuccess);
  CHECK(priority == -5);  // "clamped to the nearest" of cudaDeviceGetStreamPriorityRange
  CHECK(cudaStreamGetPriority(stream, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaStreamQuery(stream) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  CHECK(cudaStreamQuery(stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamSynchronize(stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaThreadExchangeStreamCaptureMode(nullptr) == cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("shadow: a capture elsewhere does not keep a stream busy") {
  void *captured = new_stream(), *other = new_stream(), *graph = nullptr;
  REQUIRE(cudaStreamBeginCapture(captured, 0) == cudaSuccess);
  launch(other);
  CHECK(cudaStreamQuery(other) == cudaSuccess);
  CHECK(cudaStreamEndCapture(captured, &graph) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  cudaStreamDestroy(captured);
  cudaStreamDestroy(other);
}

TEST_CASE("shadow: time between events") {
  void *start = new_event(0), *end = new_event(0), *untimed = new_event();
  float milliseconds = -1;
  CHECK(cudaEventElapsedTime(&milliseconds, start, end) == cudaErrorInvalidResourceHandle);  // never recorded
  cudaEventRecord(start, nullptr);
  launch(nullptr);
  cudaEventRecord(end, nullptr);
  cudaEventRecord(untimed, nullptr);
  CHECK(cudaEventElapsedTime(&milliseconds, start, end) == cudaSuccess);
  CHECK(milliseconds > 0);
  CHECK(cudaEventElapsedTime(&milliseconds, start, untimed) == cudaErrorInvalidResourceHandle);
  {
    const Lag lag;
    cudaEventRecord(end, nullptr);
    CHECK(cudaEventElapsedTime(&milliseconds, start, end) == cudaErrorNotReady);
    CHECK(cudaEventSynchronize(end) == cudaSuccess);
    CHECK(cudaEventElapsedTime(&milliseconds, start, end) == cudaSuccess);
  }
  for (void* event : {start, end, untimed}) cudaEventDestroy(event);
}

TEST_CASE("shadow: with events_lag an event completes once the host has waited") {
  const Lag lag;
  void *one = new_stream(), *two = new_stream(), *event = new_event(), *joined = new_event();
  CHECK(cudaEventQuery(event) == cudaSuccess);  // never recorded
  launch(one);
  cudaEventRecord(event, one);
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  cudaStreamWaitEvent(two, event, 0);
  cudaEventRecord(joined, two);
  CHECK(cudaEventQuery(joined) == cudaErrorNotReady);
  CHECK(cudaStreamSynchronize(two) == cudaSuccess);  // which waits for what the stream waits for
  CHECK(cudaEventQuery(joined) == cudaSuccess);
  CHECK(cudaEventQuery(event) == cudaSuccess);
  for (void* e : {event, joined}) cudaEventDestroy(e);
  for (void* stream : {one, two}) cudaStreamDestroy(stream);
}

TEST_CASE("shadow: with events_lag, what was enqueued before a wait does not wait") {
  const Lag lag;
  void *one = new_stream(), *two = new_stream(), *early = new_event(), *late = new_event();
  cudaEventRecord(early, two);
  launch(one);
  cudaEventRecord(late, one);
  cudaStreamWaitEvent(two, late, 0);
  CHECK(cudaEventSynchronize(early) == cudaSuccess);
  CHECK(cudaEventQuery(late) == cudaErrorNotReady);
  CHECK(cudaStreamQuery(two) == cudaErrorNotReady);
  CHECK(cudaStreamSynchronize(two) == cudaSuccess);
  CHECK(cudaEventQuery(late) == cudaSuccess);
  for (void* event : {early, late}) cudaEventDestroy(event);
  for (void* stream : {one, two}) cudaStreamDestroy(stream);
}

TEST_CASE("shadow: with events_lag, a program that waits by asking goes on") {
  const Lag lag;
  void *stream = new_stream(), *before = new_event(), *event = new_event();
  launch(stream);
  cudaEventRecord(before, stream);
  cudaEventRecord(event, stream);
  int asked = 1;
  while (cudaEventQuery(event) == cudaErrorNotReady && asked < 100'000) ++asked;
  CHECK(asked == 4096);                                // the same on every run
  CHECK(cudaEventQuery(before) == cudaErrorNotReady);  // nobody asked for it
  cudaEventRecord(event, stream);
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);  // another recording
  // As an allocator asks, that goes on with its work.
  for (int i = 0; i < 5'000; ++i) {
    REQUIRE(cudaEventQuery(event) == cudaErrorNotReady);
    launch(stream);
  }
  // As a watchdog asks.
  asked = 1;
  while (cudaEventQuery(event) == cudaErrorNotReady && asked < 100) {
    std::this_thread::sleep_for(std::chrono::milliseconds(11));
    ++asked;
  }
  CHECK(asked == 9);
  launch(stream);
  asked = 1;
  while (cudaStreamQuery(stream) == cudaErrorNotReady && asked < 100'000) ++asked;
  CHECK(asked == 4096);
  CHECK(cudaEventQuery(before) == cudaSuccess);  // the stream is done with everything
  for (void* e : {before, event}) cudaEventDestroy(e);
  cudaStreamDestroy(stream);
}

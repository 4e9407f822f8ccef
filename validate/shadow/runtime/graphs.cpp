// CUDA graphs: a capture turns work into nodes, a replay counts their launches and does nothing else.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "validate/shadow/runtime/runtime.h"
#include "validate/shadow/runtime/streams.h"

namespace gpuplan::shadow {

struct Node {
  std::int64_t launches = 0;
  Node* after = nullptr;
  std::vector<std::uintptr_t> touched;  // addresses that it can write at
};

struct UserObject {
  void* object = nullptr;
  cudaHostFn_t destroy = nullptr;
  std::atomic<std::int64_t> references{0};
};

struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
  std::map<UserObject*, unsigned> retained;
};

struct GraphExec {
  std::int64_t launches = 0;
  std::vector<std::uintptr_t> touched;
  std::map<UserObject*, unsigned> retained;
};

namespace {

void release(UserObject* object, unsigned count) {
  if (object->references.fetch_sub(count) > count) return;
  object->destroy(object->object);
  delete object;
}

void destroy(Graph* graph) {
  for (const auto& [object, count] : graph->retained) release(object, count);
  delete graph;
}

void leave(Graph*) {}

// With stream_mutex() held: its streams are captured no longer.
void end(const Capture& capture) {
  for (Stream* const joined : capture.streams) {
    joined->capture.reset();
    joined->last_node = nullptr;
  }
  capture_ended();
}

std::int64_t launches_of(const Graph& graph) {
  std::int64_t launches = 0;
  for (const auto& node : graph.nodes) launches += node->launches;
  return launches;
}

std::vector<std::uintptr_t> touched_by(const Graph& graph) {
  std::set<std::uintptr_t> touched;
  for (const auto& node : graph.nodes) touched.insert(node->touched.begin(), node->touched.end());
  return {touched.begin(), touched.end()};
}

cudaError_t begin_capture(Stream* handle, Graph* graph) {
  static std::atomic<std::uint64_t> next_id{1};
  const std::lock_guard lock(stream_mutex());
  if (reinterpret_cast<std::uintptr_t>(handle) <= 1) return fail(cudaErrorStreamCaptureUnsupported);
  const std::shared_ptr<Stream> stream = stream_of(handle);
  if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle);
  if (stream->capture != nullptr) return fail(cudaErrorIllegalState);
  stream->capture = std::make_shared<Capture>();
  stream->capture->id = next_id++;
  stream->capture->graph = {graph != nullptr ? graph : new Graph, graph != nullptr ? leave : destroy};
  stream->capture->origin = stream.get();
  stream->capture->streams.push_back(stream.get());
  stream->last_node = nullptr;
  capture_began();
  return cudaSuccess;
}

cudaStreamCaptureStatus status_of(const Stream& stream) {
  if (stream.capture == nullptr) return cudaStreamCaptureStatusNone;
  return stream.capture->invalidated ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
}

cudaError_t capture_info(Stream* handle, cudaStreamCaptureStatus* status, unsigned long long* id, Graph** graph,
                         Node* const** dependencies, std::size_t* count) {
  if (status == nullptr) return fail(cudaErrorInvalidValue);
  const std::lock_guard lock(stream_mutex());
  const std::shared_ptr<Stream> stream = stream_of(handle);
  if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle);
  *status = status_of(*stream);
  if (*status != cudaStreamCaptureStatusActive) return cudaSuccess;
  if (id != nullptr) *id = stream->capture->id;
  if (graph != nullptr) *graph = stream->capture->graph.get();
  if (dependencies != nullptr) *dependencies = &stream->last_node;
  if (count != nullptr) *count = stream->last_node != nullptr ? 1 : 0;
  return cudaSuccess;
}

cudaError_t instantiate(GraphExec** executable, Graph* graph) {
  if (executable == nullptr || graph == nullptr) return fail(cudaErrorInvalidValue);
  *executable = new GraphExec{launches_of(*graph), touched_by(*graph), graph->retained};
  for (const auto& [object, count] : graph->retained) object->references += count;
  return cudaSuccess;
}

}  // namespace

Node* add_node(Graph& graph, std::int64_t launches, Node* after, std::span<const std::uintptr_t> touched) {
  graph.nodes.push_back(std::make_unique<Node>(Node{launches, after, {touched.begin(), touched.end()}}));
  return graph.nodes.back().get();
}

std::shared_ptr<Capture> leave_capture(Stream& stream) {
  std::shared_ptr<Capture> capture = stream.capture;
  capture->invalidated = true;
  if (capture->origin == &stream) {
    end(*capture);
  } else {
    std::erase(capture->streams, &stream);
    stream.capture.reset();
  }
  return capture;
}

SHADOW_API cudaError_t cudaStreamBeginCapture(Stream* stream, int) { return begin_capture(stream, nullptr); }
SHADOW_API cudaError_t cudaStreamBeginCaptureToGraph(Stream* stream, Graph* graph, const void*, const void*,
                                                     std::size_t, int) {
  return graph != nullptr ? begin_capture(stream, graph) : fail(cudaErrorInvalidValue);
}

SHADOW_API cudaError_t cudaStreamEndCapture(Stream* handle, Graph** graph) {
  if (graph != nullptr) *graph = nullptr;
  std::shared_ptr<Capture> capture;  // let go of once the lock is, with the graph of a capture that failed
  const std::lock_guard lock(stream_mutex());
  const std::shared_ptr<Stream> stream = stream_of(handle);
  if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle);
  capture = stream->capture;
  if (capture == nullptr) return fail(cudaErrorIllegalState);
  end(*capture);
  if (capture->origin != stream.get()) return fail(cudaErrorStreamCaptureUnmatched);
  if (capture->invalidated) return fail(cudaErrorStreamCaptureInvalidated);
  Graph* const captured = capture->graph.release();
  if (graph != nullptr) *graph = captured;
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaStreamIsCapturing(Stream* handle, cudaStreamCaptureStatus* status) {
  if (status == nullptr) return fail(cudaErrorInvalidValue);
  if (captures_under_way() == 0) {
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
  }
  return capture_info(handle, status, nullptr, nullptr, nullptr, nullptr);
}

SHADOW_API cudaError_t cudaStreamGetCaptureInfo_v2(Stream* handle, cudaStreamCaptureStatus* status,
                                                   unsigned long long* id, Graph** graph, Node* const** dependencies,
                                                   std::size_t* count) {
  return capture_info(handle, status, id, graph, dependencies, count);
}

// 12.3 added it with edges as _v3; 13 gave it the plain name.
SHADOW_API cudaError_t cudaStreamGetCaptureInfo_v3(Stream* handle, cudaStreamCaptureStatus* status,
                                                   unsigned long long* id, Graph** graph, Node* const** dependencies,
                                                   const void** edges, std::size_t* count) {
  if (edges != nullptr) *edges = nullptr;
  return capture_info(handle, status, id, graph, dependencies, count);
}
SHADOW_API cudaError_t cudaStreamGetCaptureInfo(Stream* handle, cudaStreamCaptureStatus* status, unsigned long long* id,
                                                Graph** graph, Node* const** dependencies, const void** edges,
                                                std::size_t* count) {
  return cudaStreamGetCaptureInfo_v3(handle, status, id, graph, dependencies, edges, count);
}

// The order of nodes has no effect here. 12 and 13 differ in arguments that are not looked at.
SHADOW_API cudaError_t cudaStreamUpdateCaptureDependencies(Stream*) { return cudaSuccess; }
SHADOW_API cudaError_t cudaStreamUpdateCaptureDependencies_v2(Stream*) { return cudaSuccess; }

SHADOW_API cudaError_t cudaThreadExchangeStreamCaptureMode(int* mode) {
  thread_local int current = 0;  // cudaStreamCaptureModeGlobal
  if (mode == nullptr || *mode < 0 || *mode > 2) return fail(cudaErrorInvalidValue);
  std::swap(*mode, current);
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaGraphCreate(Graph** graph, unsigned) {
  if (graph == nullptr) return fail(cudaErrorInvalidValue);
  *graph = new Graph;
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaGraphDestroy(Graph* graph) {
  if (graph == nullptr) return fail(cudaErrorInvalidValue);
  destroy(graph);
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaGraphGetNodes(Graph* graph, Node** nodes, std::size_t* count) {
  if (graph == nullptr || count == nullptr) return fail(cudaErrorInvalidValue);
  if (nodes != nullptr) {
    const std::size_t wanted = std::min(*count, graph->nodes.size());
    for (std::size_t i = 0; i < wanted; ++i) nodes[i] = graph->nodes[i].get();
  }
  *count = graph->nodes.size();
  return cudaSuccess;
}

// cudaGraphNodeType: 0 is a kernel, 5 an empty node. Copies are recorded as empty ones.
SHADOW_API cudaError_t cudaGraphNodeGetType(Node* node, int* type) {
  if (node == nullptr || type == nullptr) return fail(cudaErrorInvalidValue);
  *type = node->launches > 0 ? 0 : 5;
  return cudaSuccess;
}

// 12: (node, dependencies, count); 13: (node, dependencies, edges, count).
SHADOW_API cudaError_t cudaGraphNodeGetDependencies(Node* node, Node** dependencies, std::size_t* third,
                                                    std::size_t* fourth) {
  std::size_t* const count = toolkit_version() >= 13000 ? fourth : third;
  if (node == nullptr || count == nullptr) return fail(cudaErrorInvalidValue);
  if (dependencies != nullptr && *count > 0 && node->after != nullptr) *dependencies = node->after;
  *count = node->after != nullptr ? 1 : 0;
  return cudaSuccess;
}

// Of the arguments only the first two stand in the same place in 12 and 13. The node counts as one launch.
SHADOW_API cudaError_t cudaGraphAddNode(Node** node, Graph* graph) {
  if (node == nullptr || graph == nullptr) return fail(cudaErrorInvalidValue);
  *node = add_node(*graph, 1, nullptr);
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaGraphConditionalHandleCreate(void*, Graph*, unsigned, unsigned) {
  return fail(cudaErrorNotSupported);  // which branch runs depends on data
}

SHADOW_API cudaError_t cudaGraphInstantiate(GraphExec** executable, Graph* graph, unsigned long long) {
  return instantiate(executable, graph);
}
SHADOW_API cudaError_t cudaGraphInstantiateWithFlags(GraphExec** executable, Graph* graph, unsigned long long) {
  return instantiate(executable, graph);
}

SHADOW_API cudaError_t cudaGraphLaunch(GraphExec* executable, Stream* stream) {
  if (executable == nullptr) return fail(cudaErrorInvalidValue);
  enqueue(stream, executable->launches, executable->touched);
  return cudaSuccess;
}
SHADOW_API cudaError_t cudaGraphUpload(GraphExec*, Stream*) { return cudaSuccess; }

SHADOW_API cudaError_t cudaGraphExecDestroy(GraphExec* executable) {
  if (executable == nullptr) return fail(cudaErrorInvalidValue);
  for (const auto& [object, count] : executable->retained) release(object, count);
  delete executable;
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaGraphDebugDotPrint(Graph* graph, const char* path, unsigned) {
  if (graph == nullptr || path == nullptr) return fail(cudaErrorInvalidValue);
  std::FILE* const file = std::fopen(path, "we");
  if (file == nullptr) return fail(cudaErrorInvalidValue);
  std::fputs("digraph shadow {\n", file);
  for (std::size_t i = 0; i < graph->nodes.size(); ++i) {
    std::fprintf(file, "  n%zu [label=\"%lld launches\"];\n", i, static_cast<long long>(graph->nodes[i]->launches));
  }
  std::fputs("}\n", file);
  std::fclose(file);
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaUserObjectCreate(UserObject** created, void* object, cudaHostFn_t destroy,
                                            unsigned references, unsigned) {
  if (created == nullptr || destroy == nullptr || references == 0) return fail(cudaErrorInvalidValue);
  *created = new UserObject{object, destroy, {references}};
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaUserObjectRetain(UserObject* object, unsigned count) {
  if (object == nullptr || count == 0) return fail(cudaErrorInvalidValue);
  object->references += count;
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaUserObjectRelease(UserObject* object, unsigned count) {
  if (object == nullptr || count == 0) return fail(cudaErrorInvalidValue);
  release(object, count);
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaGraphRetainUserObject(Graph* graph, UserObject* object, unsigned count, unsigned flags) {
  constexpr unsigned kMove = 1;  // cudaGraphUserObjectMove: the caller's references become the graph's
  if (graph == nullptr || object == nullptr || count == 0) return fail(cudaErrorInvalidValue);
  if (flags != kMove) object->references += count;
  graph->retained[object] += count;
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaGraphReleaseUserObject(Graph* graph, UserObject* object, unsigned count) {
  const auto held = graph != nullptr ? graph->retained.find(object) : decltype(graph->retained.find(object)){};
  if (graph == nullptr || held == graph->retained.end() || held->second < count) return fail(cudaErrorInvalidValue);
  held->second -= count;
  if (held->second == 0) graph->retained.erase(held);
  release(object, count);
  return cudaSuccess;
}

}  // namespace gpuplan::shadow

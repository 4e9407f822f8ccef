// A convolution's workspace, asked by way of the graph API (cudnn_graph.cpp), which knows how to ask without a GPU.
#include <cstdint>
#include <vector>

#include "validate/shadow/runtime/cudnn_convolution.h"

extern "C" {
int cudnnBackendCreateDescriptor(int type, void** descriptor);
int cudnnBackendDestroyDescriptor(void* descriptor);
int cudnnBackendSetAttribute(void* descriptor, int attribute, int type, std::int64_t count, const void* values);
int cudnnBackendFinalize(void* descriptor);
int cudnnBackendGetAttribute(void* descriptor, int attribute, int type, std::int64_t wanted, std::int64_t* count,
                             void* values);
}

namespace gpuplan::shadow::cudnn {
namespace {

// cudnnBackendAttributeType_t
constexpr int kDataType = 1, kBoolean = 2, kInt64 = 3, kFloat = 4, kMode = 7, kHeuristicsMode = 8, kDescriptor = 15;
// cudnnBackendDescriptorType_t
constexpr int kConvolutionDescriptor = 1, kConfigurationDescriptor = 3, kHeuristicsDescriptor = 4,
              kGraphDescriptor = 15, kTensorDescriptor = 17;

/// Descriptors in the making; the first refusal ends it.
class Question {
 public:
  Question() = default;
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;
  ~Question() {
    for (auto i = made_.rbegin(); i != made_.rend(); ++i) cudnnBackendDestroyDescriptor(*i);
  }

  void* make(int type) {
    void* descriptor = nullptr;
    check(cudnnBackendCreateDescriptor(type, &descriptor));
    if (descriptor != nullptr) made_.push_back(descriptor);
    return descriptor;
  }
  void set(void* descriptor, int attribute, int type, const void* values, std::int64_t count = 1) {
    if (good_) check(cudnnBackendSetAttribute(descriptor, attribute, type, count, values));
  }
  void finish(void* descriptor) {
    if (good_) check(cudnnBackendFinalize(descriptor));
  }
  void check(int status) { good_ = good_ && status == kSuccess; }
  bool good() const { return good_; }

 private:
  std::vector<void*> made_;
  bool good_ = true;
};

void* ask_tensor(Question& q, const Tensor& tensor, std::int64_t id) {
  const std::vector<std::int64_t> dimensions(tensor.dimensions.begin(), tensor.dimensions.begin() + tensor.rank);
  const std::vector<std::int64_t> strides(tensor.strides.begin(), tensor.strides.begin() + tensor.rank);
  constexpr std::int64_t kAlignment = 16;  // bytes
  constexpr bool kIsVirtual = false;
  void* const d = q.make(kTensorDescriptor);
  q.set(d, 901, kDataType, &tensor.type);
  q.set(d, 902, kInt64, dimensions.data(), tensor.rank);
  q.set(d, 903, kInt64, strides.data(), tensor.rank);
  q.set(d, 906, kInt64, &id);
  q.set(d, 900, kInt64, &kAlignment);
  q.set(d, 907, kBoolean, &kIsVirtual);
  q.finish(d);
  return d;
}

void* ask_convolution(Question& q, const Convolution& c) {
  const std::int64_t spatial = c.spatial;
  const std::vector<std::int64_t> padding(c.padding.begin(), c.padding.begin() + c.spatial);
  const std::vector<std::int64_t> stride(c.stride.begin(), c.stride.begin() + c.spatial);
  const std::vector<std::int64_t> dilation(c.dilation.begin(), c.dilation.begin() + c.spatial);
  void* const d = q.make(kConvolutionDescriptor);
  q.set(d, 100, kDataType, &c.type);
  q.set(d, 101, kMode, &c.mode);
  q.set(d, 106, kInt64, &spatial);
  q.set(d, 105, kInt64, padding.data(), spatial);
  q.set(d, 104, kInt64, padding.data(), spatial);
  q.set(d, 102, kInt64, dilation.data(), spatial);
  q.set(d, 103, kInt64, stride.data(), spatial);
  q.finish(d);
  return d;
}

// CUDNN_ATTR_OPERATION_CONVOLUTION_*, in cudnnBackendAttributeName_t's order.
struct Names {
  int operation, alpha, beta, convolution, w, x, y;
};

Names names_of(Pass pass) {
  switch (pass) {
    case Pass::forward: return {10, 700, 701, 702, 703, 704, 705};
    case Pass::backward_data: return {12, 706, 707, 708, 709, 710, 711};
    case Pass::backward_filter: return {11, 712, 713, 714, 715, 716, 717};
  }
  return {};
}

void* ask_graph(Question& q, Pass pass, void* x, void* w, void* convolution, void* y) {
  const Names n = names_of(pass);
  constexpr float kAlpha = 1, kBeta = 0;
  void* const operation = q.make(n.operation);
  q.set(operation, n.convolution, kDescriptor, &convolution);
  q.set(operation, n.x, kDescriptor, &x);
  q.set(operation, n.w, kDescriptor, &w);
  q.set(operation, n.y, kDescriptor, &y);
  q.set(operation, n.alpha, kFloat, &kAlpha);
  q.set(operation, n.beta, kFloat, &kBeta);
  q.finish(operation);
  void* const graph = q.make(kGraphDescriptor);
  q.set(graph, 801, kDescriptor, &operation);
  q.finish(graph);
  return graph;
}

}  // namespace

std::int64_t convolution_workspace(Pass pass, const Tensor& x, const Filter& w, const Convolution& convolution,
                                   const Tensor& y) {
  Tensor filter{.type = w.type, .rank = w.rank, .dimensions = w.dimensions};
  pack(filter, w.format);
  Question q;
  void* const asked_x = ask_tensor(q, x, 'x');
  void* const asked_w = ask_tensor(q, filter, 'w');
  void* const asked_y = ask_tensor(q, y, 'y');
  void* const graph = ask_graph(q, pass, asked_x, asked_w, ask_convolution(q, convolution), asked_y);
  constexpr int kInstant = 0;
  void* const heuristics = q.make(kHeuristicsDescriptor);
  q.set(heuristics, 201, kDescriptor, &graph);
  q.set(heuristics, 200, kHeuristicsMode, &kInstant);
  q.finish(heuristics);
  std::vector<void*> found(32);
  for (void*& configuration : found) configuration = q.make(kConfigurationDescriptor);
  std::int64_t count = 0;
  if (q.good()) {
    q.check(cudnnBackendGetAttribute(heuristics, 202, kDescriptor, static_cast<std::int64_t>(found.size()), &count,
                                     found.data()));
  }
  for (std::size_t i = 0; q.good() && i < found.size() && static_cast<std::int64_t>(i) < count; ++i) {
    std::int64_t one = 0, bytes = 0;
    if (cudnnBackendGetAttribute(found[i], 303, kInt64, 1, &one, &bytes) == kSuccess) return bytes;
  }
  return 0;
}

}  // namespace gpuplan::shadow::cudnn

#include "estimator/distributed/partitioned_construction.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kMasterBytes = 4;

class ConstructionWriter {
 public:
  ConstructionWriter(const Graph& graph, const std::vector<PartitionedPart>& parts, const Strategy& strategy,
                     std::int64_t size, CollectiveWriter& writer)
      : graph_(graph), parts_(parts), strategy_(strategy), size_(size), writer_(writer), flat_(writer.new_slot()) {}

  void write() {
    if (strategy_.made_partitioned) cut_while_made();
    const Range events = writer_.written([&] {
      if (!strategy_.made_partitioned)
        for (const ParameterTensor& p : graph_.parameters) cut(p);
      make_engine();
    });
    point(graph_.model_storage.size(), events);
  }

 private:
  void point(std::size_t made, Range events) {
    writer_.memory().construction.push_back({Phase::start, static_cast<std::int32_t>(made), events});
  }

  void make_engine() {
    if (!strategy_.offloads) keep(1, Category::buffers);  // inf_or_nan_tracker
    keep(4, Category::buffers);                           // _dummy_overflow_buf
    if (!strategy_.offloads_parameters) {                 // defragment()
      for (const std::int32_t slot : cut_) writer_.free(slot);
      writer_.empty_cache();
      keep(flat_bytes(), Category::parameters);
    }
    if (!strategy_.offloads) make_masters();
    keep(strategy_.reduce_bucket_elements * size_, Category::gradients);
    if (!strategy_.offloads) keep(all_elements() * size_, Category::gradients);
    gather_each();
  }

  void keep(std::int64_t bytes, Category category) { writer_.allocate(writer_.new_slot(), bytes, category); }

  void cut(const ParameterTensor& p) {
    const Tensor& t = graph_.tensor(p.tensor);
    if (!strategy_.offloads_parameters) {
      const std::int32_t slot = writer_.new_slot();
      writer_.allocate(slot, partition_elements(t.shape, strategy_.ranks()) * size_of(t.dtype), Category::parameters);
      if (p.trainable) cut_.push_back(slot);
    }
    writer_.free_buffer(t.buffer);
  }

  // Of fp32, which peft has made beside a half-precision model.
  bool is_adapter(const ParameterTensor& p) const { return size_of(graph_.tensor(p.tensor).dtype) != size_; }

  // zero.Init() makes each tensor of a constructor as it is asked for and converts it, and cuts the parameters of a
  // module when its constructor is done (partition_parameters.py, zero_wrapper_for_fp_tensor_constructor,
  // _post_init_method).
  void cut_while_made() {
    std::unordered_map<TensorId, const ParameterTensor*> parameters;
    for (const ParameterTensor& p : graph_.parameters) parameters[p.tensor] = &p;
    std::vector<const ParameterTensor*> module, adapters;  // these are there whole until the engine cuts them
    const auto end_module = [&] {
      for (const ParameterTensor* p : module) cut(*p);
      module.clear();
    };
    for (std::size_t i = 0; i < graph_.model_storage.size(); ++i) {
      const auto found = parameters.find(graph_.model_storage[i]);
      const ParameterTensor* const p = found == parameters.end() ? nullptr : found->second;
      const std::int32_t layer = p == nullptr ? kNone : p->layer;
      point(i, writer_.written([&] {
        writer_.free(flat_);
        if (!module.empty() && module.back()->layer != layer) end_module();
        if (p != nullptr && !is_adapter(*p))
          writer_.allocate(flat_, graph_.tensor(p->tensor).shape.elements() * kMasterBytes, Category::parameters);
      }));
      if (p != nullptr) (is_adapter(*p) ? adapters : module).push_back(p);
    }
    point(graph_.model_storage.size(), writer_.written([&] {
      writer_.free(flat_);
      end_module();
      for (const ParameterTensor* p : adapters) cut(*p);
    }));
  }

  // _create_fp32_partitions() and initialize_optimizer_states(): each is converted, while the last one's name still
  // holds it, and cloned; then a gradient of zeros.
  void make_masters() {
    std::int64_t largest = 0;
    std::int32_t last = kNone;
    const bool converts = flat_bytes() != all_elements() * kMasterBytes;
    for (const PartitionedPart& part : parts_) {
      const std::int64_t bytes = part.elements() * kMasterBytes;
      largest = std::max(largest, bytes);
      const std::int32_t converted = writer_.new_slot();
      if (converts) writer_.allocate(converted, bytes, Category::optimizer_state);
      if (last != kNone) writer_.free(last);
      last = converted;
      keep(bytes, Category::optimizer_state);
    }
    if (last != kNone) writer_.free(last);
    writer_.allocate(flat_, largest, Category::gradients);
    writer_.free(flat_);
  }

  // create_reduce_and_remove_grad_hooks()
  void gather_each() {
    const std::int32_t there = writer_.new_slot();
    for (const ParameterTensor& p : graph_.parameters) {
      const Tensor& t = graph_.tensor(p.tensor);
      if (!p.trainable) continue;
      const std::int64_t bytes = partition_elements(t.shape, strategy_.ranks()) * size_of(t.dtype);
      writer_.allocate(flat_, bytes * strategy_.ranks(), Category::parameters);
      if (strategy_.offloads_parameters) writer_.allocate(there, bytes, Category::parameters);
      writer_.free(there);
      writer_.free(flat_);
    }
  }

  // Adapters of a model that zero.Init has made are of fp32.
  std::int64_t flat_bytes() const {
    std::int64_t bytes = 0;
    for (const ParameterTensor& p : graph_.parameters) {
      const Tensor& t = graph_.tensor(p.tensor);
      if (p.trainable) bytes += partition_elements(t.shape, strategy_.ranks()) * size_of(t.dtype);
    }
    return bytes;
  }

  std::int64_t all_elements() const {
    std::int64_t all = 0;
    for (const PartitionedPart& part : parts_) all += part.elements();
    return all;
  }

  const Graph& graph_;
  const std::vector<PartitionedPart>& parts_;
  const Strategy& strategy_;
  std::int64_t size_;
  CollectiveWriter& writer_;
  std::int32_t flat_;              // slot
  std::vector<std::int32_t> cut_;  // slots of partitions, until they lie together
};

}  // namespace

std::int64_t partition_elements(const Shape& shape, std::int64_t ranks) {
  return shape.elements() / ranks + (shape.elements() % ranks == 0 ? 0 : 1);
}

std::int64_t PartitionedPart::elements() const {
  return std::accumulate(each.begin(), each.end(), std::int64_t{0}, checked_add);
}

std::vector<PartitionedPart> partitioned_parts(const Graph& graph, const Strategy& strategy) {
  std::vector<PartitionedPart> parts;
  bool full = true;
  for (const ParameterTensor& p : graph.parameters) {
    if (!p.trainable) continue;
    if (full) parts.emplace_back();
    parts.back().each.push_back(partition_elements(graph.tensor(p.tensor).shape, strategy.ranks()));
    full = parts.back().elements() >= strategy.partition.part_elements;
  }
  return parts;
}

void write_partitioned_construction(const Graph& graph, const std::vector<PartitionedPart>& parts,
                                    const Strategy& strategy, std::int64_t size, CollectiveWriter& writer) {
  ConstructionWriter(graph, parts, strategy, size, writer).write();
}

}  // namespace gpuplan

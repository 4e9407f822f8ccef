#include "estimator/graph/loaded_construction.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "estimator/base/integers.h"
#include "estimator/base/list_text.h"
#include "estimator/graph/weight_format.h"
#include "estimator/operators/scratch_program.h"

namespace gpuplan {
namespace {

// A name's parts in the order that transformers sorts them in: numbers before words (dot_natural_key).
struct NamePart {
  int kind = 0;  // 0 a number, 1 a word
  std::string_view word;
  std::int64_t number = -1;
  auto operator<=>(const NamePart&) const = default;
};

std::vector<NamePart> natural_order(std::string_view name) {
  std::vector<NamePart> parts;
  for (const std::string_view part : split(name, '.')) {
    const std::size_t digits = part.find_last_not_of("0123456789") + 1;
    const std::string_view number = part.substr(std::min(digits, part.size()));
    const std::int64_t value = number.empty() || number.size() > 18 ? -1 : std::stoll(std::string(number));
    if (digits == 0 && value >= 0)
      parts.push_back({0, {}, value});
    else
      parts.push_back({1, part.substr(0, digits), value});
  }
  return parts;
}

class Loading {
 public:
  Loading(Graph& graph, const RunConfig& run, const Gpu& gpu) : graph_(graph), run_(run), gpu_(gpu) {
    for (const BufferTensor& b : graph.named_buffers) buffers_of_[b.layer].push_back(&b);
    is_adapter_.resize(graph.tensors.size(), 0);
    for (const auto* added : {&graph.adapters, &graph.saved_modules})
      for (const TensorId t : *added) is_adapter_[index(t)] = 1;
  }

  void write() {
    warm_up();
    for (const ParameterTensor* p : in_checkpoint()) load(*p);
    place_buffers();
    if (casts()) cast_to_fp32();
    add_adapters();
    for (const TensorId t : graph_.saved_modules) make(t);
    // What is neither a parameter nor a buffer is made by the first step, where it is read.
    for (const TensorId t : graph_.model_storage)
      if (is_constant(graph_, t)) make(t);
    graph_.model_storage = std::move(storage_);
    graph_.adapters.clear();
    graph_.saved_modules.clear();
  }

 private:
  bool casts() const { return loaded_type(run_) != run_.precision; }
  std::int64_t loaded_bytes(TensorId t) const { return graph_.tensor(t).shape.elements() * size_of(loaded_type(run_)); }
  // Conv1D's weight is transposed (Params4bit._quantize, Int8Params._quantize).
  std::int64_t made_contiguous(const ParameterTensor& p) {
    return graph_.layers[index(p.layer)].type == "Conv1D" ? allocate(loaded_bytes(p.tensor)) : -1;
  }
  bool is_stored(const ParameterTensor& p) const {
    const Buffer& buffer = graph_.buffers[index(graph_.tensor(p.tensor).buffer)];
    return buffer.bytes < graph_.tensor(p.tensor).shape.elements() * size_of(graph_.tensor(p.tensor).dtype);
  }

  // caching_allocator_warmup: one allocation of about the model's size, which goes at once.
  void warm_up() {
    std::int64_t total = 0;
    for (const ParameterTensor& p : graph_.parameters) {
      if (is_adapter_[index(p.tensor)] != 0) continue;
      const std::int64_t elements = graph_.tensor(p.tensor).shape.elements();
      total = checked_add(total, is_stored(p) ? counted_bytes(run_.weights, elements) : loaded_bytes(p.tensor));
    }
    constexpr std::int64_t kLeftFree = 1'288'490'188;  // 1.2 GiB
    const std::int64_t memory = usable_bytes(gpu_);
    if (memory > 0) total = std::min(total, std::max<std::int64_t>(memory - kLeftFree, 0));
    free_after(allocate(total));
  }

  std::vector<const ParameterTensor*> in_checkpoint() const {
    std::vector<std::pair<std::string, const ParameterTensor*>> named;
    for (const ParameterTensor& p : graph_.parameters) {
      if (is_adapter_[index(p.tensor)] != 0) continue;
      std::string name = graph_.layers[index(p.layer)].name;
      if (!p.name.empty()) name += "." + std::string(p.name);
      named.emplace_back(std::move(name), &p);
    }
    std::ranges::stable_sort(named, {}, [](const auto& n) { return natural_order(n.first); });
    std::vector<const ParameterTensor*> in_order;
    for (const auto& [name, p] : named) in_order.push_back(p);
    return in_order;
  }

  void load(const ParameterTensor& p) {
    if (is_stored(p)) return is_bitsandbytes_4bit(run_.weights) ? quantize_4bit(p) : quantize_8bit(p);
    if (casts())
      loaded_.push_back({p.tensor, allocate(loaded_bytes(p.tensor))});
    else
      make(p.tensor);
  }

  TensorId part(const ParameterTensor& p, std::string_view name) {
    for (const BufferTensor* b : buffers_of_[p.layer])
      if (b->name == name) return b->tensor;
    return kNone;
  }

  // functional.py, quantize_4bit; get_4bit_type makes the 16 values and divides them by their largest.
  void quantize_4bit(const ParameterTensor& p) {
    const bool twice = quantizes_scales(run_.weights);
    const std::int64_t given = allocate(loaded_bytes(p.tensor));
    const std::int64_t contiguous = made_contiguous(p);
    const std::int64_t scales_bytes =
        ceil_div(graph_.tensor(p.tensor).shape.elements(), kBlockOf4bit) * size_of(DType::fp32);
    std::int64_t scales = 0;
    if (twice)
      scales = allocate(scales_bytes);
    else
      make(part(p, "weight.absmax"));
    make(p.tensor);
    make(part(p, "weight.quant_map"));
    const std::int64_t magnitudes = allocate(16 * size_of(DType::fp32)), largest = allocate(size_of(DType::fp32));
    free_after(magnitudes);
    free_after(largest);
    if (twice) {
      make(part(p, "weight.nested_offset"));
      const std::int64_t without_mean = allocate(scales_bytes);
      if (!std::exchange(has_dynamic_map_, true))
        allocate(256 * size_of(DType::fp32));  // functional.name2qmap, for good
      make(part(p, "weight.nested_absmax"));
      make(part(p, "weight.absmax"));
      make(part(p, "weight.nested_quant_map"));
      free_after(without_mean);
      free_after(scales);
    }
    free_after(contiguous);
    free_after(given);
  }

  // nn/modules.py, Int8Params._quantize
  void quantize_8bit(const ParameterTensor& p) {
    const std::int64_t given = allocate(loaded_bytes(p.tensor));
    const std::int64_t contiguous = made_contiguous(p);
    const std::int64_t half = allocate(graph_.tensor(p.tensor).shape.elements() * size_of(DType::fp16));
    free_after(contiguous);
    make(part(p, "SCB"));
    make(p.tensor);
    free_after(half);
    free_after(given);
  }

  void place_buffers() {
    std::vector<char> placed(graph_.tensors.size(), 0);
    for (const TensorId t : storage_) placed[index(t)] = 1;
    for (const BufferTensor& b : graph_.named_buffers)
      if (placed[index(b.tensor)] == 0) make(b.tensor);
  }

  // prepare_model_for_kbit_training: in the order of model.parameters(), then torch.cuda.empty_cache().
  void cast_to_fp32() {
    std::unordered_map<TensorId, std::int64_t> copies;
    for (const auto& [tensor, copy] : loaded_) copies.emplace(tensor, copy);
    for (const ParameterTensor& p : graph_.parameters) {
      const auto copy = copies.find(p.tensor);
      if (copy == copies.end()) continue;
      make(p.tensor);
      free_after(copy->second);
    }
    graph_.initialization.push_back(kEmptiesCache);
  }

  // Beside a module that has a compute type adapters are made in it, and cast to fp32 when all are there
  // (tuners_utils.py, _move_adapter_to_device_of_base_layer, cast_adapter_dtype).
  void add_adapters() {
    const DType type = run_.autocast.value_or(run_.precision);
    const bool cast = is_bitsandbytes_4bit(run_.weights) && size_of(type) < size_of(DType::fp32);
    std::vector<std::int64_t> half;
    for (const TensorId t : graph_.adapters) {
      if (cast)
        half.push_back(allocate(graph_.tensor(t).shape.elements() * size_of(type)));
      else
        make(t);
    }
    for (std::size_t i = 0; i < half.size(); ++i) {
      make(graph_.adapters[i]);
      free_after(half[i]);
    }
  }

  void make(TensorId t) {
    storage_.push_back(t);
    graph_.initialization.push_back(kResultAllocation);
  }
  std::int64_t allocate(std::int64_t bytes) {
    if (bytes <= 0) return -1;
    graph_.initialization.push_back(bytes);
    return allocated_++;
  }
  void free_after(std::int64_t allocation) {
    if (allocation >= 0) graph_.initialization.push_back(-allocation - 1);
  }

  Graph& graph_;
  const RunConfig& run_;
  const Gpu& gpu_;
  std::unordered_map<LayerId, std::vector<const BufferTensor*>> buffers_of_;
  std::vector<char> is_adapter_;
  std::vector<TensorId> storage_;
  std::vector<std::pair<TensorId, std::int64_t>> loaded_;  // in half precision, to be cast
  std::int64_t allocated_ = 0;
  bool has_dynamic_map_ = false;
};

}  // namespace

void construct_by_loading(Graph& graph, const RunConfig& run, const Gpu& gpu) {
  graph.initialization.clear();
  Loading(graph, run, gpu).write();
}

}  // namespace gpuplan

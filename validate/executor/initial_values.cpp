#include "validate/executor/initial_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "validate/executor/half.h"

namespace gpuplan {
namespace {

// splitmix64 (Steele, Lea, Flood 2014): a good mix of two numbers, the same everywhere.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

class Draw {
 public:
  Draw(std::uint64_t seed, TensorId tensor) : key_(mixed(seed ^ mixed(static_cast<std::uint64_t>(tensor)))) {}
  std::uint64_t bits(std::int64_t i) const { return mixed(key_ + static_cast<std::uint64_t>(i)); }
  /// Within [-1, 1).
  double real(std::int64_t i) const { return static_cast<double>(bits(i) >> 11) * 0x1p-52 - 1; }

 private:
  std::uint64_t key_;
};

template <class T>
void put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

void store(std::byte* to, DType dtype, double value) {
  switch (dtype) {
    case DType::fp32: return put(to, static_cast<float>(value));
    case DType::fp64: return put(to, value);
    case DType::fp16: return put(to, fp16_bits(value));
    case DType::bf16: return put(to, bf16_bits(value));
    case DType::int64: return put(to, static_cast<std::int64_t>(value));
    case DType::int32: return put(to, static_cast<std::int32_t>(value));
    case DType::uint8: return put(to, static_cast<std::uint8_t>(value));
    case DType::int8: return put(to, static_cast<std::int8_t>(value));
    case DType::boolean: return put(to, static_cast<std::uint8_t>(value != 0));
  }
}

// What an integer of this storage may be at most: it is looked up in a table or names a class.
std::int64_t below(const Schedule& schedule, const Calls& calls, BufferId input) {
  std::int64_t own = std::numeric_limits<std::int64_t>::max(), any = own;
  for (const KernelCall& c : calls.calls) {
    const Operator op = schedule.ops[static_cast<std::size_t>(c.step)].op;
    const auto reads = calls.at(c.reads);
    std::int64_t most = 0;
    if (op == Operator::embedding) most = reads[0].shape[0];
    if (op == Operator::nll_loss_forward || op == Operator::nll_loss2d_forward) most = reads[0].shape[1];
    if (most == 0) continue;
    any = std::min(any, most);
    if (reads[1].buffer == input) own = std::min(own, most);
  }
  return own != std::numeric_limits<std::int64_t>::max() ? own : any != own ? any : 2;
}

double weight_scale(const Tensor& t) {
  const std::int64_t fan_in = t.shape.rank() > 1 ? t.shape.elements(1, t.shape.rank()) : 1;
  return 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(fan_in, 1)));
}

// Of a recurrent layer's weights in one storage: by the features that its first matrix multiplies.
double flat_scale(const Graph& graph, const FlatWeights& flat) {
  return weight_scale(graph.tensor(graph.operands[static_cast<std::size_t>(flat.parts.begin)]));
}

}  // namespace

std::vector<std::byte> initial_values(const Graph& graph, const Schedule& schedule, const Calls& calls, TensorId tensor,
                                      std::uint64_t seed) {
  const Tensor& t = graph.tensor(tensor);
  const Buffer& storage = graph.buffers[static_cast<std::size_t>(t.buffer)];
  const std::int64_t each = size_of(t.dtype);
  // An input has the parts of all micro-batches.
  const std::int64_t n = storage.category == Category::inputs ? storage.bytes / each : t.shape.elements();
  // A storage of flat weights without biases has room for cuDNN's, which are zeros.
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::max(n * each, t.offset == 0 ? storage.bytes : 0)));
  const Draw draw(seed, tensor);
  const auto fill = [&](auto&& value) {
    for (std::int64_t i = 0; i < n; ++i) store(bytes.data() + i * each, t.dtype, value(i));
  };
  if (storage.category == Category::parameters) {
    const auto p = std::ranges::find(graph.parameters, tensor, &ParameterTensor::tensor);
    const bool bias = p != graph.parameters.end() && p->name.find("bias") != std::string_view::npos;
    const auto flat = std::ranges::find(graph.flat_weights, tensor, &FlatWeights::whole);
    if (flat != graph.flat_weights.end())
      fill([&, scale = flat_scale(graph, *flat)](std::int64_t i) { return scale * draw.real(i); });
    else if (t.shape.rank() > 1)
      fill([&, scale = weight_scale(t)](std::int64_t i) { return scale * draw.real(i); });
    else
      fill([&](std::int64_t i) { return (bias ? 0 : 1) + 0.1 * draw.real(i); });
  } else if (storage.category == Category::inputs) {
    if (is_floating(t.dtype)) {
      fill([&](std::int64_t i) { return draw.real(i); });
    } else {
      const auto most = static_cast<std::uint64_t>(below(schedule, calls, t.buffer));
      fill([&](std::int64_t i) { return static_cast<double>(draw.bits(i) % most); });
    }
  } else if (const auto found = std::ranges::find(graph.initial_values, tensor, &std::pair<TensorId, Initial>::first);
             found != graph.initial_values.end()) {
    const Initial initial = found->second;
    const std::int64_t last = t.shape.rank() > 0 ? t.shape[-1] : 1;
    fill([&](std::int64_t i) {
      const auto at = static_cast<double>(i % last);
      if (initial.kind == Initial::count) return at;
      if (initial.kind == Initial::frequencies) return std::pow(initial.value, -at / static_cast<double>(last));
      return initial.value;
    });
  }
  return bytes;
}

}  // namespace gpuplan

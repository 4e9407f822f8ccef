#include "estimator/graph/layer.h"

#include <algorithm>
#include <array>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"
#include "estimator/graph/layer_lowering.h"
#include "estimator/graph/model_builder.h"
#include "estimator/graph/weight_format.h"

namespace gpuplan {
namespace {

// An exbibyte. No device has it, and sums of a few sizes below it stay within 64 bits.
constexpr std::int64_t kMaxTensorBytes = std::int64_t{1} << 60;

// autocast's cached casts require a gradient under no_grad, too; in 2.8 they did not.
constexpr PyTorchVersion kCachedCastsWithGradient = 209;

std::int64_t tensor_bytes(const Shape& shape, DType dtype) {
  const std::int64_t bytes = checked_mul(shape.elements(), size_of(dtype));
  if (bytes > kMaxTensorBytes) throw Error("a tensor " + to_string(shape) + " takes more than 1 EiB of memory");
  return bytes;
}

// model.to(memory_format=channels_last) moves whatever has four dimensions, buffers too (nn.Module.to, convert).
void lay_out(Tensor& t, MemoryFormat format) {
  if (format != MemoryFormat::channels_last || t.shape.rank() != 4) return;
  t.strides = strides_in(format, t.shape);
  t.contiguous = is_contiguous(t.shape, t.strides);
}

}  // namespace

const LayerDef* find_layer(Catalog catalog, std::string_view name) {
  const auto it = std::ranges::lower_bound(catalog, name, {}, [](const LayerDef* d) { return d->name; });
  return it != catalog.end() && (*it)->name == name ? *it : nullptr;
}

// --- tensors ----------------------------------------------------------------------------------------------------

TensorId LayerBuilder::new_tensor(const Shape& shape, DType dtype, Category category) {
  graph_.buffers.push_back({tensor_bytes(shape, dtype), category, call_.layer});
  Tensor t;
  t.shape = shape;
  t.strides = contiguous_strides(shape);
  t.dtype = dtype;
  t.buffer = size_of_vector(graph_.buffers) - 1;
  graph_.tensors.push_back(t);
  return size_of_vector(graph_.tensors) - 1;
}

// A layer's parameters follow each other, in the order of its creation among the layers.
TensorId LayerBuilder::tied_parameter(std::string_view name, const Shape& shape) const {
  auto p = std::ranges::lower_bound(graph_.parameters, call_.tied, {}, &ParameterTensor::layer);
  for (; p != graph_.parameters.end() && p->layer == call_.tied; ++p) {
    if (p->name != name) continue;
    const Shape there = this->shape(p->tensor);
    if (!(there == shape))
      fail("its " + std::string(name) + " is " + to_string(shape) + ", but the one it is tied to is " +
           to_string(there));
    return p->tensor;
  }
  return kNone;
}

// peft's ModulesToSaveWrapper: a deep copy of the module's weight is trained, and the frozen one stays.
TensorId LayerBuilder::trained_copy(TensorId t, std::string_view name) {
  if (!call_.saved) return t;
  const TensorId copy = new_tensor(shape(t), dtype(t), Category::parameters);
  graph_.tensor(copy).strides = graph_.tensor(t).strides;
  graph_.tensor(copy).requires_grad = training();
  graph_.tensor(copy).trained = graph_.tensor(copy).of_trained = true;
  graph_.parameters.push_back({copy, name, call_.layer, true});
  graph_.saved_modules.push_back(copy);
  return copy;
}

TensorId LayerBuilder::parameter(std::string_view name, const Shape& shape, DType dtype) {
  if (call_.tied != kNone)
    if (const TensorId t = tied_parameter(name, shape); t != kNone) {
      // Another kind of module was constructed with a weight of its own, which the shared one then replaced; one of
      // the same kind is the same module, called again.
      if (graph_.layers[static_cast<std::size_t>(call_.tied)].type != call_.def->name)
        ModelBuilder(*this).replaced_parameter(shape, true);
      return trained_copy(t, name);
    }
  if (!call_.def->indices && !inputs_.empty() && !is_floating(this->dtype(inputs_[0])))
    fail("expects a floating-point input, its input is " + std::string(name_of(this->dtype(inputs_[0]))));
  const bool adapter = call_.def->adapter;
  const TensorId t =
      new_tensor(shape, adapter && !run_.converts_adapters ? adapter_type(dtype) : dtype, Category::parameters);
  lay_out(graph_.tensor(t), run_.layout);
  const bool trainable = !call_.frozen && is_floating(dtype);
  graph_.tensor(t).requires_grad = trainable && training();
  graph_.tensor(t).trained = graph_.tensor(t).of_trained = trainable;
  graph_.tensor(t).distributed = run_.tensor_plan.sequence;
  graph_.parameters.push_back(
      {.tensor = t, .name = name, .layer = call_.layer, .trainable = trainable, .adapter = adapter});
  (adapter ? graph_.adapters : graph_.model_storage).push_back(t);
  Layer& layer = graph_.layers[static_cast<std::size_t>(call_.layer)];
  layer.parameters = checked_add(layer.parameters, shape.elements());
  if (in_format() && is_stored_in_format(run_.weights, call_.def->name, name, shape)) {
    const bool transposed = call_.def->name == "Conv1D";  // [in, out]
    const StoredWeight stored = stored_weight(run_.weights, shape, shape[transposed ? 1 : 0]);
    graph_.buffers[static_cast<std::size_t>(graph_.tensor(t).buffer)].bytes = stored.bytes;
    graph_.parameters.back().packed = true;
    for (const StoredPart& part : stored.parts) buffer(part.name, part.shape, part.dtype);
  }
  return trained_copy(t, name);
}

LayerId LayerBuilder::begin_part(std::string_view name, std::string_view type) {
  Layer part;
  part.name = graph_.layers[index(call_.layer)].name + (name.empty() ? "" : "." + std::string(name));
  part.type = type;
  part.mark = graph_.layers[index(call_.layer)].mark;
  part.ops.begin = size_of_vector(graph_.forward_ops);
  part.dispatched = true;
  graph_.layers.push_back(std::move(part));
  return std::exchange(call_.layer, size_of_vector(graph_.layers) - 1);
}

void LayerBuilder::end_part(LayerId layer) {
  graph_.layers[index(call_.layer)].ops.end = size_of_vector(graph_.forward_ops);
  call_.layer = layer;
}

// A weight that is shared is that of an Embedding.
TensorStyle LayerBuilder::tensor_style() const {
  if (run_.tensor_ranks == 1 || call_.layer == kNone) return TensorStyle::whole;
  return tensor_style_of(graph_.layers[index(call_.layer)].name, run_.tensor_plan.sequence);
}

bool LayerBuilder::in_format() const {
  return run_.weights != WeightFormat::as_computed &&
         !(is_bitsandbytes(run_.weights) && (call_.head || call_.tied != kNone));
}

std::optional<WeightFormat> LayerBuilder::stored() const {
  return in_format() && is_bitsandbytes(run_.weights) ? std::optional(run_.weights) : std::nullopt;
}

// A module that is called again has its buffers, too.
TensorId LayerBuilder::tied_buffer(std::string_view name, const Shape& shape) const {
  if (call_.tied == kNone || graph_.layers[static_cast<std::size_t>(call_.tied)].type != call_.def->name) return kNone;
  auto b = std::ranges::lower_bound(graph_.named_buffers, call_.tied, {}, &BufferTensor::layer);
  for (; b != graph_.named_buffers.end() && b->layer == call_.tied; ++b)
    if (b->name == name && this->shape(b->tensor) == shape) return b->tensor;
  return kNone;
}

TensorId LayerBuilder::buffer(std::string_view name, const Shape& shape, DType dtype, Initial initial) {
  if (call_.saved)
    fail("a module with buffers, or with weights in a form of their own, is not planned as saved by --lora");
  if (const TensorId t = tied_buffer(name, shape); t != kNone) return t;
  const TensorId t = new_tensor(shape, dtype, Category::buffers);
  lay_out(graph_.tensor(t), run_.layout);
  if (initial.kind != Initial::zeros) graph_.initial_values.emplace_back(t, initial);
  graph_.model_storage.push_back(t);
  graph_.named_buffers.push_back({t, name, call_.layer});
  return t;
}

TensorId LayerBuilder::target(const Shape& shape, DType dtype) {
  if (input_count() > call_.def->min_inputs) {  // made by the model's own code
    const TensorId last = input(input_count() - 1);
    const Tensor& t = graph_.tensor(last);
    if (t.shape != shape || t.dtype != dtype)
      fail("expects targets " + to_string(shape) + " of " + std::string(name_of(dtype)) + ", got " +
           to_string(t.shape) + " of " + std::string(name_of(t.dtype)));
    return last;
  }
  if (const auto shared = targets_.find(call_.tied); shared != targets_.end()) {
    const Tensor& t = graph_.tensor(shared->second);
    if (t.shape != shape || t.dtype != dtype)
      fail("its targets are " + to_string(shape) + " of " + std::string(name_of(dtype)) +
           ", those that it shares are " + to_string(t.shape) + " of " + std::string(name_of(t.dtype)));
    return targets_[call_.layer] = shared->second;
  }
  const TensorId t = new_input(shape, dtype);
  graph_.inputs.push_back(t);
  targets_[call_.layer] = t;
  return t;
}

TensorId LayerBuilder::new_input(const Shape& shape, DType dtype) {
  const TensorId t = new_tensor(shape, dtype, Category::inputs);
  Buffer& storage = graph_.buffers.back();
  storage.bytes = checked_mul(storage.bytes, run_.micro_batches);
  Tensor& tensor = graph_.tensor(t);
  if (run_.layout == MemoryFormat::channels_last && shape.rank() == 4 && is_floating(dtype)) {
    tensor.strides = strides_in(run_.layout, shape);
    tensor.contiguous = is_contiguous(shape, tensor.strides);
  }
  return t;
}

// --- forward ----------------------------------------------------------------------------------------------------

// Where a kernel puts its result.
void LayerBuilder::place(TensorId result, const OutputSpec& output, const Primitive& what,
                         std::span<const TensorId> reads) {
  const Placing usual = std::holds_alternative<Elementwise>(what) ? Placing::pointwise : Placing::contiguous;
  Tensor& t = graph_.tensor(result);
  Buffer& storage = graph_.buffers[static_cast<std::size_t>(t.buffer)];
  storage.bytes = std::max(storage.bytes, output.bytes);
  switch (output.placing.value_or(usual)) {
    case Placing::contiguous: return;
    case Placing::channels_last: t.strides = strides_in(MemoryFormat::channels_last, t.shape); break;
    case Placing::given: t.strides = output.strides; break;
    case Placing::suggested: t.strides = strides_in(suggested_format(reads.front()), t.shape); break;
    case Placing::like: t.strides = strides_like(graph_.tensor(reads.front()).shape, strides(reads.front())); break;
    case Placing::pointwise: {
      if (std::ranges::all_of(reads, [&](TensorId r) { return graph_.tensor(r).contiguous; })) return;
      std::array<StridedShape, 4> operands;
      std::size_t n = 0;
      for (const TensorId r : reads)
        if (n < operands.size()) operands[n++] = {graph_.tensor(r).shape, graph_.tensor(r).strides};
      t.strides = pointwise_strides(t.shape, {operands.data(), n});
      break;
    }
  }
  t.contiguous = is_contiguous(t.shape, t.strides);
}

void LayerBuilder::wait_for(Operands reads) {
  if (std::ranges::find(reads, unwaited_.result) == reads.end()) return;
  const TensorId sent = std::exchange(unwaited_, {}).sent;
  if (sent != kNone) hold({sent});
}

bool LayerBuilder::reads_distributed(Operands reads) const {
  return std::ranges::any_of(reads, [&](TensorId t) { return graph_.tensor(t).distributed; });
}

std::vector<TensorId> LayerBuilder::emit_many(Operator op, const Primitive& what, Operands reads,
                                              std::span<const OutputSpec> outputs) {
  wait_for(reads);
  Op made{op, what, call_.layer, graph_.append_operands(reads), {}};
  std::vector<TensorId> results;
  results.reserve(outputs.size());
  for (const OutputSpec& o : outputs) {
    results.push_back(new_tensor(o.shape, o.dtype, Category::activations));
    place(results.back(), o, what, reads);
    graph_.tensor(results.back()).distributed = reads_distributed(reads);
  }
  made.writes = graph_.append_operands(results);
  graph_.forward_ops.push_back(made);
  return results;
}

TensorId LayerBuilder::emit(Operator op, const Primitive& what, Operands reads, const OutputSpec& output) {
  wait_for(reads);
  Op made{op, what, call_.layer, graph_.append_operands(reads), {}};
  if (const auto* reduction = std::get_if<Reduction>(&what); reduction != nullptr && !contiguous(reads.front()))
    made.what = in_memory_order(*reduction, strides(reads.front()));
  const TensorId result = new_tensor(output.shape, output.dtype, Category::activations);
  place(result, output, what, reads);
  graph_.tensor(result).distributed = reads_distributed(reads);
  graph_.operands.push_back(result);
  made.writes = {made.reads.end, size_of_vector(graph_.operands)};
  graph_.forward_ops.push_back(made);
  return result;
}

TensorId LayerBuilder::alias(TensorId t, const Shape& shape, const Strides& strides, std::int64_t offset) {
  (void)shape.elements();  // an expanded shape must not overflow either
  Tensor copy = graph_.tensor(t);
  copy.shape = shape;
  copy.strides = strides;
  copy.offset += offset;
  copy.contiguous = is_contiguous(shape, strides);
  copy.requires_grad = copy.trained = copy.of_trained = false;
  copy.producer = kNone;
  copy.replaced_by = kNone;
  graph_.tensors.push_back(copy);
  return size_of_vector(graph_.tensors) - 1;
}

TensorId LayerBuilder::distributed(TensorId t, bool is) {
  if (graph_.tensor(t).distributed == is) return t;
  const TensorId other = alias(t, shape(t), strides(t));
  graph_.tensor(other).distributed = is;
  if (NodeBuilder n = node(is ? "_FromTorchTensorBackward" : "_ToTorchTensorBackward", other, {t})) n.give(t, n.grad());
  return other;
}

TensorId LayerBuilder::none_like(TensorId t) {
  const TensorId none = alias(t, shape(t), strides(t));
  graph_.buffers.push_back({0, Category::activations, call_.layer});
  graph_.tensor(none).buffer = size_of_vector(graph_.buffers) - 1;
  return none;
}

TensorId LayerBuilder::emit_in_place(Operator op, const Primitive& what, Operands reads) {
  Op made{op, what, call_.layer, graph_.append_operands(reads), {}};
  made.writes = {made.reads.end, made.reads.end};
  graph_.forward_ops.push_back(made);
  const TensorId before = reads.front();
  const TensorId after = alias(before, graph_.tensor(before).shape, graph_.tensor(before).strides);
  graph_.tensor(before).replaced_by = after;
  return after;
}

void LayerBuilder::extra(Operands tensors) {
  Op& op = graph_.forward_ops.back();
  op.extra = graph_.append_operands(tensors);
  for (std::int32_t i = op.extra.begin; i < op.extra.end; ++i) {
    std::int32_t& operand = graph_.operands[static_cast<std::size_t>(i)];
    if (operand == kNone) operand = kAbsent;
  }
}

void LayerBuilder::attributes(std::span<const AttributeValue> values) {
  graph_.append_attributes(graph_.forward_ops.back(), values);
}

MemoryFormat LayerBuilder::suggested_format(TensorId t) const {
  return gpuplan::suggested_format(graph_.tensor(t).shape, graph_.tensor(t).strides);
}

// --- autocast ---------------------------------------------------------------------------------------------------

TensorId LayerBuilder::cast(TensorId t, DType to) {
  const DType from = dtype(t);
  if (from == to) return t;
  const Shape shape = this->shape(t);
  // _to_copy preserves the strides of what is dense, also where those of a 1x1 kernel are contiguous ones as well
  // (aten/src/ATen/native/TensorConversions.cpp); whether a convolution is channels-last depends on them.
  const TensorId y = emit(Operator::to, Elementwise{shape.elements(), 0}, {t}, {shape, to, Placing::like});
  if (NodeBuilder n = node("ToCopyBackward0", y, {t})) n.give(t, n.cast(n.grad(), from));
  return y;
}

TensorId LayerBuilder::cached_cast(TensorId t) {
  const std::optional<DType> to = autocast();
  if (!to || t == kNone) return t;
  const DType from = dtype(t);
  if (from == *to || !is_floating(from) || from == DType::fp64) return t;
  // Leaves that are trained, also where no_grad is on: the weights.
  const bool cached = from == DType::fp32 && graph_.tensor(t).trained && caches_casts(run_.like);
  if (!cached) return cast(t, *to);
  if (const auto it = cast_cache_.find(t); it != cast_cache_.end()) return it->second;
  const bool without_grad = std::exchange(without_grad_, without_grad_ && before(kCachedCastsWithGradient));
  const TensorId y = cast(t, *to);
  without_grad_ = without_grad;
  graph_.tensor(y).of_trained = !before(kCachedCastsWithGradient);
  graph_.autocast_casts.push_back(y);
  cast_cache_.emplace(t, y);
  return y;
}

TensorId LayerBuilder::autocast_fp32(TensorId t) {
  if (!autocast() || t == kNone) return t;
  const DType from = dtype(t);
  return from == DType::fp16 || from == DType::bf16 ? cast(t, DType::fp32) : t;
}

void LayerLowering::forget_cast(TensorId weight, TensorId first) {
  if (const auto it = builder_.cast_cache_.find(weight); it != builder_.cast_cache_.end() && it->second >= first)
    builder_.cast_cache_.erase(it);
}

void LayerLowering::end_autocast() {
  if (!builder_.graph_.autocast_casts.empty()) builder_.hold(builder_.graph_.autocast_casts);
  builder_.cast_cache_.clear();
}

const std::vector<TensorId>& LayerLowering::lower(const LoweredCall& call, std::span<const TensorId> inputs) {
  builder_.call_ = call;
  builder_.inputs_.assign(inputs.begin(), inputs.end());
  builder_.outputs_.clear();
  builder_.bind();
  const auto count = static_cast<int>(inputs.size());
  const int least = call.def->min_inputs, most = call.def->max_inputs;
  if (count < least || count > most) {
    const int bound = count < least ? least : most;
    builder_.fail("takes " +
                  std::string(least == most   ? ""
                              : count < least ? "at least "
                                              : "at most ") +
                  std::to_string(bound) + (bound == 1 ? " input" : " inputs") + ", got " + std::to_string(count));
  }
  // The two that a new layer's author forgets.
  if (call.def->lower == nullptr) builder_.fail("has no .lower in its LayerDef");
  const bool of_heads = builder_.tensor_style() == TensorStyle::head_norm;
  if (of_heads) builder_.inputs_[0] = builder_.distributed(inputs[0], true);
  call.def->lower(builder_);
  if (of_heads && !builder_.outputs_.empty()) builder_.outputs_[0] = builder_.distributed(builder_.outputs_[0], false);
  if (builder_.outputs_.empty()) builder_.fail("sets no result: its lower() does not call b.output()");
  return builder_.outputs_;
}

}  // namespace gpuplan

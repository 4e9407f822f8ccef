#include "estimator/graph/model_builder.h"

#include <algorithm>
#include <array>

#include "estimator/base/integers.h"
#include "estimator/operators/reduction.h"
#include "estimator/operators/scratch_program.h"

namespace gpuplan {
namespace {

constexpr PyTorchVersion kMaskedTruncatedNormal = 209;  // recorded in 2.15, not in 2.8

}  // namespace

void ModelBuilder::replaced_parameter(const Shape& shape, bool tied) {
  std::vector<Shape>& shapes = b_.graph_.tied_shapes;
  if (tied && std::ranges::find(shapes, shape) == shapes.end()) shapes.push_back(shape);
  if (b_.graph_.knows_construction) return;
  b_.graph_.model_storage.push_back(b_.new_tensor(shape, b_.run_.precision, Category::scratch));
  b_.graph_.tensor(b_.graph_.model_storage.back()).trained = true;
}

void ModelBuilder::flatten(std::span<const TensorId> weights, std::span<const std::int64_t> offsets,
                           std::int64_t bytes) {
  const auto buffer_of = [&](TensorId t) { return b_.graph_.tensor(t).buffer; };
  if (buffer_of(weights.front()) == buffer_of(weights.back())) return;
  std::int64_t elements = 0;
  for (const TensorId w : weights) elements = checked_add(elements, b_.shape(w).elements());
  const TensorId whole = b_.new_tensor({elements}, b_.dtype(weights.front()), Category::parameters);
  Buffer& storage = b_.graph_.buffers[static_cast<std::size_t>(buffer_of(whole))];
  storage.bytes = std::max(storage.bytes, bytes);
  std::vector<TensorId> parts;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const TensorId w = weights[i];
    parts.push_back(b_.alias(w, b_.shape(w), b_.strides(w)));
    b_.graph_.buffers[static_cast<std::size_t>(buffer_of(w))].category = Category::scratch;
    b_.graph_.tensor(parts.back()).trained = true;
    b_.graph_.tensor(w).buffer = buffer_of(whole);
    b_.graph_.tensor(w).offset = offsets[i];
  }
  std::ranges::copy(parts, b_.graph_.model_storage.end() - static_cast<std::ptrdiff_t>(parts.size()));
  b_.graph_.model_storage.push_back(whole);
  b_.graph_.flat_weights.push_back({whole, b_.graph_.append_operands(parts)});
}

bool ModelBuilder::has_buffer(std::string_view name) const {
  return std::ranges::find(b_.graph_.named_buffers, name, &BufferTensor::name) != b_.graph_.named_buffers.end();
}

TensorId ModelBuilder::constant(const Shape& shape, DType dtype) {
  b_.graph_.model_storage.push_back(b_.new_tensor(shape, dtype, Category::activations));
  return b_.graph_.model_storage.back();
}

TensorId ModelBuilder::converted_for_good(TensorId parameter, DType dtype) {
  const Tensor old = b_.graph_.tensor(parameter);
  if (old.dtype == dtype) return parameter;
  const TensorId t = b_.new_tensor(old.shape, dtype, Category::parameters);
  b_.graph_.model_storage.push_back(t);
  b_.graph_.converted_buffers.emplace_back(old.buffer, buffer_of(b_.graph_, t));
  b_.hold({t});  // where it is made
  return t;
}

void ModelBuilder::constructor_temporary(const Shape& shape, DType dtype) {
  if (b_.graph_.knows_construction) return;
  b_.graph_.model_storage.push_back(b_.new_tensor(shape, dtype, Category::scratch));
}

void ModelBuilder::replace_buffer(TensorId t) {
  const Tensor old = b_.graph_.tensor(t);
  replace_buffer(t, b_.emit(Operator::add, Elementwise{old.shape.elements()}, {t}, old.shape, old.dtype));
}

void ModelBuilder::replace_buffer(TensorId old, TensorId by) {
  Buffer& fresh = b_.graph_.buffers[static_cast<std::size_t>(b_.graph_.tensor(by).buffer)];
  fresh.category = b_.graph_.buffers[static_cast<std::size_t>(b_.graph_.tensor(old).buffer)].category;
  b_.graph_.replaced_buffers.emplace_back(b_.graph_.tensor(old).buffer, b_.graph_.tensor(by).buffer);
}

TensorId ModelBuilder::cache(const Shape& shape, DType dtype) {
  const TensorId t = b_.new_tensor(shape, dtype, Category::kv_cache);
  b_.graph_.model_storage.push_back(t);
  return t;
}

void ModelBuilder::keep_with_output(TensorId t) {
  if (b_.run_.generation.part != Generation::Part::none)
    b_.graph_.buffers[static_cast<std::size_t>(b_.graph_.tensor(t).buffer)].category = Category::kv_cache;
  b_.graph_.kept_with_output.push_back(t);
}

void ModelBuilder::require_gradient(TensorId t) {
  b_.graph_.tensor(t).requires_grad = true;
  b_.graph_.leaves.push_back(t);
}

void ModelBuilder::initialize(const ScratchProgram& program) {
  ScratchWriter(b_.graph_.initialization, std::ranges::count_if(b_.graph_.initialization, allocates)).append(program);
}

// mask = (x < lo) | (x > hi), then mask.any(): three masks of a byte an element, the scalar, the reduction's scratch.
void ModelBuilder::initialize_truncated(std::string_view layer_type, std::string_view weight) {
  if (b_.before(kMaskedTruncatedNormal) || b_.graph_.knows_construction) return;
  for (const ParameterTensor& p : b_.graph_.parameters) {
    if (p.name != weight || b_.graph_.layers[static_cast<std::size_t>(p.layer)].type != layer_type) continue;
    const std::int64_t n = b_.elements(p.tensor);
    ScratchProgram program;
    ScratchWriter w(program);
    const std::array masks{w.allocate(n), w.allocate(n), w.allocate(n)};
    w.release(masks[0]);
    w.release(masks[1]);
    w.allocate(1);
    for (const std::int64_t bytes :
         reduction_scratch({n}, 1, DType::boolean, DType::boolean, b_.gpu_, ReductionKind::mean))
      w.allocate(bytes);
    w.release_all();
    initialize(program);
  }
}

}  // namespace gpuplan

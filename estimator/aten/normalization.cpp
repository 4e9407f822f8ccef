#include "estimator/aten/normalization.h"

#include <array>
#include <limits>

#include "estimator/aten/pointwise.h"
#include "estimator/aten/views.h"

namespace gpuplan::aten {
namespace {

constexpr PyTorchVersion kFusedRmsNorm = 210;      // aten::_fused_rms_norm is what rms_norm calls on CUDA
constexpr PyTorchVersion kGroupNormLayouts = 210;  // channels-last inputs stay so, 16-bit ones have fp32 moments

int wanted(const NodeBuilder& node, TensorId weight, TensorId bias) {
  return (node.needs(weight) ? 1 : 0) + (node.needs(bias) ? 1 : 0);
}

void give(NodeBuilder& node, std::span<const TensorId> inputs, std::span<const Operand> gradients) {
  std::size_t k = 0;
  for (const TensorId t : inputs)
    if (node.needs(t)) node.give(t, gradients[k++]);
}

// Of the input and the weights, those that want a gradient; allocated in this order.
std::vector<OutputSpec> gradients_of(const LayerBuilder& b, const NodeBuilder& node, std::span<const TensorId> inputs) {
  std::vector<OutputSpec> outputs;
  for (const TensorId t : inputs)
    if (node.needs(t)) outputs.push_back({b.shape(t), b.dtype(t), Placing::contiguous});
  return outputs;
}

// The operator's own copies of what is not contiguous are its scratch.
bool copies(const LayerBuilder& b) { return b.run().scratch != Scratch::none; }

// The copy of a non-contiguous input comes before the results, that of its gradient after them; both live until the
// kernels ran.
void layer_norm_backward(NodeBuilder& node, const LayerBuilder& b, LayerNorm work, std::array<TensorId, 3> inputs,
                         std::span<const TensorId> statistics) {
  const TensorId x = inputs[0];
  work.backward = true;
  work.weights = wanted(node, inputs[1], inputs[2]);
  for (const TensorId t : {inputs[2], x, inputs[1]})  // unpacked in the order of their names
    if (t != kNone) node.save(t);
  Operand rows = x;
  if (copies(b) && !b.contiguous(x)) rows = node.run(Operator::clone, Copy{b.elements(x)}, {x}, b.shape(x), b.dtype(x));
  const std::vector<OutputSpec> outputs = gradients_of(b, node, inputs);
  const std::vector<Operand> results = node.run_many(Operator::empty, Marker{}, {rows}, outputs);
  std::vector<Operand> reads{copies(b) ? node.contiguous(node.grad()) : node.grad(), rows};
  reads.insert(reads.end(), statistics.begin(), statistics.end());
  if (inputs[1] != kNone) reads.push_back(inputs[1]);
  (void)node.run_many(Operator::native_layer_norm_backward, work, reads, {});
  std::array<Operand, 3> gradients{kAbsent, kAbsent, kAbsent};  // of input, weight and bias
  for (std::size_t i = 0, k = 0; i < inputs.size(); ++i)
    if (node.needs(inputs[i])) gradients[i] = results[k++];
  node.extra({gradients[0], gradients[1], gradients[2]});
  give(node, inputs, results);
}

std::int64_t columns_of(const Shape& shape, int dimensions) {
  return shape.elements(shape.rank() - dimensions, shape.rank());
}

// [..., 1, 1]: one value a row.
Shape rows_of(const Shape& shape, int dimensions) {
  Shape rows = shape;
  for (int i = 1; i <= dimensions; ++i) rows.set(-i, 1);
  return rows;
}

TensorId fused_rms_norm(LayerBuilder& b, TensorId x, int dimensions, TensorId weight, double eps) {
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  const std::int64_t columns = columns_of(shape, dimensions);
  const LayerNorm work{.rows = shape.elements() / columns, .columns = columns, .dtype = dtype};
  TensorId rows = x;
  if (copies(b) && !b.contiguous(x)) rows = b.emit(Operator::clone, Copy{shape.elements()}, {x}, shape, dtype);
  const OutputSpec outputs[] = {{shape, dtype}, {rows_of(shape, dimensions), accumulate_type(dtype)}};
  const std::vector<TensorId> results = b.emit_many(Operator::_fused_rms_norm, work, {rows}, outputs);
  b.extra({weight});
  b.attributes({{Attribute::eps, eps}});
  if (rows != x) b.hold({x});
  if (NodeBuilder node = b.node("FusedRmsNormBackward0", results[0], {x, weight}))
    layer_norm_backward(node, b, work, {x, weight, kNone}, std::span(results).subspan(1));
  return results[0];
}

}  // namespace

TensorId layer_norm(LayerBuilder& b, TensorId x, int dimensions, TensorId weight, TensorId bias, double eps) {
  x = b.autocast_fp32(x);
  weight = b.autocast_fp32(weight);
  bias = b.autocast_fp32(bias);
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  const std::int64_t columns = columns_of(shape, dimensions);
  const LayerNorm work{.rows = shape.elements() / columns, .columns = columns, .dtype = dtype};
  TensorId rows = x;
  if (copies(b) && !b.contiguous(x)) rows = b.emit(Operator::clone, Copy{shape.elements()}, {x}, shape, dtype);
  const OutputSpec row{rows_of(shape, dimensions), accumulate_type(dtype)};
  const OutputSpec outputs[] = {{shape, dtype}, row, row};
  const std::vector<TensorId> results = b.emit_many(Operator::native_layer_norm, work, {rows}, outputs);
  b.extra({weight, bias});
  b.attributes({{Attribute::eps, eps}});
  if (rows != x) b.hold({x});  // autocast's cast is the wrapper's
  if (NodeBuilder node = b.node("NativeLayerNormBackward0", results[0], {x, weight, bias}))
    layer_norm_backward(node, b, work, {x, weight, bias}, std::span(results).subspan(1));
  return results[0];
}

TensorId rms_norm(LayerBuilder& b, TensorId x, int dimensions, TensorId weight, double eps) {
  if (!b.before(kFusedRmsNorm)) {
    x = b.autocast_fp32(x);
    return fused_rms_norm(b, x, dimensions, b.autocast_fp32(weight), eps);
  }
  const DType dtype = b.dtype(x);
  const TensorId wide = b.cast(x, accumulate_type(dtype));
  unsigned mask = 0;
  for (int i = 1; i <= dimensions; ++i) mask |= 1U << (b.shape(x).rank() - i);
  const TensorId square = pow_number(b, wide, 2);
  const TensorId mean = binary_number(b, Binary::add, reduce(b, square, mask, true, true), eps, true);
  const TensorId scale = rsqrt(b, mean);
  b.hold({square, mean});
  TensorId y = mul(b, wide, scale);
  if (weight != kNone) y = mul(b, y, weight);
  y = b.cast(y, dtype);
  b.hold({wide, scale});  // variables of the function
  return y;
}

namespace {

// What its kernels cannot read is copied once its results are there.
std::vector<TensorId> group_norm_forward(LayerBuilder& b, const GroupNorm& work, TensorId x,
                                         std::span<const OutputSpec> outputs, bool copied, Placing placing) {
  if (!copied) return b.emit_many(Operator::native_group_norm, work, std::array{x}, outputs);
  std::vector<TensorId> results = b.emit_many(Operator::empty, Marker{}, std::array{x}, outputs);
  const TensorId rows = b.emit(Operator::clone, Copy{b.elements(x)}, {x}, {b.shape(x), b.dtype(x), placing});
  b.emit_many(Operator::native_group_norm, work, std::array{rows, results[0], results[1], results[2]}, {});
  return results;
}

}  // namespace

TensorId group_norm(LayerBuilder& b, TensorId x, std::int64_t groups, TensorId weight, TensorId bias, double eps) {
  const TensorId given_x = x = b.autocast_fp32(x);
  const bool keeps_layout = !b.before(kGroupNormLayouts) && b.shape(x).rank() == 4 &&
                            b.suggested_format(x) == MemoryFormat::channels_last && !b.contiguous(x);
  const MemoryFormat format = keeps_layout ? MemoryFormat::channels_last : MemoryFormat::contiguous;
  if (b.before(kGroupNormLayouts)) x = contiguous(b, x, format);
  const bool dense = keeps_layout ? is_channels_last(b.shape(x), b.strides(x)) : b.contiguous(x);
  const bool copied = !dense && copies(b);  // by the operator, for its kernels alone
  const Placing placing = keeps_layout ? Placing::channels_last : Placing::contiguous;
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  GroupNorm work{.n = shape[0],
                 .channels = shape[1],
                 .area = shape.elements(2, shape.rank()),
                 .groups = groups,
                 .affine = weight != kNone,
                 .channels_last = keeps_layout,
                 .dtype = dtype};
  const OutputSpec group{{shape[0], groups}, dtype};
  const OutputSpec outputs[] = {{shape, dtype, placing}, group, group};
  const std::vector<TensorId> results = group_norm_forward(b, work, x, outputs, copied, placing);
  b.extra({weight, bias});
  b.attributes({{Attribute::eps, eps}});
  if (x != given_x) b.hold({given_x});  // group_norm's own argument, which it copied
  if (NodeBuilder node = b.node("NativeGroupNormBackward0", results[0], {x, weight, bias})) {
    work.backward = true;
    work.wants_input = node.needs(x);
    const std::array inputs{x, weight, bias};
    std::vector<OutputSpec> gradients = gradients_of(b, node, inputs);
    if (node.needs(x)) gradients.front().placing = placing;
    const Operand dy = node.contiguous(node.grad(), format);
    Operand rows = x;
    if (copied) rows = node.run(Operator::clone, Copy{shape.elements()}, {x}, {shape, dtype, placing});
    std::vector<Operand> reads{dy, rows, results[1], results[2]};
    if (weight != kNone) reads.push_back(weight);
    const std::vector<Operand> made = node.run_many(Operator::native_group_norm_backward, work, reads, gradients);
    node.attributes({{Attribute::wants_input, node.needs(x)},
                     {Attribute::wants_weight, node.needs(weight)},
                     {Attribute::wants_bias, node.needs(bias)}});
    give(node, inputs, made);
  }
  return results[0];
}

namespace {

// weight.repeat(n): a copy; its gradient is summed over the copies.
TensorId repeated(LayerBuilder& b, TensorId weight, std::int64_t n) {
  if (weight == kNone) return kNone;
  const std::int64_t each = b.elements(weight);
  const DType dtype = b.dtype(weight);
  const TensorId y = b.emit(Operator::repeat, Copy{n * each}, {weight}, {n * each}, dtype);
  if (NodeBuilder node = b.node("RepeatBackward0", y, {weight})) {
    const Reduction sum{.shape = {n, each}, .reduced = 1, .input = dtype, .output = dtype};
    const Operand rows = node.reshape(node.grad(), {n, each});
    node.give(weight, node.run(Operator::sum, sum, {rows}, {each}, dtype));
    node.attributes({{Attribute::dims, 1}});
  }
  return y;
}

}  // namespace

TensorId instance_norm(LayerBuilder& b, TensorId x, TensorId weight, TensorId bias, double eps) {
  const Shape in = b.shape(x);
  const std::int64_t channels = in[0] * in[1];
  const TensorId scale = repeated(b, weight, in[0]);
  const TensorId shift = repeated(b, bias, in[0]);
  Shape flat{1, channels};
  for (int i = 2; i < in.rank(); ++i) flat.push_back(in[i]);
  const TensorId rows = view(b, contiguous(b, x), flat);
  const DType dtype = b.dtype(x);
  const BatchNorm work{.elements = in.elements(),
                       .channels = channels,
                       .rows = in.elements() / channels,
                       .accumulate = accumulate_type(dtype)};
  const OutputSpec statistic{{channels}, accumulate_type(dtype)};
  const OutputSpec outputs[] = {{flat, dtype}, statistic, statistic};
  const std::vector<TensorId> results = b.emit_many(Operator::batch_norm, work, {rows}, outputs);
  b.extra({scale, shift});
  b.attributes({{Attribute::momentum, std::numeric_limits<double>::quiet_NaN()}, {Attribute::eps, eps}});
  if (NodeBuilder node = b.node("BatchNormBackward0", results[0], {rows, scale, shift})) {
    BatchNorm backward = work;
    backward.backward = true;
    const std::array inputs{rows, scale, shift};
    std::vector<Operand> reads{node.contiguous(node.grad()), rows, results[1], results[2]};
    if (scale != kNone) reads.push_back(scale);
    const std::vector<Operand> made =
        node.run_many(Operator::batch_norm_backward, backward, reads, gradients_of(b, node, inputs));
    node.attributes({{Attribute::eps, eps},
                     {Attribute::wants_input, node.needs(rows)},
                     {Attribute::wants_weight, node.needs(scale)},
                     {Attribute::wants_bias, node.needs(shift)}});
    give(node, inputs, made);
  }
  b.hold({scale == kNone ? rows : scale, shift == kNone ? rows : shift});
  return view(b, results[0], in);
}

}  // namespace gpuplan::aten

#include "estimator/aten/mask_conditions.h"

#include "estimator/aten/pointwise.h"
#include "estimator/aten/views.h"

namespace gpuplan::aten {

TensorId arange(LayerBuilder& b, std::int64_t end) {
  const TensorId y = b.emit(Operator::arange, Fill{end}, {}, {end}, DType::int64);
  b.attributes({{Attribute::start, 0}});
  return y;
}

TensorId shifted_arange(LayerBuilder& b, std::int64_t end) {
  return no_grad(b, Operator::add, {arange(b, end)}, {end}, DType::int64, {{Attribute::other, 0}});
}

TensorId as_row(LayerBuilder& b, TensorId t, const Shape& to) {
  const Shape from = b.shape(t);
  Shape shape;
  Strides strides;
  const std::int64_t rows = from.rank() > 1 ? from[0] : 1;
  for (int i = 0; i < to.rank(); ++i) {
    shape.push_back(i == 0 && to.rank() > 2 ? rows : i + 1 == to.rank() ? from[-1] : 1);
    strides.set(i, i + 1 == to.rank() ? 1 : from[-1]);
  }
  return b.alias(t, shape, strides);
}

TensorId as_column(LayerBuilder& b, TensorId t, const Shape& to) { return transpose(b, as_row(b, t, to), -2, -1); }

TensorId looked_up(LayerBuilder& b, TensorId table, TensorId batch_index, TensorId token_index, const Shape& shape,
                   bool copies_both) {
  std::vector<OutputSpec> made(copies_both ? 2 : 1, {shape, DType::int64});
  made.push_back({shape, b.dtype(table)});
  return b.emit_many(Operator::index, Copy{shape.elements()}, {table, batch_index, token_index}, made).back();
}

TensorId not_later(LayerBuilder& b, Compared c, const Shape& shape, std::int64_t window) {
  c = {as_column(b, c.query, shape), as_row(b, c.key, shape)};
  if (window == 0) return no_grad(b, Operator::le, {c.key, c.query}, shape, DType::boolean);
  const TensorId ones = no_grad(b, Operator::new_ones, {}, {}, DType::boolean);
  const TensorId first =
      no_grad(b, Operator::sub, {c.query}, b.shape(c.query), DType::int64, {{Attribute::other, window}});
  const TensorId within = no_grad(b, Operator::gt, {c.key, first}, shape, DType::boolean);
  const TensorId all = no_grad(b, Operator::bit_and, {ones, within}, shape, DType::boolean);
  const TensorId earlier = no_grad(b, Operator::le, {c.key, c.query}, shape, DType::boolean);
  return no_grad(b, Operator::bit_and, {all, earlier}, shape, DType::boolean);
}

TensorId as_numbers(LayerBuilder& b, TensorId mask, const Shape& shape) {
  const DType dtype = b.run().precision;
  const TensorId zero = no_grad(b, Operator::zeros, {}, {}, dtype);
  const OutputSpec results[] = {{Shape{}, dtype}, {shape, dtype}};  // torch.where makes a tensor of its number
  const TensorId y = b.emit_many(Operator::where, Elementwise{shape.elements()}, {mask, zero}, results)[1];
  b.attributes({{Attribute::other, lowest(dtype)}});
  return y;
}

bool is_attention_mask(const LayerBuilder& b, TensorId t) { return b.shape(t).rank() == 4; }

}  // namespace gpuplan::aten

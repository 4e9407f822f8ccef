#include "estimator/aten/stored_linear.h"

#include "estimator/aten/views.h"
#include "estimator/base/integers.h"
#include "estimator/graph/model_builder.h"
#include "estimator/graph/weight_format.h"

namespace gpuplan::aten {
namespace {

/// bnb_4bit_compute_dtype, as people set it: the type of the products around it.
DType compute_type(const LayerBuilder& b) { return b.autocast().value_or(b.run().precision); }

struct Product {
  std::int64_t m = 1, n = 1, k = 1;
  Shape weight() const { return {n, k}; }
  Gemm forward(DType type, bool bias) const { return {.m = m, .n = n, .k = k, .bias_epilogue = bias, .dtype = type}; }
  Gemm backward(DType type) const {
    return {.m = m, .n = k, .k = n, .dtype = type, .gradient = GemmGradient::of_first};
  }
  std::int64_t blocks() const { return ceil_div(n * k, kBlockOf4bit); }
};

Elementwise each(std::int64_t elements) { return {elements, 1}; }

// _dequant_linear_fallback: names of a function that returns when the product is there.
TensorId multiply_copy(LayerBuilder& b, TensorId x, TensorId weight, TensorId bias, const Product& p,
                       const Shape& out) {
  const DType type = b.dtype(x);
  std::vector<TensorId> locals;
  if (quantizes_scales(b.run().weights)) {
    const Shape scales{p.blocks()};
    locals.push_back(b.emit(Operator::dequantize_4bit, each(p.blocks()), {weight}, scales, DType::fp32));
    locals.push_back(b.emit(Operator::add, each(p.blocks()), {locals.back()}, scales, DType::fp32));
  }
  locals.push_back(b.emit(Operator::dequantize_4bit, each(p.n * p.k), {weight}, p.weight(), type));
  const std::vector<TensorId> reads =
      bias == kNone ? std::vector{x, locals.back()} : std::vector{x, locals.back(), bias};
  const TensorId y = b.emit(Operator::gemm_4bit, p.forward(type, bias != kNone), reads, out, type);
  b.hold(locals);
  return y;
}

// MatMul4Bit.backward: the weight in the type that it was quantized from, then in the gradient's.
void backward_4bit(LayerBuilder& b, TensorId x, TensorId y, TensorId weight, const Product& p) {
  NodeBuilder node = b.node("MatMul4BitBackward", y, {x});
  if (!node) return;
  const DType type = b.dtype(x);
  const bool twice = quantizes_scales(b.run().weights);
  Operand scales = 0;
  if (twice) {
    scales = node.run(Operator::dequantize_4bit, each(p.blocks()), {weight}, {p.blocks()}, DType::fp32);
    node.run_in_place(Operator::add_, each(p.blocks()), {scales});
  }
  const Operand copy = node.run(Operator::dequantize_4bit, each(p.n * p.k), {weight}, p.weight(), loaded_type(b.run()));
  if (twice) node.hold({scales});
  const Operand factor = node.cast(copy, type);
  node.give(x, node.run(Operator::mm, p.backward(type), {node.grad(), factor}, b.shape(x), type));
  node.hold({factor});
}

TensorId linear_4bit(LayerBuilder& b, TensorId given, TensorId weight, TensorId bias, const Shape& out) {
  const TensorId x = b.cast(given, compute_type(b));
  if (bias != kNone) bias = ModelBuilder(b).converted_for_good(bias, b.dtype(x));
  const std::int64_t k = b.shape(x)[-1];
  const Product p{b.elements(x) / k, out[-1], k};
  const DType type = b.dtype(x);
  const TensorId y = multiplies_packed(b.gpu(), type, p.m, p.n, p.k)
                         ? b.emit(Operator::gemm_4bit, OpaqueKernel{.macs = p.m * p.n * p.k}, {x, weight}, out, type)
                         : multiply_copy(b, x, weight, bias, p, out);
  backward_4bit(b, x, y, weight, p);
  const TensorId result = b.cast(y, b.dtype(given));
  b.hold({x});
  return result;
}

// int8_vectorwise_quant of A.to(float16): rows of int8 with a scale each. With a threshold (6.0) it looks for outliers.
std::vector<TensorId> quantize_rows(LayerBuilder& b, TensorId x, const Product& p) {
  const Shape rows{p.m, p.k};
  const TensorId half = b.dtype(x) == DType::fp16 ? x : b.emit(Operator::to, each(p.m * p.k), {x}, rows, DType::fp16);
  const TensorId scales = b.emit(Operator::int8_quantize, each(p.m), {half}, {p.m}, DType::fp32);
  const TensorId numbers = b.emit(Operator::int8_quantize, each(p.m * p.k), {half}, rows, DType::int8);
  const TensorId magnitudes = b.emit(Operator::abs, each(p.m * p.k), {half}, rows, DType::fp16);
  const TensorId outliers = b.emit(Operator::ge, each(p.m * p.k), {magnitudes}, rows, DType::boolean);
  const Reduction any{.shape = rows, .reduced = 3, .input = DType::boolean, .output = DType::boolean, .mean = true};
  b.emit(Operator::any, any, {outliers}, Shape{}, DType::boolean);
  b.hold({outliers, half});
  return {scales, numbers};
}

// MatMul8bitLt.backward: the weight in the input's type times its scales / 127.
void backward_8bit(LayerBuilder& b, TensorId x, TensorId y, TensorId weight, const Product& p) {
  NodeBuilder node = b.node("MatMul8bitLtBackward", y, {x});
  if (!node) return;
  node.keep(x);  // ctx.tensors
  const DType type = b.dtype(x);
  const Operand factor = node.run(Operator::to, each(p.n * p.k), {weight}, p.weight(), type);
  const Operand scales = node.run(Operator::mul, each(p.n), {weight}, {p.n, 1}, DType::fp32);
  node.run_in_place(Operator::mul_, each(p.n * p.k), {factor, scales});
  node.give(x, node.run(Operator::mm, p.backward(type), {node.grad(), factor}, b.shape(x), type));
  node.hold({factor});
}

TensorId linear_8bit(LayerBuilder& b, TensorId x, TensorId weight, TensorId bias, const Shape& out) {
  if (bias != kNone) bias = ModelBuilder(b).converted_for_good(bias, b.dtype(x));
  const std::int64_t k = b.shape(x)[-1];
  const Product p{b.elements(x) / k, out[-1], k};
  const Shape flat{p.m, p.n};
  const std::vector<TensorId> rows = quantize_rows(b, x, p);
  const TensorId sums =
      b.emit(Operator::int8_product, OpaqueKernel{.macs = p.m * p.n * p.k}, {rows.back(), weight}, flat, DType::int32);
  TensorId y = b.emit(Operator::int8_dequantize, each(p.m * p.n), {sums, rows.front()}, out, DType::fp16);
  if (bias != kNone) y = b.emit_in_place(Operator::add_, each(p.m * p.n), {y, bias});
  if (b.dtype(x) != DType::fp16) y = b.emit(Operator::to, each(p.m * p.n), {y}, out, b.dtype(x));
  b.hold({sums});
  b.hold(rows);
  backward_8bit(b, x, y, weight, p);
  return y;
}

}  // namespace

TensorId stored_linear(LayerBuilder& b, TensorId x, TensorId weight, std::int64_t n, TensorId bias) {
  Shape out = b.shape(x);
  out.set(-1, n);
  return is_bitsandbytes_4bit(b.run().weights) ? linear_4bit(b, x, weight, bias, out)
                                               : linear_8bit(b, x, weight, bias, out);
}

}  // namespace gpuplan::aten

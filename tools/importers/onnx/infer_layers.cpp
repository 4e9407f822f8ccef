// Operators with weights and windows: convolutions, products, normalisation, pooling, recurrence.
#include <algorithm>

#include "tools/importers/onnx/infer.h"

namespace gpuplan::onnx_import {
namespace {

struct Window {
  std::vector<std::int64_t> kernel, strides, dilations, pads;  // pads: the beginnings, then the ends
  std::string_view automatic;                                  // SAME_UPPER, SAME_LOWER, VALID or NOTSET
};

std::vector<std::int64_t> or_else(std::vector<std::int64_t> given, std::size_t count, std::int64_t otherwise,
                                  const Inference& n, std::string_view what) {
  if (given.empty()) given.assign(count, otherwise);
  if (given.size() != count)
    n.fail(std::to_string(given.size()) + " " + std::string(what) + " for " + std::to_string(count) + " dimensions");
  return given;
}

Window window(const Inference& n, std::vector<std::int64_t> kernel) {
  Window w;
  const std::size_t count = kernel.size();
  w.kernel = std::move(kernel);
  w.strides = or_else(n.integers("strides"), count, 1, n, "strides");
  w.dilations = or_else(n.integers("dilations"), count, 1, n, "dilations");
  w.pads = or_else(n.integers("pads"), 2 * count, 0, n, "pads");
  w.automatic = n.text("auto_pad", "NOTSET");
  constexpr std::int64_t kLarge = 1 << 30;
  for (std::size_t i = 0; i < count; ++i)
    if (w.kernel[i] < 1 || w.strides[i] < 1 || w.dilations[i] < 1 || w.kernel[i] > kLarge || w.strides[i] > kLarge ||
        w.dilations[i] > kLarge)
      n.fail("a window, stride or dilation below 1 or above 2^30");
  for (const std::int64_t p : w.pads)
    if (p < -kLarge || p > kLarge) n.fail("a padding of " + std::to_string(p));
  return w;
}

std::int64_t positions(std::int64_t size, const Window& w, std::size_t i, bool ceil, const Inference& n) {
  const std::size_t count = w.kernel.size();
  if (w.automatic.starts_with("SAME")) return ceil_div(size, w.strides[i]);
  const std::int64_t padded = checked_add(size, w.pads[i] + w.pads[count + i]);
  const std::int64_t span = checked_mul(w.dilations[i], w.kernel[i] - 1) + 1;
  if (padded < span)
    n.fail("a window of " + std::to_string(span) + " does not fit " + std::to_string(padded) + " positions");
  std::int64_t out = (ceil ? ceil_div(padded - span, w.strides[i]) : (padded - span) / w.strides[i]) + 1;
  // As PyTorch and ONNX since opset 19: no window begins in the padding at the end.
  if (ceil && checked_mul(out - 1, w.strides[i]) >= checked_add(size, w.pads[i])) --out;
  return out;
}

Extents slid(const Inference& n, Extents out, const Extents& x, const Window& w, bool ceil) {
  for (std::size_t i = 0; i < w.kernel.size(); ++i) {
    const Extent& size = x[i + 2];
    out.emplace_back(positions(size.at[0], w, i, ceil, n), positions(size.at[1], w, i, ceil, n));
  }
  return out;
}

std::vector<std::int64_t> kernel_of(const Inference& n, const Extents& weight, std::size_t rank) {
  if (weight.size() != rank || rank < 3)
    n.fail("an input of " + std::to_string(rank) + " dimensions and a weight of " + std::to_string(weight.size()));
  std::vector<std::int64_t> kernel;
  for (std::size_t i = 2; i < weight.size(); ++i) {
    if (!weight[i].fixed()) n.fail("a weight that depends on the batch");
    kernel.push_back(weight[i].at[0]);
  }
  return kernel;
}

void infer_conv(Inference& n) {
  const Extents& x = n.shape(0);
  const Extents& weight = n.shape(1);
  const Window w = window(n, kernel_of(n, weight, x.size()));
  if (!(weight[1] * Extent(n.integer("group", 1)) == x[1]))
    n.fail("expects " + to_string(weight[1] * Extent(n.integer("group", 1))) + " input channels, its input has " +
           to_string(x[1]));
  n.out(slid(n, {x[0], weight[0]}, x, w, false));
}

void infer_conv_transpose(Inference& n) {
  const Extents& x = n.shape(0);
  const Extents& weight = n.shape(1);
  const Window w = window(n, kernel_of(n, weight, x.size()));
  const std::size_t count = w.kernel.size();
  const auto extra = or_else(n.integers("output_padding"), count, 0, n, "output_padding");
  if (!(weight[0] == x[1])) n.fail("its weight is for " + to_string(weight[0]) + " channels");
  if (!n.integers("output_shape").empty() || w.automatic.starts_with("SAME"))
    n.fail("its padding is given by the output's shape, which is not supported");
  Extents out = {x[0], weight[1] * Extent(n.integer("group", 1))};
  for (std::size_t i = 0; i < count; ++i) {
    const auto size = [&](std::int64_t in) {
      const std::int64_t window = checked_mul(w.dilations[i], w.kernel[i] - 1) + 1;
      const std::int64_t padded = checked_add(checked_add(checked_mul(w.strides[i], in - 1), extra[i]), window);
      return checked_add(padded, -w.pads[i] - w.pads[count + i]);
    };
    out.emplace_back(size(x[i + 2].at[0]), size(x[i + 2].at[1]));
  }
  n.out(std::move(out));
}

void infer_pool(Inference& n) {
  const Extents& x = n.shape();
  const Window w = window(n, n.integers("kernel_shape"));
  if (w.kernel.size() + 2 != x.size())
    n.fail("a window of " + std::to_string(w.kernel.size()) + " dimensions over " + to_string(x));
  const Extents out = slid(n, {x[0], x[1]}, x, w, n.integer("ceil_mode", 0) != 0);
  n.out(out);
  n.out(1, out, DType::int64);
}

void infer_global_pool(Inference& n) {
  Extents out = n.shape();
  if (out.size() < 3) n.fail("expects [N, C, ...], its input is " + to_string(out));
  std::fill(out.begin() + 2, out.end(), Extent(1));
  n.out(std::move(out));
}

void infer_gemm(Inference& n) {
  Extents a = n.shape(0);
  Extents b = n.shape(1);
  if (a.size() != 2 || b.size() != 2) n.fail("expects two matrices, got " + to_string(a) + " and " + to_string(b));
  if (n.integer("transA", 0) != 0) std::swap(a[0], a[1]);
  if (n.integer("transB", 0) != 0) std::swap(b[0], b[1]);
  if (!(a[1] == b[0])) n.fail("sizes " + to_string(a[1]) + " and " + to_string(b[0]) + " do not match");
  n.out({a[0], b[1]});
}

void infer_matmul(Inference& n) {
  Extents a = n.shape(0);
  Extents b = n.shape(1);
  if (a.empty() || b.empty()) n.fail("a product of a scalar");
  const bool row = a.size() == 1;
  const bool column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.emplace_back(1);
  if (!(a.back() == b[b.size() - 2]))
    n.fail("shapes " + to_string(a) + " and " + to_string(b) + " cannot be multiplied");
  Extents out = n.broadcast(Extents(a.begin(), a.end() - 2), Extents(b.begin(), b.end() - 2));
  if (!row) out.push_back(a[a.size() - 2]);
  if (!column) out.push_back(b.back());
  n.out(std::move(out));
}

void infer_batch_norm(Inference& n) {
  n.out(n.shape());
  for (std::size_t i = 1; i < n.outputs(); ++i) n.out(i, n.shape(3), n.in(3).type);
}

void infer_layer_norm(Inference& n) {
  const Extents& x = n.shape();
  const std::size_t axis = n.axis(n.integer("axis", -1), x.size());
  Extents statistics = x;
  std::fill(statistics.begin() + static_cast<std::ptrdiff_t>(axis), statistics.end(), Extent(1));
  n.out(x);
  n.out(1, statistics, DType::fp32);
  n.out(2, statistics, DType::fp32);
}

// LSTM, GRU, RNN: X [t, b, i], W [d, g h, i] -> Y [t, d, b, h], Y_h and Y_c [d, b, h].
void infer_recurrent(Inference& n) {
  const Extents& x = n.shape(0);
  const Extents& r = n.shape(2);
  if (x.size() != 3 || r.size() != 3) n.fail("expects [tokens, batch, features], its input is " + to_string(x));
  if (n.integer("layout", 0) != 0) n.fail("layout 1 is not supported");
  if (!(r[0] == Extent(1)) && !(r[0] == Extent(2)))
    n.fail("it has " + to_string(r[0]) + " directions, expected 1 or 2");
  const Extent hidden = r[2];
  n.out(0, {x[0], r[0], x[1], hidden}, n.in(0).type);
  n.out(1, {r[0], x[1], hidden}, n.in(0).type);
  n.out(2, {r[0], x[1], hidden}, n.in(0).type);
}

// What attention of onnxruntime's is made of (decompose.cpp): queries, keys and values of four dimensions.
void infer_attention(Inference& n) {
  Extents shape = n.shape();
  if (shape.size() != 4 || n.shape(1).size() != 4 || n.shape(2).size() != 4)
    n.fail("queries, keys and values have four dimensions");
  if (n.has(3) && n.shape(3).size() != 4) n.fail("its mask " + to_string(n.shape(3)) + " is not of every token");
  shape[3] = n.shape(2)[3];
  n.out(std::move(shape));
}

}  // namespace

std::vector<NamedRule> layer_rules() {
  return {{"Conv", infer_conv},
          {"ConvTranspose", infer_conv_transpose},
          {"MaxPool", infer_pool},
          {"AveragePool", infer_pool},
          {"GlobalAveragePool", infer_global_pool},
          {"GlobalMaxPool", infer_global_pool},
          {"Gemm", infer_gemm},
          {"MatMul", infer_matmul},
          {"ScaledDotProductAttention", infer_attention},
          {"BatchNormalization", infer_batch_norm},
          {"LayerNormalization", infer_layer_norm},
          {"LSTM", infer_recurrent},
          {"GRU", infer_recurrent},
          {"RNN", infer_recurrent}};
}

}  // namespace gpuplan::onnx_import

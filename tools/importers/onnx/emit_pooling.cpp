// Pooling, over images and over sequences.
//
// PyTorch pools [N, C, L] as images [N, C, 1, L]: torch.nn.functional's max_pool1d with a gradient, avg_pool1d and the
// adaptive ones are an unsqueeze, the pooling of two dimensions, and a squeeze (aten/src/ATen/native/Pooling.cpp).
#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/importers/onnx/emit_window.h"

namespace gpuplan::onnx_import {
namespace {

// Before opset 10 there is no ceil_mode: exporters pad the ends by what the last windows lack.
bool is_rounded_up(const Emission& e, const Windows& w) {
  const Paddings& p = w.pads;
  for (std::size_t i = 0; i < w.kernel.size(); ++i) {
    const std::int64_t size = e.fixed(e.shape()[i + 2], "a pooled size");
    const std::int64_t span = checked_add(size, 2 * p.before[i] - w.kernel[i]);
    std::int64_t positions = ceil_div(span, w.strides[i]) + 1;
    if (checked_mul(positions - 1, w.strides[i]) >= checked_add(size, p.before[i])) --positions;
    if (span < 0 || p.after[i] < p.before[i] || !(e.result().shape[i + 2] == Extent(positions))) return false;
  }
  return true;
}

// The layer over images, whose windows a sequence's have one row of.
void give_pooled(Emission& e, std::string from, const std::string& call) {
  const bool is_sequence = e.shape().size() == 3;
  if (is_sequence) from = e.writer().add(e.wish() + "_images", "Unsqueeze(2)", {from});
  const std::string pooled = e.writer().add(e.wish(), call, {from});
  e.give(is_sequence ? e.writer().add(e.wish() + "_sequences", "Squeeze(2)", {pooled}) : pooled);
}

// "[1, 3]" of a sequence's "3".
std::string over_images(const Emission& e, std::vector<std::int64_t> sizes, std::int64_t row) {
  if (e.shape().size() == 3) sizes.insert(sizes.begin(), row);
  return pair_text(sizes);
}

void emit_pool(Emission& e) {
  const bool max = e.node().op == "MaxPool";
  if (e.shape().size() != 3 && e.shape().size() != 4) e.fail("no layer pools " + to_string(e.shape()));
  if (e.outputs() > 1 && e.node().outputs[1] != kNone && !e.result(1).users.empty())
    e.fail("the indices of the maxima are used, which no layer returns");
  Windows w = windows_of(e, e.integers("kernel_shape"));
  const Paddings& p = w.pads;
  const bool counts = e.integer("count_include_pad", 0) != 0;
  if (!p.symmetric() && !max && !counts)
    e.fail("its sides are padded differently and not counted, which no layer supports");
  const bool rounds_up = e.integer("ceil_mode", 0) != 0 || (max && !p.symmetric() && is_rounded_up(e, w));
  if (rounds_up) w.pads.after = w.pads.before;
  if (!p.symmetric() && max) e.fail("its sides are padded differently, which no layer supports");
  const std::string from = padded_input(e, w);
  std::string call =
      (max ? "MaxPool2d(" : "AvgPool2d(") + over_images(e, w.kernel, 1) + ", stride=" + over_images(e, w.strides, 1);
  if (!p.none()) call += ", padding=" + over_images(e, p.before, 0);
  if (max && pair_text(w.dilations) != "1") call += ", dilation=" + over_images(e, w.dilations, 1);
  if (rounds_up) call += ", ceil_mode=True";
  if (!max && !counts && !p.none()) call += ", count_include_pad=False";
  give_pooled(e, from, call + ")");
}

void emit_global_average_pool(Emission& e) {
  if (e.shape().size() <= 4) return give_pooled(e, e.input(0), "AdaptiveAvgPool2d(1)");
  std::vector<std::int64_t> dims;
  for (std::size_t i = 2; i < e.shape().size(); ++i) dims.push_back(static_cast<std::int64_t>(i));
  e.layer("Mean(dim=" + list_text(dims) + ", keepdim=True)");
}

void emit_global_max_pool(Emission& e) {
  if (e.shape().size() > 4) e.fail("no layer pools " + to_string(e.shape()));
  give_pooled(e, e.input(0), "AdaptiveMaxPool2d(1)");
}

// torch.nn.functional.local_response_norm: squares, averaged over neighbouring channels. PyTorch pools volumes
// [N, 1, C, H, W] with windows of [size, 1, 1]; as images [N, 1, C, H W] that are the same elements.
void emit_response_norm(Emission& e) {
  const Extents& x = e.shape();
  if (x.size() != 4) e.fail("no layer normalizes " + to_string(x) + " by neighbouring channels");
  const std::int64_t size = e.integer("size", 0);
  if (size < 1 || size > std::numeric_limits<std::int32_t>::max() / 2)
    e.fail("a window of " + std::to_string(size) + " channels");
  const auto factor = [&](const char* name, double usual) {
    const double value = e.real(name, usual);
    if (!std::isfinite(value)) e.fail(std::string(name) + " is not a number");
    return to_text(static_cast<float>(value));
  };
  const std::string from = e.input(0), wish = e.wish();
  const auto then = [&](const std::string& name, const std::string& call, const std::string& of) {
    return e.writer().add(wish + name, call, {of});
  };
  const std::string squares = e.writer().add(wish + "_squares", "Mul()", {from, from});
  std::string sum = then("_channels", "View(" + e.sizes({x[0], 1, x[1], x[2] * x[3]}) + ")", squares);
  sum = then("_padded", "Pad(" + list_text({0, 0, size / 2, (size - 1) / 2}) + ")", sum);
  sum = then("_means", "AvgPool2d(" + list_text({size, 1}) + ", stride=1)", sum);
  sum = then("_images", "View(" + e.sizes(x) + ")", sum);
  sum = then("_scaled", "Mul(" + factor("alpha", 1e-4) + ")", sum);
  sum = then("_shifted", "Add(" + factor("bias", 1) + ")", sum);
  sum = then("_power", "Pow(" + factor("beta", 0.75) + ")", sum);
  e.give(e.writer().add(wish, "Div()", {from, sum}));
}

}  // namespace

std::vector<NamedEmitRule> pooling_emitters() {
  return {{"MaxPool", emit_pool},
          {"AveragePool", emit_pool},
          {"GlobalAveragePool", emit_global_average_pool},
          {"GlobalMaxPool", emit_global_max_pool},
          {"LRN", emit_response_norm}};
}

}  // namespace gpuplan::onnx_import

// ShiftedWindowAttention and PatchMerge: the functions of torchvision's Swin Transformer (swin_transformer.py).
//
// Attention within windows of an image [N, H, W, C], whose positions may be rolled by half a window first, with a
// learned bias for each relative position. Written as torchvision writes it: a padded copy, the rolled ones, the
// windows as a copy (a view where there is one window), one linear for query, key and value, two batched products, and
// back. The mask of a rolled image is made anew in every call. Locals live until the function returns.

#include <array>
#include <cmath>
#include <string>

#include "estimator/aten/linear.h"
#include "estimator/aten/pointwise.h"
#include "estimator/aten/rearrange.h"
#include "estimator/aten/softmax.h"
#include "estimator/aten/views.h"

namespace gpuplan::layers::shifted_window {
namespace {

struct Windows {
  std::int64_t n = 0, h = 0, w = 0, c = 0;  // of the image, padded to whole windows
  std::int64_t rows = 0, columns = 0;       // of a window
  std::int64_t shift_h = 0, shift_w = 0, heads = 0;
  double attention_dropout = 0, dropout = 0;
  bool shifted() const { return shift_h + shift_w > 0; }
  std::int64_t positions() const { return rows * columns; }
  std::int64_t each() const { return h / rows * (w / columns); }  // windows an image
};

struct Weights {
  TensorId qkv = kNone, qkv_bias = kNone, proj = kNone, proj_bias = kNone, table = kNone, index = kNone;
};

std::int64_t round_to(std::int64_t size, std::int64_t window) { return (size + window - 1) / window * window; }

Windows windows(LayerBuilder& b) {
  b.expect_rank(4, "[N, H, W, C]");
  const Shape in = b.shape(b.input());
  Windows s;
  s.n = in[0];
  s.c = b.size("dim", in[3], "channels");
  const Pair window = b.pair("window_size"), shift = b.pair("shift_size");
  if (window.h < 1 || window.w < 1) b.fail("window_size", "a window is empty", "expected sizes >= 1");
  if (shift.h < 0 || shift.w < 0) b.fail("shift_size", "a shift is negative", "expected sizes >= 0");
  s.rows = window.h, s.columns = window.w;
  s.h = round_to(in[1], window.h), s.w = round_to(in[2], window.w);
  s.shift_h = window.h >= s.h ? 0 : shift.h;  // one window has nothing to shift
  s.shift_w = window.w >= s.w ? 0 : shift.w;
  s.heads = b.size("num_heads");
  if (s.c % s.heads != 0)
    b.fail("num_heads", std::to_string(s.c) + " channels do not divide into " + std::to_string(s.heads) + " heads");
  s.attention_dropout = aten::probability(b, "attention_dropout");
  s.dropout = aten::probability(b, "dropout");
  return s;
}

Weights weights(LayerBuilder& b, const Windows& s) {
  Weights w;
  w.qkv = b.parameter("qkv.weight", {3 * s.c, s.c});
  if (b.boolean("qkv_bias")) w.qkv_bias = b.parameter("qkv.bias", {3 * s.c});
  w.proj = b.parameter("proj.weight", {s.c, s.c});
  if (b.boolean("proj_bias")) w.proj_bias = b.parameter("proj.bias", {s.c});
  w.table = b.parameter("relative_position_bias_table", {(2 * s.rows - 1) * (2 * s.columns - 1), s.heads});
  w.index = b.buffer("relative_position_index", {s.positions() * s.positions()}, DType::int64);
  return w;
}

TensorId relative_position_bias(LayerBuilder& b, const Windows& s, const Weights& w) {
  const TensorId rows = aten::index_rows(b, w.table, w.index);
  const TensorId pairs = aten::view(b, rows, {s.positions(), s.positions(), s.heads});
  return aten::unsqueeze(b, aten::contiguous(b, aten::permute(b, pairs, {2, 0, 1})), 0);
}

TensorId rolled(LayerBuilder& b, const Windows& s, TensorId image, int sign) {
  const std::array<aten::Roll1d, 2> rolls{{{sign * s.shift_h, 1}, {sign * s.shift_w, 2}}};
  return aten::roll(b, image, rolls);
}

TensorId partition(LayerBuilder& b, const Windows& s, TensorId x) {
  const TensorId tiles = aten::view(b, x, {s.n, s.h / s.rows, s.rows, s.w / s.columns, s.columns, s.c});
  return aten::reshape(b, aten::permute(b, tiles, {0, 1, 3, 2, 4, 5}), {s.n * s.each(), s.positions(), s.c});
}

TensorId reverse(LayerBuilder& b, const Windows& s, TensorId x) {
  const TensorId tiles = aten::view(b, x, {s.n, s.h / s.rows, s.w / s.columns, s.rows, s.columns, s.c});
  return aten::reshape(b, aten::permute(b, tiles, {0, 1, 3, 2, 4, 5}), {s.n, s.h, s.w, s.c});
}

struct Part {
  std::int64_t start = 0, count = 0;
};

// [0 : -window], [-window : -shift], [-shift :]; without a shift the second is empty and the third is everything.
std::array<Part, 3> parts_of(std::int64_t size, std::int64_t window, std::int64_t shift) {
  const Part last = shift == 0 ? Part{0, size} : Part{size - shift, shift};
  return {{{0, size - window}, {size - window, shift == 0 ? 0 : window - shift}, last}};
}

// A number for each part of the image that the roll moved by itself.
TensorId numbered_parts(LayerBuilder& b, const Windows& s, DType dtype) {
  TensorId parts = b.emit(Operator::new_zeros, Fill{s.h * s.w}, {}, {s.h, s.w}, dtype);
  double number = 0;
  for (const Part& rows : parts_of(s.h, s.rows, s.shift_h))
    for (const Part& columns : parts_of(s.w, s.columns, s.shift_w)) {
      if (rows.count * columns.count > 0) {
        parts = b.emit_in_place(Operator::fill_, Fill{rows.count * columns.count}, {parts});
        b.attributes({{Attribute::value, number},
                      {Attribute::dim, 0},
                      {Attribute::start, rows.start},
                      {Attribute::size, rows.count},
                      {Attribute::dim, 1},
                      {Attribute::start, columns.start},
                      {Attribute::size, columns.count}});
      }
      ++number;
    }
  return parts;
}

// -100 where two positions of a window come from different parts of the image.
TensorId attention_mask(LayerBuilder& b, const Windows& s, DType dtype) {
  const TensorId regions = numbered_parts(b, s, dtype);
  const TensorId tiles = aten::view(b, regions, {s.h / s.rows, s.rows, s.w / s.columns, s.columns});
  const TensorId each = aten::reshape(b, aten::permute(b, tiles, {0, 2, 1, 3}), {s.each(), s.positions()});
  const TensorId difference =
      aten::binary(b, aten::Binary::sub, aten::unsqueeze(b, each, 1), aten::unsqueeze(b, each, 2));
  const Shape shape = b.shape(difference);
  const std::array reads{difference};
  const TensorId apart = aten::no_grad(b, Operator::ne, reads, shape, DType::boolean, {{Attribute::other, 0}});
  const TensorId filled = aten::masked_fill(b, difference, apart, -100);
  const TensorId together = aten::no_grad(b, Operator::eq, reads, shape, DType::boolean, {{Attribute::other, 0}});
  const TensorId mask = aten::masked_fill(b, filled, together, 0);
  b.hold({difference});
  return mask;
}

TensorId add_mask(LayerBuilder& b, const Windows& s, TensorId scores, TensorId mask) {
  const std::int64_t t = s.positions();
  const TensorId by_image = aten::view(b, scores, {s.n, s.each(), s.heads, t, t});
  const TensorId sum = aten::add(b, by_image, aten::unsqueeze(b, aten::unsqueeze(b, mask, 1), 0));
  return aten::view(b, sum, {s.n * s.each(), s.heads, t, t});
}

// x[:, :h, :w, :].contiguous()
TensorId unpad(LayerBuilder& b, TensorId x, const Shape& to) {
  const Shape from = b.shape(x);
  for (const int dim : {1, 2})
    if (b.before(aten::kElidesFullSlices) || to[dim] != from[dim]) x = aten::slice(b, x, dim, 0, to[dim]);
  return aten::contiguous(b, x);
}

void lower_attention(LayerBuilder& b) {
  const Windows s = windows(b);
  const Weights w = weights(b, s);
  const Shape in = b.shape(b.input());
  const TensorId bias = relative_position_bias(b, s, w);
  const std::array<aten::Padding1d, 3> sides{{{0, 0}, {0, s.w - in[2]}, {0, s.h - in[1]}}};
  TensorId image = aten::constant_pad(b, b.input(), sides);
  if (s.shifted()) image = rolled(b, s, image, -1);
  const TensorId tiles = partition(b, s, image);

  const std::int64_t batch = s.n * s.each(), t = s.positions();
  const TensorId qkv = aten::linear(b, tiles, w.qkv, w.qkv_bias);
  const TensorId split = aten::reshape(b, qkv, {batch, t, 3, s.heads, s.c / s.heads});
  const TensorId parts = aten::permute(b, split, {2, 0, 3, 1, 4});
  const TensorId q = aten::select(b, parts, 0, 0);
  const TensorId k = aten::select(b, parts, 0, 1);
  const TensorId v = aten::select(b, parts, 0, 2);
  const double scale = 1 / std::sqrt(static_cast<double>(s.c) / static_cast<double>(s.heads));
  const TensorId scaled = aten::binary_number(b, aten::Binary::mul, q, scale);
  TensorId scores = aten::add(b, aten::matmul(b, scaled, aten::transpose(b, k, -2, -1)), bias);
  TensorId mask = bias;
  if (s.shifted()) {
    mask = attention_mask(b, s, b.dtype(tiles));
    scores = add_mask(b, s, scores, mask);
  }
  const TensorId p = aten::dropout(b, aten::softmax(b, scores, -1), s.attention_dropout, b.training());

  const TensorId mixed = aten::transpose(b, aten::matmul(b, p, v), 1, 2);
  const TensorId joined = aten::reshape(b, mixed, {batch, t, s.c});
  b.hold({tiles});
  const TensorId projected = aten::dropout(b, aten::linear(b, joined, w.proj, w.proj_bias), s.dropout, b.training());
  TensorId y = reverse(b, s, projected);
  if (s.shifted()) y = rolled(b, s, y, 1);
  y = unpad(b, y, in);
  b.hold({scaled, qkv, p, mask, bias});
  b.output(y);
}

// Four images of every second row and column, joined along the channels; odd sizes are padded by one first.
void lower_merge(LayerBuilder& b) {
  b.expect_rank(4, "[N, H, W, C]");
  const Shape in = b.shape(b.input());
  const std::array<aten::Padding1d, 3> sides{{{0, 0}, {0, in[2] % 2}, {0, in[1] % 2}}};
  const TensorId x = aten::constant_pad(b, b.input(), sides);
  const Shape padded = b.shape(x);
  std::array<TensorId, 4> parts{};
  // x0 = x[0::2, 0::2], x1 = x[1::2, 0::2], x2 = x[0::2, 1::2], x3 = x[1::2, 1::2]
  for (int i = 0; i < 4; ++i)
    parts[static_cast<std::size_t>(i)] =
        aten::slice(b, aten::slice(b, x, 1, i % 2, padded[1] / 2, 2), 2, i / 2, padded[2] / 2, 2);
  b.output(aten::cat(b, parts, 3));
}

const LayerDef kLayers[] = {
    {.name = "ShiftedWindowAttention",
     .summary = "attention within the windows of an image, with a bias by relative position",
     .math = "x [N, H, W, C] in windows of t positions: softmax(q k^T / sqrt(C / heads) + bias) v, then a projection.\n"
             "Saved: the windows, query, key and value copies, the probabilities and the projection's input.",
     .parameters = {{"dim", ParameterType::size, "", "channels of the input, or _"},
                    {"window_size", ParameterType::pair, "", "rows and columns of a window"},
                    {"shift_size", ParameterType::pair, "", "how far the image is rolled; 0: not"},
                    {"num_heads", ParameterType::size, "", "heads"},
                    {"qkv_bias", ParameterType::boolean, "True", "bias of query, key and value"},
                    {"proj_bias", ParameterType::boolean, "True", "bias of the projection"},
                    {"attention_dropout", ParameterType::real, "0.0", "of the probabilities"},
                    {"dropout", ParameterType::real, "0.0", "of the result"}},
     .lower = lower_attention,
     .example = {.call = "ShiftedWindowAttention(8, [7, 7], [0, 0], num_heads=2)",
                 .input_shapes = {{2, 14, 14, 8}},
                 .parameters = 626,
                 .forward_macs = 407'680,
                 .backward_macs = 815'360,
                 .saved_bytes = 216'384,
                 .derivation = "(8*24 + 24) + (8*8 + 8) + 169*2 parameters; 392*8*24 + 2*(16*49*49*4) + 392*8*8 "
                               "multiply-adds; the windows, q, k, v and the projection's input are 12,544 bytes each, "
                               "the probabilities 16*49*49*4; the index, 19,208, is a buffer"}},
    {.name = "PatchMerge",
     .summary = "every second row and column of an image as channels",
     .math = "x [N, H, W, C] -> y [N, H/2, W/2, 4 C], odd sizes padded by one. Saved: nothing.",
     .lower = lower_merge,
     .example = {.call = "PatchMerge()",
                 .input_shapes = {{2, 14, 14, 8}},
                 .output_shape = {2, 7, 7, 32},
                 .derivation = "only sizes are saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::shifted_window

#include "estimator/report/count_as.h"

#include <algorithm>
#include <array>

#include "estimator/base/integers.h"

namespace gpuplan {

namespace {

// What the rules tell apart. Layers that no tool charges (Flatten, Dropout, Cat, ...) are `other`.
enum class Kind : std::uint8_t {
  convolution,
  transposed_convolution,
  linear,
  batch_norm,
  layer_norm,
  layer_norm_2d,  // torchvision's subclass, which exact type checks miss
  relu,
  relu6,
  gelu,
  silu,
  softmax,
  max_pool,
  average_pool,
  adaptive_pool,
  embedding,
  upsample,
  interpolate,  // the function, which module hooks miss
  other
};

Kind kind_of(std::string_view type) {
  struct Row {
    std::string_view type;
    Kind kind;
  };
  static constexpr std::array<Row, 24> kRows = {{{"Conv1d", Kind::convolution},
                                                 {"Conv2d", Kind::convolution},
                                                 {"Conv3d", Kind::convolution},
                                                 {"ConvTranspose2d", Kind::transposed_convolution},
                                                 {"Linear", Kind::linear},
                                                 {"BatchNorm1d", Kind::batch_norm},
                                                 {"BatchNorm2d", Kind::batch_norm},
                                                 {"LayerNorm", Kind::layer_norm},
                                                 {"LayerNorm2d", Kind::layer_norm_2d},
                                                 {"ReLU", Kind::relu},
                                                 {"ReLU6", Kind::relu6},
                                                 {"GELU", Kind::gelu},
                                                 {"SiLU", Kind::silu},
                                                 {"Softmax", Kind::softmax},
                                                 {"MaxPool1d", Kind::max_pool},
                                                 {"MaxPool2d", Kind::max_pool},
                                                 {"AvgPool1d", Kind::average_pool},
                                                 {"AvgPool2d", Kind::average_pool},
                                                 {"AdaptiveAvgPool1d", Kind::adaptive_pool},
                                                 {"AdaptiveAvgPool2d", Kind::adaptive_pool},
                                                 {"AdaptiveMaxPool2d", Kind::adaptive_pool},
                                                 {"Embedding", Kind::embedding},
                                                 {"Interpolate", Kind::interpolate},
                                                 {"Upsample", Kind::upsample}}};
  const auto* const row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.type == type; });
  return row == kRows.end() ? Kind::other : row->kind;
}

bool is_convolution(Kind kind) { return kind == Kind::convolution || kind == Kind::transposed_convolution; }
bool is_product_module(Kind kind) { return is_convolution(kind) || kind == Kind::linear; }
bool is_pool(Kind kind) { return kind == Kind::max_pool || kind == Kind::average_pool || kind == Kind::adaptive_pool; }

// A layer as the rules see it.
struct Counts {
  Kind kind = Kind::other;
  std::int64_t macs = 0;
  std::int64_t input = 0, output = 0;  // elements
  std::int64_t batch = 1;
  std::int64_t parameters = 0;
  std::int64_t bias = 0;                                   // additions of a bias: one an output element, or none
  std::int64_t input_positions = 0, output_positions = 0;  // elements / channels, of convolutions
  std::int64_t image = 0;                                  // height x width of the output
  bool affine = false;
};

// Weights are used once an output position (an input position, for a transposed convolution), so what a layer owns
// beyond macs / positions is its bias. Tied weights are owned elsewhere and have none.
bool has_bias(const Counts& c, std::int64_t positions) {
  return c.parameters > 0 && positions > 0 && c.parameters > c.macs / positions;
}

Counts counts_of(const LayerRow& layer) {
  Counts c;
  c.kind = kind_of(layer.type);
  c.macs = layer.forward_macs;
  c.input = layer.input_shapes.empty() ? 0 : layer.input_shapes[0].elements();
  c.output = layer.output_shape.elements();
  c.parameters = layer.parameters;
  c.affine = layer.parameters > 0;
  const Shape& out = layer.output_shape;
  if (out.rank() > 0) c.batch = out[0];
  if (out.rank() > 2) c.image = out.elements(2, out.rank());
  if (out.rank() > 1) c.output_positions = c.output / out[1];
  if (!layer.input_shapes.empty() && layer.input_shapes[0].rank() > 1)
    c.input_positions = c.input / layer.input_shapes[0][1];
  std::int64_t positions = c.output_positions;
  if (c.kind == Kind::linear) positions = out.rank() > 0 ? c.output / out[-1] : 0;
  if (c.kind == Kind::transposed_convolution) positions = c.input_positions;
  if (is_product_module(c.kind) && has_bias(c, positions)) c.bias = c.output;
  return c;
}

std::int64_t fvcore(const Counts& c) {
  switch (c.kind) {
    case Kind::batch_norm: return checked_mul(c.affine ? 2 : 1, c.output);
    case Kind::layer_norm:
    case Kind::layer_norm_2d: return checked_mul(c.affine ? 5 : 4, c.output);
    case Kind::adaptive_pool: return c.input;
    case Kind::upsample:
    case Kind::interpolate: return checked_mul(4, c.output);
    default: return c.macs;
  }
}

std::int64_t ptflops(const Counts& c) {
  if (is_product_module(c.kind)) return checked_add(c.macs, c.bias);
  if (is_pool(c.kind)) return c.input;
  switch (c.kind) {
    case Kind::batch_norm: return checked_mul(c.affine ? 2 : 1, c.output);
    case Kind::layer_norm:
    case Kind::relu:
    case Kind::relu6:
    case Kind::gelu:
    case Kind::upsample: return c.output;
    default: return 0;
  }
}

// Weights times output positions: a transposed convolution uses each weight once an input position instead.
std::int64_t macs_by_output(const Counts& c) {
  return c.input_positions == 0 ? 0 : checked_mul(c.macs / c.input_positions, c.output_positions);
}

std::int64_t thop(const Counts& c) {
  switch (c.kind) {
    case Kind::convolution:
    case Kind::linear: return c.macs;
    case Kind::transposed_convolution: return macs_by_output(c);
    case Kind::batch_norm:
    case Kind::layer_norm: return checked_mul(c.affine ? 4 : 2, c.output);
    case Kind::adaptive_pool: return checked_add(c.input, c.output);
    case Kind::average_pool: return c.output;
    case Kind::upsample: return checked_mul(11, c.output);
    default: return 0;
  }
}

std::int64_t torchinfo(const Counts& c) {
  if (c.kind == Kind::transposed_convolution) return checked_add(macs_by_output(c), c.bias);
  if (is_product_module(c.kind)) return checked_add(c.macs, c.bias);
  switch (c.kind) {
    case Kind::batch_norm:
    case Kind::layer_norm:
    case Kind::layer_norm_2d:
    case Kind::embedding: return checked_mul(c.batch, c.parameters);
    default: return 0;
  }
}

std::int64_t deepspeed(const Counts& c) {
  if (is_convolution(c.kind)) return checked_add(checked_mul(2, c.macs), c.bias);
  if (is_pool(c.kind)) return c.input;
  switch (c.kind) {
    case Kind::batch_norm: return checked_mul(c.affine ? 2 : 1, c.output);
    case Kind::layer_norm:
    case Kind::layer_norm_2d: return checked_mul(c.affine ? 5 : 4, c.output);
    case Kind::upsample:
    case Kind::interpolate: return checked_mul(c.batch, c.image);  // prod(size): the channels are lost
    case Kind::relu:
    case Kind::gelu:
    case Kind::silu:
    case Kind::softmax: return c.output;
    default: return checked_mul(2, c.macs);
  }
}

std::int64_t torch(const Counts& c) { return checked_mul(2, c.macs); }

struct Tool {
  std::string_view name, unit;
  std::int64_t (*count)(const Counts&);
};

const Tool& rules_of(CountingTool tool) {
  static constexpr std::array<Tool, 6> kTools = {{{"fvcore", "flops", fvcore},
                                                  {"ptflops", "MACs", ptflops},
                                                  {"thop", "macs", thop},
                                                  {"torchinfo", "mult-adds", torchinfo},
                                                  {"deepspeed", "flops", deepspeed},
                                                  {"torch", "FLOPs", torch}}};
  return kTools[static_cast<std::size_t>(tool)];
}

bool is_loss(const LayerRow& layer) { return layer.type.ends_with("Loss"); }

}  // namespace

std::string_view name_of(CountingTool tool) { return rules_of(tool).name; }
std::string_view unit_of(CountingTool tool) { return rules_of(tool).unit; }

std::int64_t count_as(CountingTool tool, const LayerRow& layer) { return rules_of(tool).count(counts_of(layer)); }

std::int64_t count_as_per_sample(CountingTool tool, const Report& report) {
  std::int64_t total = 0;
  for (LayerRow layer : report.layers) {
    if (is_loss(layer)) continue;
    layer.forward_macs /= report.run.micro_batches;  // shapes are those of one of them
    total = checked_add(total, count_as(tool, layer));
  }
  return total / std::max<std::int64_t>(report.run.batch / report.run.micro_batches, 1);
}

}  // namespace gpuplan

// LayerNorm, RMSNorm over the last dimensions, GroupNorm over groups of channels, InstanceNorm2d over each image's.
//
// What runs and what is saved: estimator/aten/normalization.h.

#include "estimator/aten/normalization.h"
#include "estimator/aten/weight.h"

#include <limits>
#include <string>

namespace gpuplan::layers::normalization {
namespace {

// The sizes that are normalised over, which the input must end in; each may be _.
Shape normalized(const LayerBuilder& b) {
  const Shape in = b.shape(b.input());
  const std::vector<std::int64_t> sizes = b.integers("normalized_shape");
  const int rank = static_cast<int>(sizes.size());
  Shape out;
  for (int i = 0; i < rank; ++i) {
    const std::int64_t n = sizes[static_cast<std::size_t>(i)];
    out.push_back(n == -1 && rank <= in.rank() ? in[i - rank] : n);
  }
  bool fits = rank <= in.rank();
  for (int i = 1; fits && i <= rank; ++i) fits = out[-i] == in[-i];
  if (!fits)
    b.fail("normalized_shape", "the input " + to_string(in) + " does not end in " + to_string(out),
           "expected " + std::to_string(in[-1]));
  return out;
}

// Whether the layer has weights of its own. `flags` say so, the first of them of all its weights.
bool has_own_weights(const LayerBuilder& b, std::initializer_list<const char*> flags) {
  for (const char* own : flags)
    if (b.input_count() > 1 && b.given(own) && b.boolean(own))
      b.fail(own, "the weight is an input, the layer has none of its own", "expected no " + std::string(own));
  return b.boolean(*flags.begin()) && b.input_count() == 1;
}

void lower_layer_norm(LayerBuilder& b) {
  const Shape shape = normalized(b);
  const bool affine = has_own_weights(b, {"elementwise_affine", "bias"});
  const TensorId weight = aten::weight(b, affine, "weight", 1, shape);
  const TensorId bias = aten::weight(b, affine && b.boolean("bias"), "bias", 2, shape);
  b.output(aten::layer_norm(b, b.input(), shape.rank(), weight, bias, b.real("eps")));
}

void lower_rms_norm(LayerBuilder& b) {
  const Shape shape = normalized(b);
  const TensorId weight = aten::weight(b, has_own_weights(b, {"elementwise_affine"}), "weight", 1, shape);
  // None is torch.finfo(x.dtype).eps, of the type that is computed in.
  const double eps = b.is_none("eps") ? std::numeric_limits<float>::epsilon() : b.real("eps");
  b.output(aten::rms_norm(b, b.input(), shape.rank(), weight, eps));
}

void lower_group_norm(LayerBuilder& b) {
  const Shape in = b.shape(b.input());
  if (in.rank() < 2) b.fail("expects an input [N, C, ...], got " + to_string(in));
  const std::int64_t groups = b.size("num_groups");
  const std::int64_t c = b.size("num_channels", in[1], "channels");
  if (c % groups != 0)
    b.fail("num_groups", std::to_string(c) + " channels do not divide into " + std::to_string(groups) + " groups");
  const bool affine = has_own_weights(b, {"affine", "bias"});
  const TensorId weight = aten::weight(b, affine, "weight", 1, {c});
  const TensorId bias = aten::weight(b, affine && b.boolean("bias"), "bias", 2, {c});
  b.output(aten::group_norm(b, b.input(), groups, weight, bias, b.real("eps")));
}

void lower_instance_norm(LayerBuilder& b) {
  b.expect_rank(4, "[N, C, H, W]");
  const std::int64_t c = b.size("num_features", b.shape(b.input())[1], "channels");
  if (b.boolean("track_running_stats"))
    b.fail("track_running_stats", "running statistics are not supported", "expected False");
  const bool affine = b.boolean("affine");
  const TensorId weight = affine ? b.parameter("weight", {c}) : kNone;
  const TensorId bias = affine ? b.parameter("bias", {c}) : kNone;
  b.output(aten::instance_norm(b, b.input(), weight, bias, b.real("eps")));
}

const ParameterDef kNormalizedShape{"normalized_shape", ParameterType::size, "", "the last sizes of the input, or _"};
const ParameterDef kEps{"eps", ParameterType::real, "1e-05", "added to the variance; changes no size"};
const ParameterDef kElementwiseAffine{"elementwise_affine", ParameterType::boolean, "True",
                                      "learnable weight and bias"};

const LayerDef kLayers[] = {
    {.name = "LayerNorm",
     .summary = "layer normalisation over the last dimensions",
     .math =
         "y = (x - mean) / sqrt(var + eps) * weight + bias over each row. Under autocast in fp32. A weight and a bias "
         "that the model computes are inputs 1 and 2.\n"
         "Saved: x, mean and 1 / sqrt(var + eps) of each row in fp32.",
     .parameters =
         {kNormalizedShape, kEps, kElementwiseAffine, {"bias", ParameterType::boolean, "True", "with a bias"}},
     .max_inputs = 3,
     .lower = lower_layer_norm,
     .example = {.call = "LayerNorm(768)",
                 .input_shapes = {{8, 197, 768}},
                 .parameters = 1536,
                 .saved_bytes = 4'854'080,
                 .derivation = "x is 8*197*768*4 bytes, two statistics of 8*197*4"}},
    {.name = "RMSNorm",
     .summary = "root-mean-square normalisation over the last dimensions",
     .math =
         "y = x / sqrt(mean(x^2) + eps) * weight. One kernel from PyTorch 2.10 on; before, pow, mean, rsqrt and two "
         "products. A weight that the model computes is input 1.\nSaved: x and 1 / sqrt(...) of each row in fp32; "
         "before 2.10 also x / sqrt(...).",
     .parameters = {kNormalizedShape,
                    {"eps", ParameterType::real, "None", "added to the mean; changes no size"},
                    {"elementwise_affine", ParameterType::boolean, "True", "learnable weight"}},
     .max_inputs = 2,
     .lower = lower_rms_norm,
     .example = {.call = "RMSNorm(768)",
                 .input_shapes = {{8, 197, 768}},
                 .parameters = 768,
                 .saved_bytes = 4'847'776,
                 .derivation = "x is 8*197*768*4 bytes, one statistic of 8*197*4"}},
    {.name = "GroupNorm",
     .summary = "normalisation over groups of channels",
     .math = "y = (x - mean) / sqrt(var + eps) * weight + bias over each group of a sample. Under autocast in fp32.\n"
             "A weight and a bias that the model computes are inputs 1 and 2.\n"
             "Saved: x, mean and 1 / sqrt(var + eps) of each group, in x's type.",
     .parameters = {{"num_groups", ParameterType::size, "", "groups that the channels divide into"},
                    {"num_channels", ParameterType::size, "", "channels of the input, or _"},
                    kEps,
                    {"affine", ParameterType::boolean, "True", "learnable weight and bias [C]"},
                    {"bias", ParameterType::boolean, "True", "with a bias, where it is affine"}},
     .max_inputs = 3,
     .lower = lower_group_norm,
     .example = {.call = "GroupNorm(32, 256)",
                 .input_shapes = {{4, 256, 28, 28}},
                 .parameters = 512,
                 .saved_bytes = 3'212'288,
                 .derivation = "x is 4*256*28*28*4 bytes, two statistics of 4*32*4"}},
    {.name = "InstanceNorm2d",
     .summary = "normalisation over each channel of each image",
     .math = "Batch norm of [1, N C, H, W] with the batch's statistics, in eval too.\n"
             "Saved: x, two statistics of N C values, the weight repeated N times.",
     .parameters = {{"num_features", ParameterType::size, "", "channels of the input, or _"},
                    kEps,
                    {"momentum", ParameterType::real, "0.1", "of running statistics"},
                    {"affine", ParameterType::boolean, "False", "learnable weight and bias [C]"},
                    {"track_running_stats", ParameterType::boolean, "False", "not supported: False"}},
     .lower = lower_instance_norm,
     .example = {.call = "InstanceNorm2d(64)",
                 .input_shapes = {{4, 64, 28, 28}},
                 .saved_bytes = 804'864,
                 .derivation = "x is 4*64*28*28*4 bytes, two statistics of 4*64*4"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::normalization

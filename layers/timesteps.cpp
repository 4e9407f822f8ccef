// Timesteps: how far along the noise is, as sines and cosines.
//
// diffusers/models/embeddings.py, get_timestep_embedding with flip_sin_to_cos: frequencies exp(-log(10000) i / half) in
// fp32, times the timesteps in fp32; then [sin, cos], whose halves are swapped by a second concatenation. The exponents
// live until the function returns. The model casts the result to its weights' type.

#include <cmath>

#include "estimator/aten/pointwise.h"
#include "estimator/aten/views.h"

namespace gpuplan::layers::timesteps {
namespace {

TensorId make(LayerBuilder& b, Operator op, Operands reads, const Shape& shape,
              std::initializer_list<AttributeValue> attributes = {}) {
  return aten::no_grad(b, op, reads, shape, DType::fp32, attributes);
}

constexpr double kMaxPeriod = 10000;

void lower(LayerBuilder& b) {
  b.expect_rank(1, "[N]");
  const std::int64_t channels = b.size("num_channels");
  if (channels % 2 != 0) b.fail("num_channels", "num_channels is odd", "expected as many sines as cosines");
  const std::int64_t batch = b.shape(b.input())[0];
  const Shape row{channels / 2}, half{batch, channels / 2}, whole{batch, channels};
  const TensorId scaled = make(b, Operator::mul, {make(b, Operator::arange, {}, row, {{Attribute::start, 0}})}, row,
                               {{Attribute::other, -std::log(kMaxPeriod)}});
  const TensorId exponent = make(b, Operator::div, {scaled}, row, {{Attribute::other, channels / 2}});
  const TensorId frequency = make(b, Operator::exp, {exponent}, row);
  const TensorId time = make(b, Operator::to, {aten::unsqueeze(b, b.input(), 1)}, {batch, 1});
  const TensorId angle =
      make(b, Operator::mul, {make(b, Operator::mul, {time, frequency}, half)}, half, {{Attribute::other, 1}});
  const TensorId sine = make(b, Operator::sin, {angle}, half);
  const TensorId cosine = make(b, Operator::cos, {angle}, half);
  const TensorId joined = make(b, Operator::cat, {sine, cosine}, whole, {{Attribute::dim, 1}});
  b.hold({angle});  // the name is bound anew
  const Strides steps = b.strides(joined);
  const TensorId first = b.alias(joined, half, steps), second = b.alias(joined, half, steps, channels / 2);
  const TensorId flipped = make(b, Operator::cat, {second, first}, whole, {{Attribute::dim, 1}});
  b.hold({joined});
  b.hold({exponent});
  b.output(b.cast(flipped, b.run().precision));
}

const LayerDef kLayers[] = {
    {.name = "Timesteps",
     .summary = "timesteps of diffusion as sines and cosines",
     .math = "t [N] -> [cos(t w), sin(t w)] [N, num_channels] with w_i = 10000^(-2 i / num_channels). No gradient.",
     .parameters = {{"num_channels", ParameterType::size, "", "how many sines and cosines together"}},
     .indices = true,
     .lower = lower,
     .example = {.call = "Timesteps(320)",
                 .input_shapes = {{4}},
                 .input_dtype = DType::int64,
                 .output_shape = {4, 320},
                 .derivation = "160 cosines and 160 sines a sample; nothing is saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::timesteps

// T5LayerNorm: Hugging Face's T5 norm, a root-mean-square norm written in Python.
//
// transformers/models/t5/modeling_t5.py: the mean square is of a copy in fp32, but it is the input itself that is
// scaled; a model of half precision converts the product. In fp32 it runs what LlamaRMSNorm does.

#include "estimator/aten/pointwise.h"

namespace gpuplan::layers::t5_norm {
namespace {

void lower(LayerBuilder& b) {
  const TensorId x = b.input();
  const Shape in = b.shape(x);
  if (in.rank() < 1) b.fail("expects an input [..., features]");
  const TensorId weight = b.parameter("weight", {b.size("hidden_size", in[-1], "input features")});
  const TensorId square = aten::pow_number(b, b.cast(x, DType::fp32), 2);
  const TensorId variance = aten::reduce(b, square, 1U << (in.rank() - 1), true, true);
  const TensorId factor = aten::rsqrt(b, aten::binary_number(b, aten::Binary::add, variance, b.real("eps")));
  const TensorId scaled = b.cast(aten::mul(b, x, factor), b.dtype(weight));
  b.output(aten::mul(b, weight, scaled));
  b.hold({scaled, variance});
}

const LayerDef kLayers[] = {
    {.name = "T5LayerNorm",
     .summary = "root-mean-square norm over the last dimension, as Hugging Face's T5 writes it",
     .math = "y = w * (x * rsqrt(mean(x.to(fp32)^2) + eps)).to(w.dtype); [..., n] -> [..., n], w [n].\n"
             "Saved: x, its copy in fp32 where it is of half precision, the factor a row, and x times it.",
     .parameters = {{"hidden_size", ParameterType::size, "", "size of the last dimension, or _"},
                    {"eps", ParameterType::real, "1e-6", "added to the mean square"}},
     .lower = lower,
     .example = {.call = "T5LayerNorm(64)",
                 .input_shapes = {{2, 10, 64}},
                 .parameters = 64,
                 .saved_bytes = 10'320,
                 .derivation = "x and the normalized input, 2*10*64*4 bytes each, and the factor of 2*10 rows, 80"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::t5_norm

// LlamaRMSNorm, GemmaRMSNorm, T5LayerNorm: Hugging Face's root-mean-square norms, written in Python.
//
// Every operator runs on its own (transformers/models/llama/modeling_llama.py, gemma/modeling_gemma.py): half inputs
// are copied to fp32 first, the copy is saved by pow and by the product, and the names of forward() live until it
// returns. Mistral, Qwen2, Mixtral use Llama's. T5's mean square (models/t5/modeling_t5.py) is of a copy in fp32, but
// it is the input itself that is scaled; a model of half precision converts the product. In fp32 it runs what Llama's
// does.

#include "estimator/aten/pointwise.h"

namespace gpuplan::layers::root_mean_square_norms {
namespace {

struct Factor {
  TensorId factor = kNone, variance = kNone;
};

// 1 / sqrt(mean(h^2) + eps) of every row of an fp32 tensor.
Factor factor_of(LayerBuilder& b, TensorId h) {
  const TensorId square = aten::pow_number(b, h, 2);
  const unsigned last = 1U << (b.shape(h).rank() - 1);
  const TensorId variance = aten::reduce(b, square, last, true, true);
  return {aten::rsqrt(b, aten::binary_number(b, aten::Binary::add, variance, b.real("eps"))), variance};
}

std::int64_t features(const LayerBuilder& b, std::string_view argument) {
  const Shape in = b.shape(b.input());
  if (in.rank() < 1) b.fail("expects an input [..., features]");
  if (!is_floating(b.dtype(b.input())))
    b.fail("expects a floating-point input, its input is " + std::string(name_of(b.dtype(b.input()))));
  return b.size(argument, in[-1], "input features");
}

void lower_llama(LayerBuilder& b) {
  const TensorId x = b.input();
  const TensorId weight = b.parameter("weight", {features(b, "hidden_size")});
  const TensorId h = b.cast(x, DType::fp32);
  const Factor f = factor_of(b, h);
  const TensorId scaled = aten::mul(b, h, f.factor);
  b.output(aten::mul(b, weight, b.cast(scaled, b.dtype(x))));
  b.hold({scaled, f.variance});
}

void lower_gemma(LayerBuilder& b) {
  const TensorId x = b.input();
  const TensorId weight = b.parameter("weight", {features(b, "dim")});
  const TensorId h = b.cast(x, DType::fp32);
  const TensorId scaled = aten::mul(b, h, factor_of(b, h).factor);
  b.hold({h});  // _norm() returns
  const TensorId scale = aten::binary_number(b, aten::Binary::add, b.cast(weight, DType::fp32), 1);
  const TensorId y = aten::mul(b, scaled, scale);
  b.output(b.cast(y, b.dtype(x)));
  b.hold({y});
}

void lower_t5(LayerBuilder& b) {
  const TensorId x = b.input();
  const Shape in = b.shape(x);
  if (in.rank() < 1) b.fail("expects an input [..., features]");
  const TensorId weight = b.parameter("weight", {b.size("hidden_size", in[-1], "input features")});
  const Factor f = factor_of(b, b.cast(x, DType::fp32));
  const TensorId scaled = b.cast(aten::mul(b, x, f.factor), b.dtype(weight));
  b.output(aten::mul(b, weight, scaled));
  b.hold({scaled, f.variance});
}

const ParameterDef kHiddenSize{"hidden_size", ParameterType::size, "", "size of the last dimension, or _"};
const ParameterDef kEps{"eps", ParameterType::real, "1e-6", "added to the mean square"};

const LayerDef kLayers[] = {
    {.name = "LlamaRMSNorm",
     .summary = "root-mean-square norm over the last dimension, as Hugging Face's Llama, Mistral and Qwen2 write it",
     .math = "h = x.to(fp32), y = w * (h * rsqrt(mean(h^2) + eps)).to(x.dtype); [..., n] -> [..., n], w [n].\n"
             "Saved: h (x itself in fp32), the factor a row, and h times it in x's type.",
     .parameters = {kHiddenSize, kEps},
     .lower = lower_llama,
     .example = {.call = "LlamaRMSNorm(64)",
                 .input_shapes = {{2, 10, 64}},
                 .parameters = 64,
                 .saved_bytes = 10'320,
                 .derivation = "x and the normalized input, 2*10*64*4 bytes each, and the factor of 2*10 rows, 80"}},
    {.name = "GemmaRMSNorm",
     .summary = "root-mean-square norm with a scale of 1 + w, as Hugging Face's Gemma writes it",
     .math = "h = x.to(fp32), y = (h * rsqrt(mean(h^2) + eps) * (1 + w)).to(x.dtype); [..., n] -> [..., n], w [n].\n"
             "Saved: h (x itself in fp32), the factor a row, h times it and 1 + w, all in fp32.",
     .parameters = {{"dim", ParameterType::size, "", "size of the last dimension, or _"}, kEps},
     .lower = lower_gemma,
     .example = {.call = "GemmaRMSNorm(64)",
                 .input_shapes = {{2, 10, 64}},
                 .parameters = 64,
                 .saved_bytes = 10'576,
                 .derivation = "x and the normalized input, 2*10*64*4 bytes each, the factors, 80, and 1 + w, 64*4"}},
    {.name = "T5LayerNorm",
     .summary = "root-mean-square norm over the last dimension, as Hugging Face's T5 writes it",
     .math = "y = w * (x * rsqrt(mean(x.to(fp32)^2) + eps)).to(w.dtype); [..., n] -> [..., n], w [n].\n"
             "Saved: x, its copy in fp32 where it is of half precision, the factor a row, and x times it.",
     .parameters = {kHiddenSize, kEps},
     .lower = lower_t5,
     .example = {.call = "T5LayerNorm(64)",
                 .input_shapes = {{2, 10, 64}},
                 .parameters = 64,
                 .saved_bytes = 10'320,
                 .derivation = "x and the normalized input, 2*10*64*4 bytes each, and the factor of 2*10 rows, 80"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::root_mean_square_norms

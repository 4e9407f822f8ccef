// LlamaRMSNorm, GemmaRMSNorm: Hugging Face's root-mean-square norms, written in Python.
//
// Every operator runs on its own (transformers/models/llama/modeling_llama.py, gemma/modeling_gemma.py): half inputs
// are copied to fp32 first, the copy is saved by pow and by the product, and the names of forward() live until it
// returns. Mistral, Qwen2, Mixtral, T5 use Llama's.

#include "estimator/aten/pointwise.h"

namespace gpuplan::layers::llama_norm {
namespace {

struct Normalized {
  TensorId y = kNone, variance = kNone;
};

// h / sqrt(mean(h^2) + eps) of an fp32 tensor.
Normalized normalized(LayerBuilder& b, TensorId h) {
  const TensorId square = aten::pow_number(b, h, 2);
  const unsigned last = 1U << (b.shape(h).rank() - 1);
  const TensorId variance = aten::reduce(b, square, last, true, true);
  const TensorId r = aten::rsqrt(b, aten::binary_number(b, aten::Binary::add, variance, b.real("eps")));
  return {aten::mul(b, h, r), variance};
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
  const Normalized n = normalized(b, b.cast(x, DType::fp32));
  b.output(aten::mul(b, weight, b.cast(n.y, b.dtype(x))));
  b.hold({n.y, n.variance});
}

void lower_gemma(LayerBuilder& b) {
  const TensorId x = b.input();
  const TensorId weight = b.parameter("weight", {features(b, "dim")});
  const TensorId h = b.cast(x, DType::fp32);
  const Normalized n = normalized(b, h);
  b.hold({h});  // _norm() returns
  const TensorId scale = aten::binary_number(b, aten::Binary::add, b.cast(weight, DType::fp32), 1);
  const TensorId y = aten::mul(b, n.y, scale);
  b.output(b.cast(y, b.dtype(x)));
  b.hold({y});
}

const LayerDef kLayers[] = {
    {.name = "LlamaRMSNorm",
     .summary = "root-mean-square norm over the last dimension, as Hugging Face's Llama, Mistral and Qwen2 write it",
     .math = "h = x.to(fp32), y = w * (h * rsqrt(mean(h^2) + eps)).to(x.dtype); [..., n] -> [..., n], w [n].\n"
             "Saved: h (x itself in fp32), the factor a row, and h times it in x's type.",
     .parameters = {{"hidden_size", ParameterType::size, "", "size of the last dimension, or _"},
                    {"eps", ParameterType::real, "1e-6", "added to the mean square"}},
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
     .parameters = {{"dim", ParameterType::size, "", "size of the last dimension, or _"},
                    {"eps", ParameterType::real, "1e-6", "added to the mean square"}},
     .lower = lower_gemma,
     .example = {.call = "GemmaRMSNorm(64)",
                 .input_shapes = {{2, 10, 64}},
                 .parameters = 64,
                 .saved_bytes = 10'576,
                 .derivation = "x and the normalized input, 2*10*64*4 bytes each, the factors, 80, and 1 + w, 64*4"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::llama_norm

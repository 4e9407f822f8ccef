// LoraAdapter: what peft adds to a layer's result, result + (dropout(x) A^T B^T) * scaling; DoraAdapter, of DoRA.
//
// peft/tuners/lora/layer.py, Linear.forward: the input is cast to the adapter's type, the sum back to the result's. The
// adapters of a half-precision model are fp32 (autocast_adapter_dtype). They are constructed after the whole model.
// Beside bitsandbytes' modules (lora/bnb.py) nothing is cast under autocast, else what is added; a result of 4 bits is
// cloned first.

#include "estimator/aten/linear.h"
#include "estimator/aten/pointwise.h"
#include "estimator/aten/vector_norm.h"
#include "estimator/aten/views.h"

namespace gpuplan::layers::lora {
namespace {

void lower(LayerBuilder& b) {
  const TensorId result = b.input(1);
  const std::int64_t rank = b.size("rank");
  const double p = b.real("dropout");
  if (!(p >= 0 && p < 1)) b.fail("dropout", "dropout is a probability", "expected 0 to below 1");
  const std::int64_t k = b.shape(b.input())[-1], n = b.shape(result)[-1];
  const TensorId weight_a = b.parameter("lora_A.default.weight", {rank, k});
  const TensorId weight_b = b.parameter("lora_B.default.weight", {n, rank});
  const bool stored = b.word("base") != "Linear";
  const bool converts = !stored || !b.autocast();
  const TensorId cloned = b.word("base") == "Linear4bit" ? aten::clone(b, result) : result;
  const TensorId x = converts ? b.cast(b.input(), b.dtype(weight_a)) : b.input();
  const TensorId dropped = p > 0 ? aten::dropout(b, x, p, b.training()) : x;
  const TensorId narrow = aten::linear(b, dropped, weight_a, kNone);
  b.hold({dropped});  // an argument until the call returns
  const TensorId wide = aten::linear(b, narrow, weight_b, kNone);
  TensorId scaled = aten::binary_number(b, aten::Binary::mul, wide, b.real("alpha") / static_cast<double>(rank));
  if (stored && converts) scaled = b.cast(scaled, b.dtype(result));
  const TensorId sum = aten::add(b, cloned, scaled);
  b.output(stored ? sum : b.cast(sum, b.dtype(result)));
  b.hold({x});
  if (stored) b.hold({scaled});
}

// The columns of the weight and what is added to it have a length, which a trained magnitude takes the place of; it is
// a constant to autograd (peft/tuners/lora/dora.py, DoraLinearLayer.forward, and lora/variants.py). `x` is the input
// that the adapter is given, `dropped` what dropout makes of it: with it the base's product is computed again.
struct Dora {
  TensorId x, dropped, result, weight, bias, weight_a, weight_b;
  bool transposed;  // Conv1D's
  double scaling;
};

TensorId in_autocast(LayerBuilder& b, TensorId t) { return b.autocast() ? b.cast(t, *b.autocast()) : t; }

TensorId dora(LayerBuilder& b, const Dora& of) {
  const std::int64_t k = b.shape(of.x)[-1], n = b.shape(of.result)[-1];
  const TensorId magnitude = b.parameter("lora_magnitude_vector.default.weight", {n});
  const bool was = b.leave_grad(true);
  const TensorId eye = b.emit(Operator::eye, Fill{k * k}, {}, Shape{k, k}, b.dtype(of.weight_a));
  const TensorId given = in_autocast(b, eye);
  const TensorId narrow_eye = aten::linear(b, given, of.weight_a, kNone);
  const TensorId product = aten::linear(b, narrow_eye, of.weight_b, kNone);
  b.hold({eye});
  const TensorId added = b.cast(aten::transpose(b, product, 0, 1), b.dtype(of.dropped));
  const TensorId weight = b.cast(of.weight, b.dtype(of.dropped));
  const TensorId rows = of.transposed ? aten::transpose(b, weight, 0, 1) : weight;
  const TensorId whole = aten::add(b, rows, aten::binary_number(b, aten::Binary::mul, added, of.scaling));
  const TensorId norm = b.cast(aten::vector_norm(b, whole, 1U << 1, false), b.dtype(whole));
  b.leave_grad(was);
  const TensorId scale = aten::view(b, aten::binary(b, aten::Binary::div, magnitude, norm), {1, n});
  const TensorId lora = aten::linear(b, aten::linear(b, of.dropped, of.weight_a, kNone), of.weight_b, kNone);
  TensorId base = of.result;
  if (of.x != of.dropped)
    base = aten::linear(b, of.dropped, rows, kNone);
  else if (of.bias != kNone)
    base = aten::binary(b, aten::Binary::sub, base, of.bias);
  const TensorId first = aten::mul(b, aten::binary_number(b, aten::Binary::sub, scale, 1, false, true), base);
  const TensorId second = aten::binary_number(b, aten::Binary::mul, aten::mul(b, scale, lora), of.scaling);
  const TensorId sum = aten::add(b, first, second);
  // Autograd's nodes of the first two products, which nothing goes back through, hold what they read.
  b.hold({given, narrow_eye, added, weight, norm, scale, lora, base});
  return sum;
}

void lower_dora(LayerBuilder& b) {
  const TensorId result = b.input(1);
  const std::int64_t rank = b.size("rank");
  const double p = b.real("dropout");
  const TensorId weight_a = b.parameter("lora_A.default.weight", {rank, b.shape(b.input())[-1]});
  const TensorId weight_b = b.parameter("lora_B.default.weight", {b.shape(result)[-1], rank});
  const TensorId x = b.cast(b.input(), b.dtype(weight_a));
  const TensorId dropped = p > 0 ? aten::dropout(b, x, p, b.training()) : x;
  const TensorId added = dora(b, {.x = x,
                                  .dropped = dropped,
                                  .result = result,
                                  .weight = b.input(2),
                                  .bias = b.input_count() > 3 ? b.input(3) : kNone,
                                  .weight_a = weight_a,
                                  .weight_b = weight_b,
                                  .transposed = b.boolean("transposed"),
                                  .scaling = b.real("alpha") / static_cast<double>(rank)});
  b.output(b.cast(aten::add(b, result, added), b.dtype(result)));
  b.hold({x, dropped, added, result});
}

const LayerDef kLayers[] = {
    {.name = "DoraAdapter",
     .summary = "a low-rank adapter beside a frozen layer, and a trained length of the columns of their sum",
     .math =
         "result + (m / |W + s B A| - 1) W x + (m / |W + s B A|) s B A x, s = alpha / rank; the norm, of each row of\n"
         "W [n, k], is a constant to autograd, and B A is made of an identity [k, k]. `--lora r=8,dora=true` puts one\n"
         "beside each target. Saved: as of LoraAdapter, and both factors of each product.",
     .parameters = {{"rank", ParameterType::size, "", "rows of A and columns of B"},
                    {"dropout", ParameterType::real, "0.0", "of what A is given, in training"},
                    {"alpha", ParameterType::real, "8.0", "times 1 / rank is the scale of the result"},
                    {"transposed", ParameterType::boolean, "False", "the layer's weight is [k, n], as Conv1D's"}},
     .min_inputs = 3,
     .max_inputs = 4,
     .adapter = true,
     .lower = lower_dora,
     .example = {.call = "DoraAdapter(8)",
                 .input_shapes = {{128, 784}, {128, 512}, {512, 784}},
                 .output_shape = {128, 512},
                 .parameters = 10'880,
                 .forward_macs = 9'455'616,
                 .backward_macs = 2'654'208,
                 .saved_bytes = 935'936,
                 .derivation = "8*784 + 512*8 + 512 parameters; (784 + 128)*8*(784 + 512) multiply-adds forward, twice "
                               "128*8*(784 + 512) backward; x and x A^T as of LoraAdapter, both results of 128*512*4 "
                               "bytes, and 3*512*4 of norms and lengths"}},
    {.name = "LoraAdapter",
     .summary = "result + (x A^T) B^T * alpha / rank, a low-rank adapter beside a frozen layer",
     .math = "x [..., k], result [..., n], A [r, k], B [n, r] -> [..., n]; m = product of the leading sizes.\n"
             "forward m r (k + n) multiply-adds, backward twice that. `lora:` of a model puts one beside each target.\n"
             "Saved: x after dropout and dropout's mask, x A^T, A (if x wants a gradient), B.",
     .parameters = {{"rank", ParameterType::size, "", "rows of A and columns of B"},
                    {"dropout", ParameterType::real, "0.0", "of what A is given, in training"},
                    {"alpha", ParameterType::real, "8.0", "times 1 / rank is the scale of the result"},
                    {"base", ParameterType::word, "Linear", "the module beside it: or Linear4bit, Linear8bitLt"}},
     .min_inputs = 2,
     .adapter = true,
     .lower = lower,
     .example = {.call = "LoraAdapter(8)",
                 .input_shapes = {{128, 784}, {128, 512}},
                 .output_shape = {128, 512},
                 .parameters = 10'368,
                 .forward_macs = 1'327'104,
                 .backward_macs = 2'654'208,
                 .saved_bytes = 405'504,
                 .derivation = "8*784 + 512*8 parameters; 128*8*(784 + 512) multiply-adds; x is 128*784*4 bytes and "
                               "x A^T 128*8*4"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::lora

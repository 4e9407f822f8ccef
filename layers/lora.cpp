// LoraAdapter: what peft adds to a layer's result, result + (dropout(x) A^T B^T) * scaling.
//
// peft/tuners/lora/layer.py, Linear.forward: the input is cast to the adapter's type, the sum back to the result's. The
// adapters of a half-precision model are fp32 (autocast_adapter_dtype). They are constructed after the whole model.
// Beside bitsandbytes' modules (lora/bnb.py) nothing is cast under autocast, else what is added; a result of 4 bits is
// cloned first.

#include "estimator/aten/linear.h"
#include "estimator/aten/pointwise.h"
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

const LayerDef kLayers[] = {
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

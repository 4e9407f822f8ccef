// The words of the command line for the values of RunConfig; what the reports print and what tools/ reads back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/list_text.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// The words of an enum's values in their order, with | between them; a value that no word asks for has none.
constexpr std::string_view all_words(Mode) { return "train|infer"; }
constexpr std::string_view all_words(Loop) { return "plain|function|loss_only"; }
constexpr std::string_view all_words(ZeroGrad) { return "forward|backward"; }
constexpr std::string_view all_words(SavedCheckpoint) { return "none|full|model|sharded"; }
constexpr std::string_view all_words(Kernels) { return "torch|liger"; }
constexpr std::string_view all_words(Like) { return "pytorch|trainer|accelerate|lightning"; }
constexpr std::string_view all_words(Scratch) { return "full|no-cudnn|none"; }
constexpr std::string_view all_words(SegmentOrder) { return "rising|driver"; }
constexpr std::string_view all_words(AllocatorKind) { return "caching|exact|cudaMalloc"; }
constexpr std::string_view all_words(BitsandbytesOptimizer::Rule) {
  return "adam|adamw|lion|ademamix|sgd|rmsprop|adagrad|lamb|lars";
}
constexpr std::string_view all_words(OptimizerImpl) { return "foreach|for-loop|fused"; }
constexpr std::string_view all_words(MemoryFormat) { return "nchw|nhwc"; }
constexpr std::string_view all_words(Attention) { return "auto|flash|efficient|cudnn|math|eager"; }
constexpr std::string_view all_words(WeightFormat) { return "|int8|int4|fp8|nf4|nf4:double|fp4|fp4:double"; }
constexpr std::string_view all_words(Generation::Part) { return "|prefill|decode"; }
constexpr std::string_view all_words(Generation::Cache) { return "dynamic|static|paged"; }
template <class Enum>
auto name_of(Enum value) -> decltype(all_words(value)) {
  return split(all_words(value), '|')[static_cast<std::size_t>(value)];
}
/// "sgd", "momentum", "nesterov", "adam", "amsgrad", "paged_adamw8bit", ...; "none" without one.
std::string name_of(const OptimizerConfig& optimizer);
/// "as-written", "none", "block", "every=2", or the pattern.
std::string checkpoint_text(const CheckpointConfig& checkpoint);
/// What the model is stored in: "fp32", "bf16", ...; "tf32" is fp32 whose products compute in TF32.
std::string_view precision_text(const RunConfig& run);
/// The words of a headline: "bf16", "fp32, amp bf16".
std::string precision_words(const RunConfig& run);
/// What else is asked for, in the words of a headline: "4 micro-batches", "checkpoint block", "decode of token 640".
std::vector<std::string> extra_words(const RunConfig& run);
/// As --lora says it: "r=16,alpha=32,dropout=0.05,targets=q_proj+v_proj".
std::string lora_text(const Lora& lora);
/// "2.15", "1.13"
std::string version_text(PyTorchVersion version);

}  // namespace gpuplan

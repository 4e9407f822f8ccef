// The words of the command line for the values of RunConfig; what the reports print and what tools/ reads back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/run_config.h"

namespace gpuplan {

std::string_view name_of(Mode mode);                // "train", "infer"
std::string_view name_of(Loop loop);                // "plain", "function", "loss_only"
std::string_view name_of(Scratch scratch);          // "full", "no-cudnn", "none"
std::string_view name_of(AllocatorKind allocator);  // "caching", "exact", "cudaMalloc"
std::string_view name_of(OptimizerImpl impl);       // "foreach", "for-loop", "fused"
/// "sgd", "momentum", "nesterov", "adam", "amsgrad", ...; "none" without one.
std::string_view name_of(const OptimizerConfig& optimizer);
std::string_view name_of(MemoryFormat layout);      // "nchw", "nhwc"
std::string_view name_of(Attention attention);      // "auto", "flash", "efficient", "cudnn", "math", "eager"
std::string_view name_of(WeightFormat weights);     // "int8", "int4", "fp8"; "" as computed
std::string_view name_of(Generation::Part part);    // "prefill", "decode"; "" without one
std::string_view name_of(Generation::Cache cache);  // "dynamic", "static", "paged"
/// "as-written", "none", "block", "every=2", or the pattern.
std::string checkpoint_text(const CheckpointConfig& checkpoint);
/// What the model is stored in: "fp32", "bf16", ...; "tf32" is fp32 whose products compute in TF32.
std::string_view precision_text(const RunConfig& run);
/// The words of a headline: "bf16", "fp32, amp bf16".
std::string precision_words(const RunConfig& run);
/// What else is asked for, in the words of a headline: "4 micro-batches", "checkpoint block", "decode of token 640".
std::vector<std::string> extra_words(const RunConfig& run);
/// "2.15", "1.13"
std::string version_text(PyTorchVersion version);

}  // namespace gpuplan

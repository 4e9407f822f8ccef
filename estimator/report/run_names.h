// The words of the command line for the values of RunConfig; what the reports print and what tools/ reads back.
#pragma once

#include <string>
#include <string_view>

#include "estimator/run_config.h"

namespace gpuplan {

std::string_view name_of(Mode mode);                // "train", "infer"
std::string_view name_of(Loop loop);                // "plain", "function", "loss_only"
std::string_view name_of(Scratch scratch);          // "full", "no-cudnn", "none"
std::string_view name_of(AllocatorKind allocator);  // "caching", "exact", "cudaMalloc"
std::string_view name_of(OptimizerImpl impl);       // "foreach", "for-loop", "fused"
/// "sgd", "momentum", "nesterov", "adam", "amsgrad", ...; "none" without one.
std::string_view name_of(const OptimizerConfig& optimizer);
/// "2.15", "1.13"
std::string version_text(PyTorchVersion version);

}  // namespace gpuplan

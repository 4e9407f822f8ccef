// The specs of transformers' decoders whose modules are Liger-Kernel's.
#pragma once

#include <memory>

#include "estimator/base/error.h"

namespace gpuplan {

/// A decoder's spec, of the zoo or imported, after apply_liger_kernel_to_*(). Throws Error (usage) where the spec is
/// none of a decoder of Llama's kind.
std::shared_ptr<const Source> with_liger_kernels(const Source& spec);

}  // namespace gpuplan

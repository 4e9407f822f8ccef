// Attention.
#include "validate/cuda/operation.h"

namespace gpuplan::cuda {

std::span<const Operation> attention_operations() { return {}; }

}  // namespace gpuplan::cuda

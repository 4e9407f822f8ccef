#include "validate/cuda/operation.h"

#include <array>

namespace gpuplan::cuda {

const Operation* find_operation(Operator op) {
  static const auto operations = [] {
    std::array<const Operation*, kOperators> all{};
    for (const auto part :
         {pointwise_operations(), copy_operations(), product_operations(), convolution_operations(),
          reduction_operations(), batch_norm_operations(), normalization_operations(), pooling_operations(),
          lookup_operations(), attention_operations(), loss_operations(), routing_operations(), recurrent_operations()})
      for (const Operation& o : part) all[static_cast<std::size_t>(o.op)] = &o;
    return all;
  }();
  return operations[static_cast<std::size_t>(op)];
}

}  // namespace gpuplan::cuda

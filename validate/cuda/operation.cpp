#include "validate/cuda/operation.h"

#include <unordered_map>

namespace gpuplan::cuda {

const Operation* find_operation(std::string_view name) {
  static const auto operations = [] {
    std::unordered_map<std::string_view, const Operation*> all;
    for (const auto part :
         {pointwise_operations(), copy_operations(), product_operations(), convolution_operations(),
          reduction_operations(), batch_norm_operations(), normalization_operations(), pooling_operations(),
          lookup_operations(), attention_operations(), loss_operations(), routing_operations(), recurrent_operations()})
      for (const Operation& o : part) all.emplace(o.name, &o);
    return all;
  }();
  constexpr std::string_view kNamespace = "aten::";
  if (name.starts_with(kNamespace)) name.remove_prefix(kNamespace.size());
  const auto found = operations.find(name);
  return found == operations.end() ? nullptr : found->second;
}

}  // namespace gpuplan::cuda

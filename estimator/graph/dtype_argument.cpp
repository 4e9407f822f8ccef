#include "estimator/graph/dtype_argument.h"

#include <string>

namespace gpuplan {

std::optional<DType> named_dtype(const LayerBuilder& b) {
  if (b.is_none("dtype")) return std::nullopt;
  const std::optional<DType> dtype = dtype_from_name(b.word("dtype"));
  if (!dtype)
    b.fail("dtype", "unknown dtype \"" + std::string(b.word("dtype")) + "\"", "expected float32, int64, bool, ...");
  return dtype;
}

DType required_dtype(const LayerBuilder& b) {
  const std::optional<DType> dtype = named_dtype(b);
  if (!dtype) b.fail("dtype", "dtype is None, and a type is needed", "expected float32, int64, bool, ...");
  return *dtype;
}

DType converted_dtype(const LayerBuilder& b) {
  const DType dtype = required_dtype(b);
  return is_floating(dtype) ? b.run().precision : dtype;
}

}  // namespace gpuplan

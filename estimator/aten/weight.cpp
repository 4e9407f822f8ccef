#include "estimator/aten/weight.h"

#include <string>

namespace gpuplan::aten {

TensorId weight(LayerBuilder& b, bool own, std::string_view name, int i, const Shape& shape) {
  if (own) return b.parameter(name, shape);
  if (b.input_count() <= i) return kNone;
  const TensorId t = b.input(i);
  if (!(b.shape(t) == shape))
    b.fail("expects " + to_string(shape) + " as its " + std::string(name) + ", input " + std::to_string(i) + " is " +
           to_string(b.shape(t)));
  return t;
}

}  // namespace gpuplan::aten

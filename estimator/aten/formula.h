// Functions of every element whose backward is a formula of several kernels.
#pragma once

#include <string_view>
#include <vector>

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

/// y = f(x). `gradient(grad, y, run)` is its backward: run(op, operands, numbers) is a kernel over tensors of x's size
/// and type. The last one's result is the gradient of x; each before is a factor, which lives until that is there.
template <class Gradient>
TensorId function(LayerBuilder& b, Operator op, TensorId x, std::string_view name, const Gradient& gradient,
                  std::initializer_list<AttributeValue> attributes = {}) {
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  const Elementwise each{shape.elements()};
  const TensorId y = b.emit(op, each, {x}, shape, dtype);
  if (attributes.size() > 0) b.attributes(attributes);
  NodeBuilder node = b.node(name, y, {x});
  if (!node) return y;
  std::vector<Operand> results;
  gradient(node.grad(), y, [&](Operator of, Operands reads, std::initializer_list<AttributeValue> numbers = {}) {
    results.push_back(node.run(of, each, reads, shape, dtype));
    if (numbers.size() > 0) node.attributes(numbers);
    return results.back();
  });
  node.give(x, results.back());
  results.pop_back();
  if (!results.empty()) node.hold(results);
  return y;
}

}  // namespace gpuplan::aten

#include "tests/host_device/blocks.h"

#include <cmath>
#include <utility>

#include "tests/support/operator_arguments.h"

namespace gpuplan::host {

Block::Block(std::vector<std::int64_t> sizes, DType dtype, std::vector<double> values)
    : bytes_(static_cast<std::size_t>(product(sizes) * size_of(dtype))) {
  shape_.dtype = dtype;
  shape_.rank = static_cast<std::int32_t>(sizes.size());
  std::int64_t step = 1;
  for (int i = shape_.rank; i-- > 0;) {
    shape_.sizes[i] = sizes[static_cast<std::size_t>(i)];
    shape_.strides[i] = step;
    step *= shape_.sizes[i];
  }
  if (!values.empty()) write(tensor(), {std::move(sizes), std::move(values)});
}

Block random_block(std::vector<std::int64_t> sizes, int seed, DType dtype) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < product(sizes); ++i)
    values.push_back(std::sin(12.9898 * (static_cast<double>(i) + 1) + 78.233 * seed));
  return Block(std::move(sizes), dtype, std::move(values));
}

void run(const std::string& name, const Operands& operands) {
  const Operator op = operator_named(name);
  const std::vector<AttributeValue> attributes = by_name(op, operands.numbers, operands.reads.size());
  Kernel kernel;
  kernel.op = op;
  kernel.layer = "layer";
  kernel.what = &operands.what;
  kernel.reads = operands.reads;
  kernel.writes = operands.writes;
  kernel.extra = operands.extra;
  kernel.attributes = attributes;
  kernel.seed = operands.seed;
  HostDevice().run(kernel);
}

}  // namespace gpuplan::host

#include "estimator/aten/opaque_kernel.h"

#include <algorithm>

#include "estimator/base/dtype.h"
#include "estimator/base/error.h"
#include "estimator/base/integers.h"

namespace gpuplan::aten {

OpaqueKernel opaque_kernel(const ScratchProgram& program, std::int64_t elementwise_flops) {
  OpaqueKernel s{.elementwise_flops = elementwise_flops};
  if (program.size() > s.program.size()) throw Error("a kernel with too many allocations");
  std::ranges::copy(program, s.program.begin());
  s.actions = static_cast<std::int32_t>(program.size());
  return s;
}

OpaqueKernel result_with_temporary(std::int64_t bytes, std::int64_t elementwise_flops) {
  ScratchProgram program;
  ScratchWriter w(program);
  w.result();
  w.use(bytes);
  return opaque_kernel(program, elementwise_flops);
}

OpaqueKernel index_put(std::int64_t indices, std::int64_t values_bytes, std::int64_t sort_bytes,
                       std::int64_t elementwise_flops) {
  const std::int64_t each = checked_mul(indices, size_of(DType::int64));
  ScratchProgram program;
  ScratchWriter w(program);
  const std::int64_t wrapped = w.allocate(each);
  w.allocate(each);
  w.release(wrapped);
  w.allocate(values_bytes);
  for (int i = 0; i < 3; ++i) w.allocate(each);
  w.allocate(sort_bytes);
  w.release_all();
  return opaque_kernel(program, elementwise_flops);
}

}  // namespace gpuplan::aten

#include "estimator/distributed/deepspeed_gradients.h"

#include <algorithm>

#include "estimator/base/integers.h"
#include "estimator/operators/reduction.h"

namespace gpuplan {

std::vector<std::size_t> arrivals(const Schedule& schedule) {
  std::vector<std::size_t> order(schedule.with_gradient.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return schedule.gradient_arrives[i]; });
  return order;
}

void write_norms(std::span<const std::int64_t> elements, const Gpu& gpu, CollectiveWriter& writer) {
  constexpr std::int64_t kNorm = 8;  // bytes of fp64
  const std::int32_t norm = writer.new_slot();
  std::vector<std::int32_t> norms;
  for (const std::int64_t of : elements) {
    writer.allocate(norm, checked_mul(of, kNorm), Category::gradients);
    writer.allocate(norms.emplace_back(writer.new_slot()), kNorm, Category::gradients);
    std::vector<std::int32_t> scratch;
    for (const std::int64_t bytes : reduction_scratch({of}, 1, DType::fp64, DType::fp64, gpu, ReductionKind::mean))
      writer.allocate(scratch.emplace_back(writer.new_slot()), bytes, Category::scratch);
    for (const std::int32_t slot : scratch) writer.free(slot);
    writer.free(norm);
  }
  for (const std::int32_t slot : norms) writer.free(slot);
}

}  // namespace gpuplan

#include "estimator/distributed/deepspeed_gradients.h"

#include <algorithm>

#include "estimator/base/integers.h"
#include "estimator/operators/reduction.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kOfNorm = 8, kFp32 = 4;  // bytes of fp64 and fp32

// A tensor that has been made and goes again, and what is made while it is there.
template <class While>
void write_temporary(std::int64_t bytes, std::int32_t stream, CollectiveWriter& writer, While while_there) {
  const std::int32_t slot = writer.new_slot();
  writer.allocate(slot, bytes, Category::gradients, stream);
  while_there();
  writer.free(slot);
}

void write_scratch(std::span<const std::int64_t> sizes, std::int32_t stream, CollectiveWriter& writer) {
  std::vector<std::int32_t> scratch;
  for (const std::int64_t bytes : sizes)
    writer.allocate(scratch.emplace_back(writer.new_slot()), bytes, Category::scratch, stream);
  for (const std::int32_t slot : scratch) writer.free(slot);
}

// amax() and amin() compare in the type of the gradient, where a mean adds in fp32: its buffer has as many numbers.
std::vector<std::int64_t> extreme_scratch(std::int64_t elements, DType type, const Gpu& gpu) {
  std::vector<std::int64_t> sizes = reduction_scratch({elements}, 1, type, type, gpu, ReductionKind::mean);
  if (!sizes.empty()) sizes.front() = sizes.front() / kFp32 * size_of(type);
  return sizes;
}

// has_inf_or_nan() (deepspeed/runtime/utils.py): isfinite() of the largest and of the smallest number, each
// (x == x) * (abs(x) != inf), then logical_and() and logical_not().
void look_for_infinities(const GradientToHost& g, std::int32_t stream, const Gpu& gpu, CollectiveWriter& writer) {
  const std::int64_t size = size_of(g.type);
  std::vector<std::int32_t> finite;
  for (int extreme = 0; extreme < 2; ++extreme)
    write_temporary(size, stream, writer, [&] {
      write_scratch(extreme_scratch(g.elements, g.type, gpu), stream, writer);
      write_temporary(size, stream, writer, [&] {
        write_temporary(1, stream, writer, [&] {
          write_temporary(1, stream, writer, [&] {
            writer.allocate(finite.emplace_back(writer.new_slot()), 1, Category::gradients, stream);
          });
        });
      });
    });
  write_temporary(1, stream, writer, [&] {
    for (const std::int32_t slot : finite) writer.free(slot);
    writer.allocate(finite.front(), 1, Category::gradients, stream);
  });
  writer.free(finite.front());
}

}  // namespace

std::vector<std::size_t> arrivals(const Schedule& schedule) {
  std::vector<std::size_t> order(schedule.with_gradient.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return schedule.gradient_arrives[i]; });
  return order;
}

void write_norms(std::span<const std::int64_t> elements, const Gpu& gpu, CollectiveWriter& writer) {
  const std::int32_t norm = writer.new_slot();
  std::vector<std::int32_t> norms;
  for (const std::int64_t of : elements) {
    writer.allocate(norm, checked_mul(of, kOfNorm), Category::gradients);
    writer.allocate(norms.emplace_back(writer.new_slot()), kOfNorm, Category::gradients);
    write_scratch(reduction_scratch({of}, 1, DType::fp64, DType::fp64, gpu, ReductionKind::mean), 0, writer);
    writer.free(norm);
  }
  for (const std::int32_t slot : norms) writer.free(slot);
}

void write_to_host(const GradientToHost& g, std::int32_t stream, const Gpu& gpu, CollectiveWriter& writer) {
  write_temporary(checked_mul(g.own, kOfNorm), stream, writer, [&] {
    writer.allocate(g.norm, kOfNorm, Category::gradients, stream);
    write_scratch(reduction_scratch({g.own}, 1, DType::fp64, DType::fp64, gpu, ReductionKind::mean), stream, writer);
  });
  look_for_infinities(g, stream, gpu, writer);
  write_temporary(checked_mul(g.own, kFp32), stream, writer, [] {});
}

}  // namespace gpuplan

#include "tests/cuda/drawn_operands.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

#include "tests/host_device/elements.h"
#include "validate/executor/random.h"

namespace gpuplan::comparison {
namespace {

// Sets each element, in row-major order, to f of its number.
void fill(Device& device, KernelTensor t, const std::function<double(std::int64_t)>& f) {
  const std::int64_t count = host::elements(t);
  if (count == 0) return;
  const std::vector<std::int64_t> offsets = host::offsets(t);
  const std::int64_t bytes = (*std::ranges::max_element(offsets) + 1) * size_of(t.dtype);
  std::vector<std::byte> memory(static_cast<std::size_t>(bytes));
  void* const data = t.data;
  device.copy_to_host(memory.data(), data, bytes);
  t.data = memory.data();
  for (std::int64_t i = 0; i < count; ++i) host::store(t, offsets[static_cast<std::size_t>(i)], f(i));
  device.copy_to_device(data, memory.data(), bytes);
}

struct Range {
  double least = -2, most = 2;
};

bool one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

// Of the i-th operand.
Range range_of(std::string_view name, std::size_t i) {
  constexpr Range kPositive{0.5, 2.5};
  if (one_of(name, {"log", "rsqrt", "pow"})) return kPositive;
  if (one_of(name, {"div", "div_", "floor_divide"}) && i == 1) return kPositive;
  if (name.starts_with("nll_loss") && name.ends_with("_backward") && i == 3) return kPositive;
  return {};
}

std::int64_t size_of_dimension(const KernelTensor& t, double dim) {
  const int i = static_cast<int>(dim);
  return t.sizes[i < 0 ? i + t.rank : i];
}

// How many values an index may have; 0: it stays as it is.
std::int64_t values_of(std::string_view name, const Kernel& k) {
  const auto dimension = [&] { return k.number(Attribute::dim); };
  const KernelTensor& table = k.reads[0];
  if (name == "embedding") return table.sizes[0];
  if (name == "embedding_dense_backward") return k.writes[0].sizes[0];
  if (name.starts_with("nll_loss")) return k.reads[name.ends_with("_backward") ? 1 : 0].sizes[1];
  if (one_of(name, {"gather", "index_select", "scatter_", "scatter_add_", "index_add_"}))
    return size_of_dimension(table, dimension());
  if (one_of(name, {"index", "index_put_", "_index_put_impl_"}))
    return !k.has(Attribute::dim) ? std::min(table.sizes[0], table.sizes[std::min(1, table.rank - 1)])
                                  : size_of_dimension(table, dimension());
  if (name.find("pool") != std::string_view::npos || name.find("attention") != std::string_view::npos) return 0;
  return 5;
}

// The last pair of each expert: unequal shares, some of them none.
void draw_ends(Device& device, const KernelTensor& ends, std::int64_t pairs) {
  const std::int64_t count = ends.sizes[0];
  fill(device, ends, [&](std::int64_t i) {
    const std::int64_t even = (i + 1) * pairs / count;
    return static_cast<double>(i + 1 == count ? pairs : i % 3 == 1 ? i * pairs / count : even);
  });
}

}  // namespace

void draw(Device& device, const KernelTensor& t, std::uint64_t number, double least, double most) {
  fill(device, t, [&](std::int64_t i) {
    const auto at = static_cast<double>(uniform(number, static_cast<std::uint64_t>(i)));
    return least + (most - least) * at;
  });
}

void draw_integers(Device& device, const KernelTensor& t, std::uint64_t number, std::int64_t least, std::int64_t end) {
  fill(device, t, [&](std::int64_t i) {
    const double at = static_cast<double>(uniform(number, static_cast<std::uint64_t>(i)));
    return static_cast<double>(least + static_cast<std::int64_t>(at * static_cast<double>(end - least)));
  });
}

void draw_operands(Device& device, const Kernel& k, std::uint64_t number) {
  std::string_view name = name_of(k.op);
  if (name.starts_with("aten::")) name.remove_prefix(6);
  const std::uint64_t seed = number << 8;
  for (std::size_t i = 0; i < k.reads.size(); ++i) {
    const KernelTensor& t = k.reads[i];
    if (t.data == nullptr) continue;
    if (name == "batch_norm_backward" && i >= 1 && i <= 3) continue;  // the moments are those of this input
    if (is_floating(t.dtype)) {
      const Range r = range_of(name, i);
      draw(device, t, seed + i, r.least, r.most);
    } else if (name == "_grouped_mm") {
      draw_ends(device, t, k.reads[0].sizes[0]);
    } else if (t.dtype == DType::boolean) {
      draw_integers(device, t, seed + i, 0, 2);
    } else if (const std::int64_t values = values_of(name, k); values > 0) {
      draw_integers(device, t, seed + i, 0, values);
    }
  }
  for (std::size_t i = 0; i < k.extra.size(); ++i) {
    const KernelTensor& t = k.extra[i];
    if (t.data == nullptr || !is_floating(t.dtype)) continue;
    const bool squared = i >= 2 && name.find("batch_norm") != std::string_view::npos;  // among others a variance
    draw(device, t, seed + 128 + i, squared ? 0.5 : -2, squared ? 2.5 : 2);
  }
}

}  // namespace gpuplan::comparison

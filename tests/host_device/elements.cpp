#include "tests/host_device/elements.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "estimator/base/error.h"
#include "validate/executor/half.h"

namespace gpuplan::host {
namespace {

template <class T>
T get(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
void put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// NaN and what does not fit become 0: an integer that never was there.
std::int64_t as_integer(double value) {
  return std::isfinite(value) && std::abs(value) < 9.2e18 ? static_cast<std::int64_t>(value) : 0;
}

std::byte* address(const KernelTensor& t, std::int64_t offset) {
  return static_cast<std::byte*>(t.data) + offset * size_of(t.dtype);
}

}  // namespace

std::int64_t product(std::span<const std::int64_t> sizes) {
  std::int64_t n = 1;
  for (const std::int64_t s : sizes) n *= s;
  return n;
}

Values zeros(std::vector<std::int64_t> sizes) {
  const auto n = static_cast<std::size_t>(product(sizes));
  return {std::move(sizes), std::vector<double>(n)};
}

std::vector<std::int64_t> offsets(const KernelTensor& t) {
  std::vector<std::int64_t> result{0};
  for (int d = 0; d < t.rank; ++d) {
    std::vector<std::int64_t> longer;
    longer.reserve(result.size() * static_cast<std::size_t>(t.sizes[d]));
    for (const std::int64_t base : result)
      for (std::int64_t i = 0; i < t.sizes[d]; ++i) longer.push_back(base + i * t.strides[d]);
    result = std::move(longer);
  }
  return result;
}

double load(const KernelTensor& t, std::int64_t offset) {
  const std::byte* from = address(t, offset);
  switch (t.dtype) {
    case DType::fp32: return static_cast<double>(get<float>(from));
    case DType::fp64: return get<double>(from);
    case DType::fp16: return fp16_value(get<std::uint16_t>(from));
    case DType::bf16: return bf16_value(get<std::uint16_t>(from));
    case DType::int64: return static_cast<double>(get<std::int64_t>(from));
    case DType::int32: return get<std::int32_t>(from);
    case DType::uint8: return get<std::uint8_t>(from);
    case DType::int8: return get<std::int8_t>(from);
    case DType::boolean: return get<std::uint8_t>(from) != 0 ? 1 : 0;
  }
  return 0;
}

void store(const KernelTensor& t, std::int64_t offset, double value) {
  std::byte* to = address(t, offset);
  switch (t.dtype) {
    case DType::fp32: return put(to, static_cast<float>(value));
    case DType::fp64: return put(to, value);
    case DType::fp16: return put(to, fp16_bits(value));
    case DType::bf16: return put(to, bf16_bits(value));
    case DType::int64: return put(to, as_integer(value));
    case DType::int32: return put(to, static_cast<std::int32_t>(as_integer(value)));
    case DType::uint8: return put(to, static_cast<std::uint8_t>(as_integer(value)));
    case DType::int8: return put(to, static_cast<std::int8_t>(as_integer(value)));
    case DType::boolean: return put(to, static_cast<std::uint8_t>(value != 0));
  }
}

Values read(const KernelTensor& t) {
  Values v{sizes_of(t), {}};
  for (const std::int64_t offset : offsets(t)) v.at.push_back(load(t, offset));
  return v;
}

Values read(const KernelTensor& t, std::span<const std::int64_t> broadcast_to) {
  const int added = static_cast<int>(broadcast_to.size()) - t.rank;
  if (added < 0) throw Error("a tensor " + shape_of(t) + " cannot be broadcast to fewer dimensions");
  KernelTensor wide = t;
  wide.rank = static_cast<int>(broadcast_to.size());
  for (int i = 0; i < wide.rank; ++i) {
    const std::int64_t size = broadcast_to[static_cast<std::size_t>(i)];
    const std::int64_t own = i < added ? 1 : t.sizes[i - added];
    if (own != size && own != 1) throw Error("a tensor " + shape_of(t) + " cannot be broadcast");
    wide.sizes[i] = size;
    wide.strides[i] = own == 1 ? 0 : t.strides[i - added];
  }
  return read(wide);
}

void write(const KernelTensor& t, const Values& values) {
  if (elements(t) != values.count())
    throw Error("a result of " + std::to_string(values.count()) + " elements for a tensor " + shape_of(t));
  std::int64_t i = 0;
  for (const std::int64_t offset : offsets(t)) store(t, offset, values[i++]);
}

KernelTensor selected(KernelTensor t, int dim, std::int64_t at) {
  t = sliced(t, dim, at, 1);
  for (int i = dim; i + 1 < t.rank; ++i) t.sizes[i] = t.sizes[i + 1], t.strides[i] = t.strides[i + 1];
  --t.rank;
  return t;
}

KernelTensor sliced(KernelTensor t, int dim, std::int64_t start, std::int64_t count, std::int64_t step) {
  if (dim < 0 || dim >= t.rank || start < 0 || count < 0 || start + (count - 1) * step >= t.sizes[dim])
    throw Error("a tensor " + shape_of(t) + " has no such part");
  t.data = address(t, start * t.strides[dim]);
  t.sizes[dim] = count;
  t.strides[dim] *= step;
  return t;
}

KernelTensor transposed(KernelTensor t, int first, int second) {
  std::swap(t.sizes[first], t.sizes[second]);
  std::swap(t.strides[first], t.strides[second]);
  return t;
}

KernelTensor as_image(KernelTensor t) {
  if (t.rank != 3) return t;
  t.sizes[3] = t.sizes[2], t.strides[3] = t.strides[2];
  t.sizes[2] = 1, t.strides[2] = 0;
  t.rank = 4;
  return t;
}

std::string shape_of(const KernelTensor& t) {
  std::string text = "[";
  for (int i = 0; i < t.rank; ++i) text += (i > 0 ? ", " : "") + std::to_string(t.sizes[i]);
  return text + "]";
}

}  // namespace gpuplan::host

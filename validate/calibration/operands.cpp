#include "validate/calibration/operands.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "estimator/base/error.h"
#include "validate/executor/half.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kPiece = std::int64_t{4} << 20;  // of random values, which repeat after it
constexpr std::int64_t kAlignment = 512;                // as PyTorch's blocks

std::vector<std::byte> random_values(DType type, std::int64_t bytes) {
  std::vector<std::byte> out(static_cast<std::size_t>(bytes));
  std::mt19937 generator(1);
  const auto size = static_cast<std::size_t>(size_of(type));
  for (std::size_t at = 0; at < out.size(); at += size) {
    // The upper bits of the generator, as a number within 1 of 0.
    const double value = static_cast<double>(generator()) / 2147483648.0 - 1;
    const auto single = static_cast<float>(value);
    const std::uint16_t half = type == DType::fp16 ? fp16_bits(value) : bf16_bits(value);
    std::memcpy(&out[at], size == 4 ? static_cast<const void*>(&single) : &half, size);
  }
  return out;
}

void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): segments are addresses
}

}  // namespace

Operands::Operands(Device& device, std::int64_t most) : device_(device), capacity_(most) {
  // Less and less, since what is free need not be in one piece.
  while ((address_ = device.allocate(capacity_)) == 0) {
    capacity_ /= 2;
    if (capacity_ < kLeastOperandBytes)
      throw Error("less than 64 MiB of device memory is free: stop other programs that use the GPU",
                  ErrorKind::environment);
  }
}

Operands::~Operands() {
  try {
    device_.release(address_, capacity_);
  } catch (const Error&) {
    // The device has failed, which was said when it did.
  }
}

void Operands::randomize(DType type) {
  const std::vector<std::byte> values = random_values(type, std::min(kPiece, capacity_));
  for (std::int64_t at = 0; at < capacity_; at += kPiece)
    device_.copy_to_device(pointer(address_ + static_cast<std::uint64_t>(at)), values.data(),
                           std::min(kPiece, capacity_ - at));
}

std::optional<KernelScratch> Operands::bytes(std::int64_t bytes) {
  const std::int64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (bytes <= 0 || rounded > capacity_ - used_) return std::nullopt;
  KernelScratch out{pointer(address_ + static_cast<std::uint64_t>(used_)), bytes};
  used_ += rounded;
  return out;
}

std::optional<KernelTensor> Operands::tensor(DType type, std::initializer_list<std::int64_t> sizes,
                                             bool channels_last) {
  constexpr std::array<int, 4> kLast{1, 3, 2, 0};
  KernelTensor t;
  t.dtype = type;
  t.rank = static_cast<std::int32_t>(sizes.size());
  std::ranges::copy(sizes, t.sizes);
  std::int64_t step = 1;
  for (int i = 0; i < t.rank; ++i) {
    const int dimension = channels_last && t.rank == 4 ? kLast[static_cast<std::size_t>(i)] : t.rank - 1 - i;
    t.strides[dimension] = step;
    step *= t.sizes[dimension];
  }
  const std::optional<KernelScratch> memory = bytes(step * size_of(type));
  if (!memory) return std::nullopt;
  t.data = memory->data;
  return t;
}

}  // namespace gpuplan

// The sizes of a tensor, batch first, without allocation for up to eight dimensions.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace gpuplan {

class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes);
  explicit Shape(std::span<const std::int64_t> sizes);

  int rank() const { return rank_; }
  /// Size of dimension i; negative counts from the end, as in PyTorch. i must be in range.
  std::int64_t operator[](int i) const { return sizes_[static_cast<std::size_t>(i < 0 ? i + rank_ : i)]; }
  void set(int i, std::int64_t size) { sizes_[static_cast<std::size_t>(i < 0 ? i + rank_ : i)] = size; }
  /// Dimension i, from 0 to kMaxRank - 1; beyond the rank it is 0.
  std::int64_t& place(int i) { return sizes_[static_cast<std::size_t>(i)]; }
  void push_back(std::int64_t size);
  std::span<const std::int64_t> sizes() const { return {sizes_.data(), static_cast<std::size_t>(rank_)}; }

  /// Product of the sizes; 1 for a scalar. Throws Error on overflow.
  std::int64_t elements() const;
  /// Product of dimensions [from, to). Throws Error on overflow.
  std::int64_t elements(int from, int to) const;

  bool operator==(const Shape& o) const;

 private:
  std::array<std::int64_t, kMaxRank> sizes_{};
  int rank_ = 0;
};

/// "[8, 1024, 768]"
std::string to_string(const Shape& shape);

}  // namespace gpuplan

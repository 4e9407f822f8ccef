// The strides of a tensor, in elements, and what PyTorch decides by them: whether a view needs a copy, whether a kernel
// is handed one, and how the result of a pointwise operation lies in memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "estimator/base/shape.h"

namespace gpuplan {

class Strides {
 public:
  std::int64_t operator[](int i) const { return steps_[static_cast<std::size_t>(i)]; }
  void set(int i, std::int64_t step) { steps_[static_cast<std::size_t>(i)] = step; }
  /// Of dimension i, from 0 to Shape::kMaxRank - 1.
  std::int64_t& place(int i) { return steps_[static_cast<std::size_t>(i)]; }
  bool operator==(const Strides&) const = default;

 private:
  std::array<std::int64_t, Shape::kMaxRank> steps_{};
};

enum class MemoryFormat : std::uint8_t { contiguous, channels_last };

/// Row-major; as empty(shape).
Strides contiguous_strides(const Shape& shape);
/// [N, C, H, W] stored as [N, H, W, C]; row-major for any other rank.
Strides strides_in(MemoryFormat format, const Shape& shape);

/// tensor.is_contiguous(memory_format): dimensions of size 1 do not count (c10/core/TensorImpl, compute_contiguous).
bool is_contiguous(const Shape& shape, const Strides& strides);
bool is_channels_last(const Shape& shape, const Strides& strides);
/// tensor.suggest_memory_format(): the strides look like channels-last, be it a part of a tensor
/// (c10/core/MemoryFormat.h, is_channels_last_strides_2d).
MemoryFormat suggested_format(const Shape& shape, const Strides& strides);
/// tensor.is_non_overlapping_and_dense(): the elements fill their storage in some order of the dimensions.
bool is_dense(const Shape& shape, const Strides& strides);

/// The strides of `to` as a view of a tensor, where there is one (aten/src/ATen/TensorUtils.cpp, computeStride).
std::optional<Strides> view_strides(const Shape& from, const Strides& strides, const Shape& to);
/// Of empty_like(preserve_format): the same when dense, else the dimensions in the same order without gaps
/// (c10/core/TensorImpl and aten/src/ATen/ExpandUtils.cpp, infer_dense_strides).
Strides strides_like(const Shape& shape, const Strides& strides);

struct StridedShape {
  Shape shape;
  Strides strides;
};
/// Whether cuBLAS takes a matrix, or a batch of them, as it lies: rows or columns without gaps between their elements,
/// and one after the other (aten/src/ATen/native/cuda/Blas.cpp, prepare_matrix_for_cublas). Of another one mm, addmm
/// and bmm make a contiguous copy.
bool fits_cublas(const StridedShape& matrix);
/// Of the result of a pointwise operation on these operands, broadcast to `out`
/// (aten/src/ATen/TensorIterator.cpp, compute_fast_setup_type and reorder_dimensions).
Strides pointwise_strides(const Shape& out, std::span<const StridedShape> operands);

}  // namespace gpuplan

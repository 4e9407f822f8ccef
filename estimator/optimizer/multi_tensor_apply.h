// Kernel launches of a foreach operator. Rule: aten/src/ATen/native/cuda/MultiTensorApply.cuh cuts tensors into
// chunks of 65,536 elements, one thread block each, and launches whenever its argument struct is full.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "estimator/optimizer/optimizer.h"

namespace gpuplan {

inline constexpr std::int64_t kForeachChunkElements = 65536;

/// What travels with the addresses in a launch's arguments; decides how many tensors fit.
enum class ForeachArguments : std::uint8_t { plain, scalar_list };

/// Launches for `tensors`, `depth` (1-5) lists of them together.
std::int64_t foreach_launches(std::span<const OptimizerParameter> tensors, int depth, ForeachArguments arguments,
                              PyTorchVersion pytorch);

/// Parameters of one dtype. foreach and fused implementations run once per group.
class ForeachGroup {
 public:
  ForeachGroup(std::span<const OptimizerParameter> parameters, PyTorchVersion pytorch)
      : parameters_(parameters), pytorch_(pytorch) {}

  std::span<const OptimizerParameter> parameters() const { return parameters_; }

  /// foreach_launches of the group, computed once per kind of operator.
  std::int64_t launches(int depth, ForeachArguments arguments = ForeachArguments::plain);

 private:
  std::span<const OptimizerParameter> parameters_;
  PyTorchVersion pytorch_;
  std::array<std::array<std::int64_t, 2>, 5> launches_{};  // 0: not computed yet
};

/// The parameters sorted by dtype, in the order in which PyTorch visits the groups. `parameters` must outlive it.
class ForeachGroups {
 public:
  ForeachGroups(std::span<const OptimizerParameter> parameters, PyTorchVersion pytorch);
  ForeachGroups(const ForeachGroups&) = delete;
  ForeachGroups& operator=(const ForeachGroups&) = delete;

  auto begin() { return groups_.begin(); }
  auto end() { return groups_.end(); }
  std::size_t size() const { return groups_.size(); }

 private:
  std::vector<OptimizerParameter> sorted_;  // empty when there is one dtype
  std::vector<ForeachGroup> groups_;
};

}  // namespace gpuplan

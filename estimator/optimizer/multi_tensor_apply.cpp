#include "estimator/optimizer/multi_tensor_apply.h"

#include <algorithm>

#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

struct LaunchLimits {
  std::array<std::int64_t, 5> tensors;              // by depth
  std::array<std::int64_t, 5> scalar_list_tensors;  // by depth
  std::int64_t blocks;
};

// Kernel arguments of 4 KiB, and of 32 KiB in builds for CUDA 13 (MultiTensorApply.cuh).
constexpr LaunchLimits kSmallArguments{{110, 64, 48, 36, 30}, {96, 64, 48, 36, 30}, 320};
constexpr LaunchLimits kLargeArguments{{770, 448, 336, 252, 210}, {672, 448, 336, 252, 210}, 2240};

// PyPI's default wheel moved to CUDA 13 between 2.8 (recorded: small) and 2.15 (recorded: large); 2.11 is taken.
constexpr PyTorchVersion kFirstWithLargeArguments = 211;

// _group_tensors_by_device_and_dtype became a std::unordered_map in C++ with 2.1; before, a Python dict.
constexpr PyTorchVersion kFirstWithReversedGroups = 201;

}  // namespace

std::int64_t foreach_launches(std::span<const OptimizerParameter> tensors, int depth, ForeachArguments arguments,
                              PyTorchVersion pytorch) {
  const LaunchLimits& limits = pytorch >= kFirstWithLargeArguments ? kLargeArguments : kSmallArguments;
  const auto row = static_cast<std::size_t>(depth - 1);
  const std::int64_t max_tensors =
      arguments == ForeachArguments::plain ? limits.tensors[row] : limits.scalar_list_tensors[row];
  std::int64_t launches = 0;
  std::int64_t filled_tensors = 0;
  std::int64_t filled_blocks = 0;
  for (const OptimizerParameter& tensor : tensors) {
    if (tensor.elements == 0) continue;
    ++filled_tensors;
    std::int64_t chunks = ceil_div(tensor.elements, kForeachChunkElements);
    if (const std::int64_t room = limits.blocks - filled_blocks; chunks > room + limits.blocks) {
      const std::int64_t full =
          (chunks - room - 1) / limits.blocks;  // launches in its middle, with nothing else in them
      launches += full;
      chunks -= full * limits.blocks;
    }
    while (chunks > 0) {
      const std::int64_t taken = std::min(chunks, limits.blocks - filled_blocks);
      chunks -= taken;
      filled_blocks += taken;
      if (filled_blocks == limits.blocks || (filled_tensors == max_tensors && chunks == 0)) {
        ++launches;
        filled_blocks = 0;
        filled_tensors = chunks == 0 ? 0 : 1;  // a tensor with chunks left opens the next launch
      }
    }
  }
  return filled_blocks == 0 ? launches : launches + 1;
}

std::int64_t ForeachGroup::launches(int depth, ForeachArguments arguments) {
  std::int64_t& known = launches_[static_cast<std::size_t>(depth - 1)][static_cast<std::size_t>(arguments)];
  if (known == 0) known = foreach_launches(parameters_, depth, arguments, pytorch_);
  return known;
}

ForeachGroups::ForeachGroups(std::span<const OptimizerParameter> parameters, PyTorchVersion pytorch) {
  if (parameters.empty()) return;
  const DType first = parameters.front().dtype;
  if (std::all_of(parameters.begin(), parameters.end(), [&](const auto& p) { return p.dtype == first; })) {
    groups_.emplace_back(parameters, pytorch);
    return;
  }
  std::vector<DType> order;
  for (const OptimizerParameter& parameter : parameters) {
    if (std::find(order.begin(), order.end(), parameter.dtype) == order.end()) order.push_back(parameter.dtype);
  }
  // libstdc++ puts a new key at the front of the list that it iterates over.
  if (pytorch >= kFirstWithReversedGroups) std::reverse(order.begin(), order.end());
  sorted_.reserve(parameters.size());
  for (const DType dtype : order) {
    const std::size_t from = sorted_.size();
    std::copy_if(parameters.begin(), parameters.end(), std::back_inserter(sorted_),
                 [&](const auto& p) { return p.dtype == dtype; });
    groups_.emplace_back(std::span(sorted_).subspan(from), pytorch);
  }
}

}  // namespace gpuplan

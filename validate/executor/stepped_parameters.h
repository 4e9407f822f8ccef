// What an optimizer steps a plan's parameters with: gradients, the states that it made for each, and with master
// weights the fp32 copies that it steps instead.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "validate/executor/placed_kernels.h"

namespace gpuplan {

class SteppedParameters {
 public:
  /// All must outlive it.
  SteppedParameters(Device& device, const RankStep& rank, const PlacedKernels& kernels);

  /// A state, of whose parameter one of the next two says.
  void state(std::uint64_t address, std::int64_t bytes) { new_states_.push_back({address, bytes}); }
  /// By the optimizer's constructor, for every trained parameter.
  void claim_constructed();
  /// In a step, for one member of Schedule::with_gradient, or for all of them.
  void claim_stepped(std::int32_t parameter);
  /// The weights have their values; their fp32 copies take them.
  void fill_master_copies();
  /// Casts the next gradient of half precision to fp32.
  void fp32_gradient(std::uint64_t address);

  /// What the optimizer and clipping are given, each as Schedule::with_gradient.
  std::vector<KernelTensor> gradients() const;
  KernelTensor gradient(std::size_t which) const;
  /// `number` counts the steps from 1. `parameter`: one of with_gradient, or kNone for all of them.
  void step(std::int64_t number, std::int32_t parameter);

 private:
  const Tensor& tensor_of(std::size_t which) const;
  bool is_copied(const Tensor& parameter) const;
  KernelTensor weight(const Tensor& parameter) const;
  KernelTensor stepped(std::size_t which) const;
  void copy(Operator op, const KernelTensor& to, const KernelTensor& from);

  Device& device_;
  const RankStep& rank_;
  const Schedule& schedule_;
  const PlacedKernels& kernels_;
  std::vector<PlacedScratch> new_states_;
  std::vector<std::vector<PlacedScratch>> states_;  // by Graph::parameters
  std::vector<std::uint64_t> master_;               // by Graph::parameters: the fp32 copy, or 0
  std::vector<std::size_t> half_;                   // members of with_gradient whose gradients are cast
  std::vector<std::uint64_t> fp32_gradients_;       // by with_gradient
  std::size_t cast_ = 0;
  std::vector<ParameterUpdate> updates_;
  std::vector<std::vector<KernelTensor>> given_states_;
};

}  // namespace gpuplan

// What cannot be run on a device is said before it starts.
#include <set>

#include "estimator/base/integers.h"
#include "validate/executor/placed_kernels.h"

namespace gpuplan {
namespace {

// torch.optim makes the states of one type before those of the next then, in an order that the execution does not
// follow.
bool clones_several_types(const RankStep& rank) {
  const OptimizerConfig& config = rank.run.optimizer;
  if (config.kind != OptimizerKind::sgd || !config.momentum || config.impl != OptimizerImpl::foreach_) return false;
  std::set<DType> types;
  for (const OperandView& g : rank.micro_batches.calls.front().gradients) types.insert(g.dtype);
  return types.size() > 1 && !rank.run.master_weights;
}

std::vector<std::string> refused_loops(const RankStep& rank) {
  const RunConfig& run = rank.run;
  std::vector<std::string> reasons;
  const auto refuse = [&](bool given, const char* what) {
    if (given) reasons.emplace_back(std::string(what) + " is not supported");
  };
  refuse(run.generation.part != Generation::Part::none, "generation with a cache");
  refuse(run.weights != WeightFormat::as_computed, "inference with quantized weights");
  refuse(run.optimizer.bitsandbytes || run.optimizer.recorder, "an optimizer that is not torch.optim's");
  refuse(run.like != Like::pytorch, "a trainer's loop");
  refuse(run.offload_saved, "offloading saved tensors to the host");
  refuse(run.offload_optimizer, "an optimizer on the host");
  refuse(run.optimizer_in_backward && run.micro_batches > 1, "an optimizer in the backward of micro-batches");
  refuse(clones_several_types(rank), "a foreach SGD whose parameters are of several types");
  refuse(run.pytorch < 200, "a plan of PyTorch 1.13");
  refuse(run.allocator != AllocatorKind::caching, "an allocator other than PyTorch's caching one");
  return reasons;
}

}  // namespace

std::vector<std::string> refusals(const Device& device, const RankStep& rank) {
  std::vector<std::string> reasons = refused_loops(rank);
  std::set<std::string> seen;
  PlacedKernels kernels(rank, 0);
  for (std::size_t pass = 0; pass < rank.micro_batches.calls.size(); ++pass) {
    for (const KernelCall& call : rank.micro_batches.calls[pass].calls) {
      if (allocates_only(rank.micro_batches.schedules[pass].ops[index(call.step)])) continue;
      const Kernel& kernel = kernels.kernel(pass, call, {});
      const std::string why = device.refusal(kernel);
      if (!why.empty() && seen.insert(std::string(name_of(kernel.op)) + why).second)
        reasons.push_back(std::string(name_of(kernel.op)) + " of " + std::string(kernel.layer) + ": " + why);
    }
  }
  return reasons;
}

}  // namespace gpuplan

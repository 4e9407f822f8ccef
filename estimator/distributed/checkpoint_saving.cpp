#include "estimator/distributed/checkpoint_saving.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "estimator/base/integers.h"
#include "estimator/distributed/flat_parameters.h"
#include "estimator/distributed/fsdp1_saving.h"
#include "estimator/distributed/rank_share.h"
#include "estimator/distributed/shard_sizes.h"
#include "estimator/distributed/tensor_plan.h"
#include "estimator/graph/tensor_style.h"

namespace gpuplan {
namespace {

Error refused(const std::string& what, const std::string& help) {
  return Error(what + " is not planned with --save", ErrorKind::usage).help(help);
}

bool shares_parameters(const Strategy& s) { return s.data == DataParallel::fsdp || s.tensor > 1; }

bool holds_experts(const Graph& graph) {
  return std::ranges::any_of(graph.layers, [](const Layer& l) { return is_experts_layer(l.type); });
}

void refuse_what_was_not_recorded(const RankStep& step) {
  const Strategy& s = step.strategy;
  if (step.run.mode != Mode::train)
    throw refused("inference", "a checkpoint is saved between steps of training: leave out --save");
  if (step.run.first_step)
    throw refused("--step first", "a checkpoint is saved after the steady step: leave out --step");
  if (by_definition(step.run, s))
    throw refused("what DeepSpeed saves in fp32, or of a run that is planned by definition,", "--precision bf16");
  if (s.is_megatron()) throw refused("what Megatron-core saves", "leave out --save");
  if (s.data == DataParallel::zero1 && step.run.save == SavedCheckpoint::full)
    throw refused("what ZeroRedundancyOptimizer sends to one rank first",
                  "--save model saves the model alone; gpuplan shadow runs consolidate_state_dict() itself");
  if (s.flat && step.run.save == SavedCheckpoint::sharded)
    throw refused("a sharded checkpoint of FSDP1, which makes each module whole, too, and then cuts it,",
                  "--save full or --save model; gpuplan shadow runs state_dict() itself");
  if (step.run.save == SavedCheckpoint::sharded) return;
  const std::string shards = "--save sharded has each rank save its own";
  if (s.tensor > 1 && holds_experts(step.graph)) throw refused("a full checkpoint of experts with --tp", shards);
  const OptimizerConfig& o = step.run.optimizer;
  if (shares_parameters(s) && step.run.save == SavedCheckpoint::full && (o.recorder || o.bitsandbytes))
    throw refused("a full checkpoint of this optimizer", "--save model saves the model alone; " + shards);
}

// How ranks other than FSDP2's share a parameter: some of its rows (Shard(0)) or of its columns (Shard(1)) each.
struct Division {
  enum class Of : std::uint8_t { nothing, rows, columns } of = Of::nothing;
  std::int64_t ranks = 1;
};

Division division_of(const Graph& graph, const ParameterTensor& p, const Strategy& s) {
  using Of = Division::Of;
  if (is_of_experts(graph, p)) return {Of::rows, s.experts};
  if (s.tensor == 1 || p.layer == kNone) return {};
  switch (tensor_style_of(graph.layers[index(p.layer)].name, s.tensor_plan.sequence)) {
    case TensorStyle::colwise:
    case TensorStyle::head:
    case TensorStyle::vocabulary: return {Of::rows, s.tensor};
    case TensorStyle::rowwise:
      return graph.tensor(p.tensor).shape.rank() > 1 ? Division{Of::columns, s.tensor} : Division{};
    default: return {};
  }
}

class Gatherer {
 public:
  explicit Gatherer(const RankStep& step) : step_(step) {}

  /// DTensor.full_tensor() of what is as the parameter is: brought to the GPU where it is on the host, then
  /// replicated along one dimension of the mesh after another (torch/distributed/tensor/_redistribute.py,
  /// redistribute_local_tensor): the parts that FSDP2 made of some rows come together first, and columns before them.
  void gather(const ParameterTensor& p) {
    const Strategy& s = step_.strategy;
    const Shape shape = cut_shape(step_.graph, p);
    const std::int64_t size = size_of(stored_type(step_.graph, p, s, step_.run));
    const Strategy::Group group = s.data == DataParallel::fsdp ? shard_group(step_.graph, p, s) : Strategy::Group{};
    const Division division = division_of(step_.graph, p, s);
    const std::int64_t own = shard_of(shape, group.ranks, group.rank).elements() * size;
    const std::int64_t padded = padded_shard_elements(shape, group.ranks) * size;
    if (s.offloads) allocate(of_own, own);
    if (division.of == Division::Of::columns) {
      gather_columns(own * division.ranks);
      gather_rows(own * division.ranks, padded * division.ranks, group.ranks);
    } else {
      gather_rows(own, padded, group.ranks);
      const std::int64_t whole = shape.elements() * size;
      gather_rows(whole, whole, division.ranks);
    }
    if (s.offloads) free(of_own);
    free(result_);
    result_ = no_slot;
  }

  OptimizerProgram take() { return std::move(program_); }

 private:
  enum Slot : std::int8_t { no_slot = -1, of_own, of_padded, of_gathered, of_one, of_other };

  // Shard(0)._to_replicate_tensor (placement_types.py): padded to the largest part. Of one rank nothing is gathered.
  void gather_rows(std::int64_t own, std::int64_t padded, std::int64_t ranks) {
    if (ranks == 1) return;
    if (own != padded) allocate(of_padded, padded);
    const Slot whole = result_ == of_one ? of_other : of_one;
    allocate(whole, padded * ranks);
    if (own != padded) free(of_padded);
    becomes(whole);
  }

  // Ranks' columns come one below the other, and are put side by side in a copy (torch.cat).
  void gather_columns(std::int64_t bytes) {
    allocate(of_gathered, bytes);
    allocate(of_one, bytes);
    free(of_gathered);
    becomes(of_one);
  }

  void becomes(Slot result) {
    free(result_);
    result_ = result;
  }
  void allocate(Slot slot, std::int64_t bytes) {
    program_.events.push_back({OptimizerEvent::Kind::alloc_tensor, slot, bytes});
  }
  void free(Slot slot) {
    if (slot != no_slot) program_.events.push_back({OptimizerEvent::Kind::free, slot, 0});
  }

  const RankStep& step_;
  OptimizerProgram program_;
  Slot result_ = no_slot;
};

}  // namespace

OptimizerProgram checkpoint_saving(const RankStep& step) {
  if (step.run.save == SavedCheckpoint::none) return {};
  refuse_what_was_not_recorded(step);
  if (step.strategy.flat) {
    const int states = step.run.save == SavedCheckpoint::full ? states_like_parameter(step.run.optimizer) : 0;
    return flat_saving(flat_parameters(step.graph, step.units, step.strategy, step.run), states, step.strategy);
  }
  Gatherer gatherer(step);
  if (!shares_parameters(step.strategy) || step.run.save == SavedCheckpoint::sharded) return gatherer.take();
  // Beside weights that are stored in fewer bits, adapters are saved alone, as Accelerate (adapter_only) and Trainer do
  // it.
  const bool adapters_alone = step.run.weights != WeightFormat::as_computed;
  for (const ParameterTensor& p : step.graph.parameters)
    if (p.trainable || !adapters_alone) gatherer.gather(p);
  if (step.run.save == SavedCheckpoint::model) return gatherer.take();
  for (const ParameterTensor& p : step.graph.parameters)
    for (int state = 0; p.trainable && state < states_like_parameter(step.run.optimizer); ++state) gatherer.gather(p);
  return gatherer.take();
}

}  // namespace gpuplan

#include "estimator/distributed/checkpoint_saving.h"

#include <string>
#include <utility>

#include "estimator/base/integers.h"
#include "estimator/distributed/rank_share.h"
#include "estimator/distributed/shard_sizes.h"

namespace gpuplan {
namespace {

Error refused(const std::string& what, const std::string& help) {
  return Error(what + " is not planned with --save", ErrorKind::usage).help(help);
}

void refuse_what_was_not_recorded(const RankStep& step) {
  const Strategy& s = step.strategy;
  if (step.run.mode != Mode::train)
    throw refused("inference", "a checkpoint is saved between steps of training: leave out --save");
  if (step.run.first_step)
    throw refused("--step first", "a checkpoint is saved after the steady step: leave out --step");
  if (s.is_deepspeed()) throw refused("what DeepSpeed saves", "gpuplan shadow runs save_checkpoint() itself");
  if (s.is_megatron()) throw refused("what Megatron-core saves", "leave out --save");
  if (s.data == DataParallel::zero1)
    throw refused("what ZeroRedundancyOptimizer sends to one rank first",
                  "consolidate_state_dict() is run by gpuplan shadow");
  if (s.flat) throw refused("what FSDP1 saves", "gpuplan shadow runs state_dict() itself; FSDP2 is planned");
  if (step.run.save == SavedCheckpoint::sharded) return;
  const std::string shards = "--save sharded has each rank save its own";
  if (s.tensor > 1) throw refused("a full checkpoint of --tp", shards);
  if (s.experts > 1) throw refused("a full checkpoint of --ep", shards);
  if (s.runs_stages()) throw refused("a full checkpoint of --pp", shards);
  if (s.data == DataParallel::fsdp && step.run.weights != WeightFormat::as_computed)
    throw refused("a full checkpoint of --weights", shards);
  const OptimizerConfig& o = step.run.optimizer;
  if (s.data == DataParallel::fsdp && step.run.save == SavedCheckpoint::full && (o.recorder || o.bitsandbytes))
    throw refused("a full checkpoint of this optimizer", "--save model saves the model alone; " + shards);
}

class Gatherer {
 public:
  explicit Gatherer(const RankStep& step) : step_(step) {}

  /// DTensor.full_tensor() of what is as the parameter is: brought to the GPU where it is on the host, padded to the
  /// largest part, gathered (placement_types.py, Shard._to_replicate_tensor).
  void gather(const ParameterTensor& p) {
    const Strategy& s = step_.strategy;
    const Strategy::Group group = shard_group(step_.graph, p, s);
    const Shape shape = cut_shape(step_.graph, p);
    const std::int64_t size = size_of(stored_type(step_.graph, p, s, step_.run));
    const std::int64_t own = shard_of(shape, group.ranks, group.rank).elements() * size;
    const std::int64_t padded = padded_shard_elements(shape, group.ranks) * size;
    const bool pads = own != padded, is_whole = group.ranks == 1;  // of one rank nothing is gathered
    if (s.offloads) allocate(kOwn, own);
    if (pads) allocate(kPadded, padded);
    if (!is_whole) allocate(kWhole, padded * group.ranks);
    if (s.offloads) free(kOwn);
    if (pads) free(kPadded);
    if (!is_whole) free(kWhole);
  }

  OptimizerProgram take() { return std::move(program_); }

 private:
  enum Slot : std::int8_t { kOwn, kPadded, kWhole };
  void allocate(Slot slot, std::int64_t bytes) {
    program_.events.push_back({OptimizerEvent::Kind::alloc_tensor, slot, bytes});
  }
  void free(Slot slot) { program_.events.push_back({OptimizerEvent::Kind::free, slot, 0}); }

  const RankStep& step_;
  OptimizerProgram program_;
};

}  // namespace

OptimizerProgram checkpoint_saving(const RankStep& step) {
  if (step.run.save == SavedCheckpoint::none) return {};
  refuse_what_was_not_recorded(step);
  Gatherer gatherer(step);
  if (step.strategy.data != DataParallel::fsdp || step.run.save == SavedCheckpoint::sharded) return gatherer.take();
  for (const ParameterTensor& p : step.graph.parameters) gatherer.gather(p);
  if (step.run.save == SavedCheckpoint::model) return gatherer.take();
  for (const ParameterTensor& p : step.graph.parameters)
    for (int state = 0; p.trainable && state < states_like_parameter(step.run.optimizer); ++state) gatherer.gather(p);
  return gatherer.take();
}

}  // namespace gpuplan

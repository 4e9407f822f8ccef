#include <algorithm>
#include <cmath>

#include "estimator/base/integers.h"
#include "estimator/distributed/collective_writer.h"
#include "estimator/distributed/data_parallel_memory.h"
#include "estimator/distributed/fsdp_construction.h"
#include "estimator/schedule/micro_batch_schedules.h"

namespace gpuplan {
namespace {

// FSDPCommContext.lazy_init: collectives of each kind have a stream of their own.
constexpr std::int32_t kCurrentStream = 0, kGatherStream = 1, kReduceStream = 2, kAllReduceStream = 3;

// aten/src/ATen/native/cuda/TensorShape.cu: a block of threads copies 16 bytes a thread at a time.
constexpr std::int64_t kThreadsPerBlock = 128;
constexpr std::int64_t kBytesPerBlock = 16 * kThreadsPerBlock;
constexpr std::int64_t kWord = 8;

std::int64_t blocks_of(std::int64_t bytes, std::int64_t tiles = 1) {
  return (bytes + kBytesPerBlock * tiles - 1) / (kBytesPerBlock * tiles);
}

class FsdpWriter {
 public:
  FsdpWriter(const Graph& graph, std::span<const Schedule> schedules, const Strategy& strategy, const RunConfig& run,
             const Gpu& gpu)
      : schedules_(schedules), strategy_(strategy), run_(run), gpu_(gpu) {
    for (const Schedule& s : schedules) units_of_.push_back(fsdp_units(graph, s, strategy));
    table_ = writer_.new_slot();
    cast_ = writer_.new_slot();
    quotient_ = writer_.new_slot();
    units_ = fsdp_blocks(graph, schedules.front(), units_of_.front(), strategy, run, writer_);
    if (is_bitsandbytes(run.weights))
      cut_units(graph, units_, strategy, run, writer_);
    else if (strategy.moves_units && !strategy.offloads)
      move_units(graph, units_, strategy, run, writer_);
    else if (!strategy.offloads || strategy.loads_whole)
      write_construction(graph, units_, strategy, run, writer_);
  }

  CollectiveMemory write() {
    if (strategy_.runs_stages())
      write_stage();
    else
      write_micro_batches();
    writer_.memory().zero_grad = writer_.written([&] {
      for (const FsdpBlocks& unit : units_) writer_.free(unit.converts_back ? unit.converted : unit.reduced);
    });
    return writer_.finish();
  }

 private:
  struct Pass {
    bool adds;           // gradients of micro-batches before are there
    bool reduces;        // otherwise they stay whole
    bool keeps = false;  // set_reshard_after_backward(False): what is whole is not gathered again
  };

  // torch.distributed.pipelining has nothing reduced and nothing given back before all micro-batches are through
  // (stage.py, backward_maybe_with_nosync; FSDPState.finalize_backward).
  void write_stage() {
    const std::size_t last = schedules_.size() - 1;
    pass(MicroBatch::inferring, kInferringSchedule, {.adds = false, .reduces = false});
    pass(MicroBatch::first, 0, {.adds = false, .reduces = false, .keeps = true});
    for (const MicroBatch kind : {MicroBatch::middle, MicroBatch::last})
      pass(kind, last, {.adds = true, .reduces = false, .keeps = true});
    CollectiveMemory::StageEvents& stage = writer_.memory().stages.emplace_back();
    stage.reduce = writer_.written([&] {
      pass_ = {.adds = true, .reduces = true};
      for (auto unit = units_.rbegin(); unit != units_.rend(); ++unit) after_backward(*unit);
      end_reductions();
    });
    if (runs_actions(strategy_.pipelining.schedule)) write_unsharding(stage);
  }

  // An action gathers the stage's units by FSDPModule.unshard(async_op=True), on the current stream; before the stage
  // computes, _assert_unsharded() waits for one after the other (schedules.py).
  void write_unsharding(CollectiveMemory::StageEvents& stage) {
    stage.unshard = writer_.written([&] {
      for (const FsdpBlocks& unit : units_) gather_shards(unit, kCurrentStream);
    });
    stage.copy_out = writer_.written([&] {
      for (const FsdpBlocks& unit : units_) {
        if (unit.members.empty()) continue;
        copy_gathered(unit);
        writer_.free(unit.gathered);
      }
    });
    stage.reshard = writer_.written([&] {
      for (const FsdpBlocks& unit : units_) reshard(unit);
    });
  }

  void write_micro_batches() {
    const bool several = run_.micro_batches > 1, waits = several && strategy_.reduces_last;
    const std::size_t last = schedules_.size() - 1;
    pass(MicroBatch::first, 0, {.adds = false, .reduces = !waits});
    if (several) pass(MicroBatch::middle, last, {.adds = true, .reduces = !waits});
    if (several) pass(MicroBatch::last, last, {.adds = true, .reduces = true});
  }

  // `of`: which of the schedules it runs.
  void pass(MicroBatch kind, std::size_t of, const Pass& pass) {
    pass_ = pass;
    schedule_ = &schedules_[of];
    for (std::size_t u = 0; u < units_.size(); ++u) units_[u].of = &units_of_[of][u];
    writer_.of_micro_batch(kind);
    forward();
    if (kind == MicroBatch::inferring && strategy_.pipelining.stage == 0)
      give_back();
    else
      backward();
  }

  // --- gathering ----------------------------------------------------------------------------------------------------

  // Under a policy foreach_all_gather() converts all of the unit's shards into one tensor first
  // (_fsdp_collectives.py, _get_param_all_gather_inputs), which goes when the gather has been started.
  void gather(const FsdpBlocks& unit) {
    if (unit.members.empty()) return;
    if (!pass_.keeps) return gather_shards(unit);
    writer_.unless_there(unit.members.front().whole, [&] { gather_shards(unit); });
  }
  void gather_shards(const FsdpBlocks& unit, std::int32_t stream = kGatherStream) {
    if (unit.ranks == 1 || unit.members.empty()) return;
    std::int64_t cast = 0;
    for (const FsdpMember& m : unit.members)
      if (m.is_converted) cast += m.shard_bytes;
    if (strategy_.offloads)
      bring(unit);
    else if (cast > 0)
      writer_.allocate(cast_, cast, Category::parameters, stream);
    writer_.allocate(unit.gathered, unit.ranks * unit.shard_bytes, Category::parameters, stream);
    writer_.free(cast_);
    for (const FsdpMember& m : unit.members) {
      writer_.free(m.there);
      writer_.free(m.cast);
    }
  }

  // From the host one by one, and each converted by itself (_fsdp_param.py, all_gather_inputs).
  void bring(const FsdpBlocks& unit) {
    for (const FsdpMember& m : unit.members) {
      writer_.allocate(m.there, m.stored_bytes, Category::parameters, kGatherStream);
      if (!m.is_converted) continue;
      writer_.allocate(m.cast, m.shard_bytes, Category::parameters, kGatherStream);
      writer_.free(m.there);
    }
  }

  // split_with_sizes_copy, with its table: four numbers a tensor, one more, and one a block. Where there are more
  // blocks than twice as many as run at once, each copies several tiles of several shards.
  void copy_out(const FsdpBlocks& unit) {
    if (unit.members.empty()) return;
    if (!pass_.keeps) return copy_gathered(unit);
    writer_.unless_there(unit.members.front().whole, [&] { copy_gathered(unit); });
  }
  void copy_gathered(const FsdpBlocks& unit) {
    if (unit.ranks == 1) return convert_alone(unit);
    std::int64_t blocks = 0;
    for (const FsdpMember& m : unit.members) {
      writer_.allocate(m.whole, unit.ranks * m.shard_bytes, Category::parameters);
      blocks += blocks_of(m.shard_bytes);
    }
    const std::int64_t most = std::int64_t{gpu_.sm_count} * gpu_.max_threads_per_sm / kThreadsPerBlock * 2;
    const std::int64_t rounds = (blocks * unit.ranks + most - 1) / most;
    const auto root = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(rounds))));
    const std::int64_t shards = std::min(root, unit.ranks);
    const std::int64_t tiles = (rounds + shards - 1) / shards;
    std::int64_t words = 1;
    for (const FsdpMember& m : unit.members) words += 4 + blocks_of(m.shard_bytes, tiles);
    table(words);
  }

  // What no other rank shares is copied, each parameter in the type of the policy while the one before is there
  // (FSDPParamGroup.wait_for_unshard).
  void convert_alone(const FsdpBlocks& unit) {
    const FsdpMember* before = nullptr;
    for (const FsdpMember& m : unit.members) {
      if (m.is_converted) writer_.allocate(m.cast, m.shard_bytes, Category::parameters);
      if (before != nullptr) writer_.free(before->cast);
      writer_.allocate(m.whole, m.shard_bytes, Category::parameters);
      before = &m;
    }
    if (before != nullptr) writer_.free(before->cast);
  }

  void table(std::int64_t words) {
    writer_.allocate(table_, words * kWord, Category::scratch);
    writer_.free(table_);
  }

  void reshard(const FsdpBlocks& unit) {
    for (const FsdpMember& m : unit.members) writer_.free(m.whole);
  }

  // --- forward ------------------------------------------------------------------------------------------------------

  // A gathered buffer is held until the next one is there (Note: Overlapping all-gather copy-in and all-gather).
  void forward() {
    const FsdpBlocks* held = nullptr;
    const auto unshard = [&](const FsdpBlocks& unit) {
      gather(unit);
      if (held != nullptr) writer_.free(held->gathered);
      copy_out(unit);
      held = unit.members.empty() || unit.ranks == 1 ? nullptr : &unit;
    };
    writer_.at(Phase::forward, units_[0].of->forward.begin, [&] { unshard(units_[0]); });
    std::vector<const FsdpBlocks*> order;
    for (std::size_t u = 1; u < units_.size(); ++u) order.push_back(&units_[u]);
    std::ranges::stable_sort(order, {}, [](const FsdpBlocks* unit) { return unit->of->forward.begin; });
    for (const FsdpBlocks* unit : order) {
      writer_.at(Phase::forward, unit->of->forward.begin, [&] { unshard(*unit); });
      if (unit->reshards) writer_.at(Phase::forward, unit->of->forward.end, [&] { reshard(*unit); });
    }
    writer_.at(Phase::forward, units_[0].of->forward.end, [&] {
      if (strategy_.reshards_root) reshard(units_[0]);
      if (held != nullptr) writer_.free(held->gathered);
    });
  }

  // --- backward -----------------------------------------------------------------------------------------------------

  void prefetch(std::size_t unit) {
    if (unit < 1 || unit >= units_.size() || !units_[unit].reshards) return;
    gather(units_[unit]);
    if (!units_[unit].of->runs_backward()) mistargeted_ = &units_[unit];  // FSDPParamGroup.finalize_backward
  }

  // The first stage's inference of shapes runs nothing backward (_post_metadata_inference_cleanup).
  void give_back() {
    writer_.at(Phase::backward, backward_returns(*schedule_), [&] {
      for (const FsdpBlocks& unit : units_) reshard(unit);
    });
  }

  void backward() {
    const std::size_t last = units_.size() - 1;
    const bool root_gathers = !units_[0].members.empty();
    if (root_gathers)
      writer_.at(Phase::backward, units_[0].of->backward.begin, [&] {
        if (strategy_.reshards_root) {
          gather(units_[0]);
          copy_out(units_[0]);
          writer_.free(units_[0].gathered);
        }
        prefetch(last);
      });
    std::vector<const FsdpBlocks*> open;  // whose backward has begun, an inner one behind its block
    const auto close = [&](std::int32_t step) {
      for (; !open.empty() && open.back()->of->backward.end <= step; open.pop_back()) {
        const FsdpBlocks& unit = *open.back();
        writer_.at(Phase::backward, unit.of->backward.end, [&] { after_backward(unit); });
      }
    };
    for (std::size_t u = last; u >= 1; --u) {
      const FsdpBlocks& unit = units_[u];
      if (!unit.of->runs_backward()) continue;
      close(unit.of->backward.begin);
      writer_.at(Phase::backward, unit.of->backward.begin, [&] {
        if (unit.reshards) {
          if (u == last && !root_gathers) gather(unit);
          copy_out(unit);
          writer_.free(unit.gathered);
        }
        prefetch(u - 1);
      });
      if (unit.of->input_has_gradient) open.push_back(&unit);
    }
    const std::int32_t end = backward_returns(*schedule_);
    close(end);
    writer_.at(Phase::backward, end, [&] {
      for (const FsdpBlocks& unit : units_)
        if (!unit.of->input_has_gradient) after_backward(unit);
      end_reductions();
      if (mistargeted_ != nullptr) writer_.free(mistargeted_->gathered);
      mistargeted_ = nullptr;
    });
  }

  void end_reductions() {
    if (last_reduced_ != nullptr) writer_.free(last_reduced_->reduced_from);
    last_reduced_ = nullptr;
    for (const std::int32_t slot : held_) writer_.free(slot);
    held_.clear();
  }

  // --- gradients ----------------------------------------------------------------------------------------------------

  // Gradients that wait for the last micro-batch are kept in the type of the reduction.
  bool sums(const FsdpMember& m) const {
    return m.gradient != kNone && m.sums_converted && run_.micro_batches > 1 && strategy_.reduces_last &&
           run_.pytorch < kSumsAsTheyCome;
  }
  void sum(const FsdpBlocks& unit) {
    for (const FsdpMember& m : unit.members) {
      if (!sums(m)) continue;
      if (!pass_.adds) writer_.allocate(m.summed, m.summed_bytes, Category::gradients);
      writer_.free_buffer(m.gradient);
    }
  }

  // FSDPParam._get_grad_inner_tensor.
  void sum_over_tensor_ranks(const FsdpBlocks& unit) {
    for (const FsdpMember& m : unit.members) {
      if (!m.is_partial || m.gradient == kNone) continue;
      writer_.allocate(m.summed, m.scattered_bytes, Category::gradients);
      writer_.free_buffer(m.gradient);
    }
  }

  // FSDPParamGroup.post_backward. Before 2.15 gradients are added to their sum before the unit's parameters go, and the
  // sum is made afterwards.
  void after_backward(const FsdpBlocks& unit) {
    if (pass_.adds) sum(unit);
    if (pass_.reduces) sum_over_tensor_ranks(unit);
    if (!pass_.keeps) reshard(unit);
    if (!pass_.adds && !pass_.reduces) sum(unit);
    if (pass_.reduces) reduce(unit);
  }

  // Under a policy those of norms in sequence parallelism are converted as they come, the others in the reduction.
  bool comes_in_two_types(const FsdpBlocks& unit) const {
    if (!run_.tensor_plan.sequence || strategy_.sums_first(run_.micro_batches)) return false;
    const auto count = [&](bool of_norm) {
      return std::ranges::count_if(unit.members, [&](const FsdpMember& m) {
        return m.gradient != kNone && m.sums_converted && m.is_of_norm == of_norm;
      });
    };
    return count(true) > 0 && count(false) > 0;
  }

  // foreach_reduce: the buffer that the unit before was reduced from goes first.
  void reduce(const FsdpBlocks& unit) {
    if (last_reduced_ != nullptr) writer_.free(last_reduced_->reduced_from);
    last_reduced_ = nullptr;
    if (unit.reduced_bytes == 0) return;
    writer_.allocate(unit.reduced_from, unit.ranks * unit.reduced_bytes, Category::gradients);
    // _chunk_cat's table: six numbers a tensor, two more, and one a block.
    // In that of gradients in two types blocks are counted from each type's first one, without the two
    // (torch/csrc/distributed/fsdp/ChunkCat.cu, chunk_cat_mixed_dtype_cuda).
    std::int64_t words = comes_in_two_types(unit) ? 0 : 2;
    for (const FsdpMember& m : unit.members)
      if (m.gradient != kNone) words += 6 + blocks_of(m.gradient_bytes);
    table(words);
    for (const FsdpMember& m : unit.members) {
      if (m.gradient == kNone) continue;
      if (sums(m) || m.is_partial)
        writer_.free(m.summed);
      else
        writer_.free_buffer(m.gradient);
    }
    take_reduced(unit);
    last_reduced_ = &unit;
  }

  // What a rank has of the reduction: its gradient, or what is added to it or goes to the host, which ends with
  // foreach_reduce. HSDP adds it up over the replicas first, and holds what it was added up in until backward ends
  // (FSDPParamGroup._all_reduce_state).
  void take_reduced(const FsdpBlocks& unit) {
    const bool goes = strategy_.offloads || (pass_.adds && !strategy_.reduces_last), held = strategy_.replicas > 1;
    const std::int32_t reduced = goes ? unit.more : unit.reduced,
                       converted = goes ? unit.more_converted : unit.converted;
    writer_.allocate(reduced, unit.reduced_bytes, Category::gradients, kReduceStream);
    if (unit.of->of_experts && unit.ranks == 1 && strategy_.experts > 1) {  // divided by set_gradient_divide_factor()'s
      writer_.allocate(quotient_, unit.reduced_bytes, Category::gradients, kReduceStream);
      writer_.free(quotient_);
    }
    if (unit.converts_back)  // _to_dtype_if_needed(reduce_output, orig_dtype)
      writer_.allocate(converted, unit.kept_bytes, Category::gradients, held ? kAllReduceStream : kReduceStream);
    if (goes && unit.converts_back) writer_.free(converted);
    if (!goes && !unit.converts_back) return;
    if (held)
      held_.push_back(reduced);
    else
      writer_.free(reduced);
  }

  std::span<const Schedule> schedules_;
  std::vector<std::vector<FsdpUnit>> units_of_;  // by schedule
  const Schedule* schedule_ = nullptr;           // of the pass
  const Strategy& strategy_;
  const RunConfig& run_;
  const Gpu& gpu_;
  CollectiveWriter writer_;
  std::vector<FsdpBlocks> units_;
  Pass pass_{};
  std::int32_t table_ = 0, cast_ = 0, quotient_ = 0;  // slots
  const FsdpBlocks* last_reduced_ = nullptr;
  const FsdpBlocks* mistargeted_ = nullptr;  // gathered ahead of a backward that does not come
  std::vector<std::int32_t> held_;           // slots, until backward ends
};

}  // namespace

CollectiveMemory fsdp_memory(const Graph& graph, std::span<const Schedule> schedules, const Strategy& strategy,
                             const RunConfig& run, const Gpu& gpu) {
  return FsdpWriter(graph, schedules, strategy, run, gpu).write();
}

}  // namespace gpuplan

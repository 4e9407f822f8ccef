#include <algorithm>
#include <cmath>

#include "estimator/base/integers.h"
#include "estimator/distributed/collective_writer.h"
#include "estimator/distributed/data_parallel_memory.h"
#include "estimator/distributed/rank_share.h"
#include "estimator/distributed/shard_sizes.h"

namespace gpuplan {
namespace {

// FSDPCommContext.lazy_init: all-gathers and reduce-scatters have streams of their own.
constexpr std::int32_t kGatherStream = 1, kReduceStream = 2;

// aten/src/ATen/native/cuda/TensorShape.cu: a block of threads copies 16 bytes a thread at a time.
constexpr std::int64_t kThreadsPerBlock = 128;
constexpr std::int64_t kBytesPerBlock = 16 * kThreadsPerBlock;
constexpr std::int64_t kWord = 8;

std::int64_t blocks_of(std::int64_t bytes, std::int64_t tiles = 1) {
  return (bytes + kBytesPerBlock * tiles - 1) / (kBytesPerBlock * tiles);
}

struct Member {
  std::int32_t parameter;     // of Graph::parameters
  std::int64_t stored_bytes;  // of its padded shard
  std::int64_t shard_bytes;   // the same in the type that it is gathered in
  std::int32_t whole;         // slot of its gathered copy
  BufferId gradient = kNone;  // none where it is frozen
  bool is_converted = false;  // it is gathered in another type than it is stored in
};

struct MemoryUnit {
  const FsdpUnit* of;
  std::vector<Member> members;
  std::int64_t shard_bytes = 0;                             // all members', as they are gathered
  std::int64_t reduced_bytes = 0;                           // of those with a gradient, as they are reduced
  std::int64_t kept_bytes = 0;                              // of the same, as they are stored
  std::int32_t gathered, reduced_from, reduced, converted;  // slots
  bool reshards;
  bool converts_back = false;  // gradients are reduced in another type than is kept
};

class FsdpWriter {
 public:
  FsdpWriter(const Graph& graph, const Schedule& schedule, std::span<const FsdpUnit> units, const Strategy& strategy,
             const RunConfig& run, const Gpu& gpu)
      : graph_(graph),
        schedule_(schedule),
        run_(run),
        strategy_(strategy),
        gpu_(gpu),
        ranks_(strategy.ranks()),
        rank_(strategy.rank) {
    table_ = writer_.new_slot();
    cast_ = writer_.new_slot();
    for (std::size_t u = 0; u < units.size(); ++u) add(units[u], strategy.reshards(u, units.size()));
  }

  CollectiveMemory write() {
    construct();
    forward();
    backward();
    writer_.memory().zero_grad = writer_.written([&] {
      for (const MemoryUnit& unit : units_) writer_.free(kept_slot(unit));
    });
    return writer_.finish();
  }

 private:
  DType stored(const Tensor& t) const { return stored_type(t.dtype, strategy_, run_); }
  DType reduced(const Tensor& t) const { return strategy_.reduce_type.value_or(t.dtype); }

  void add(const FsdpUnit& of, bool reshards) {
    MemoryUnit unit{
        &of, {}, 0, 0, 0, writer_.new_slot(), writer_.new_slot(), writer_.new_slot(), writer_.new_slot(), reshards};
    for (const std::int32_t p : of.parameters) {
      const Tensor& t = graph_.tensor(graph_.parameters[index(p)].tensor);
      const std::int64_t elements = padded_shard_elements(t.shape, ranks_);
      Member member{p,     elements * size_of(stored(t)), elements * size_of(t.dtype), writer_.new_slot(),
                    kNone, stored(t) != t.dtype};
      const std::int32_t place = gradient_place(schedule_, p);
      if (place != kNone) member.gradient = schedule_.gradient_of[index(place)];
      unit.shard_bytes += member.shard_bytes;
      if (member.gradient != kNone) {
        unit.reduced_bytes += elements * size_of(reduced(t));
        unit.kept_bytes += member.stored_bytes;
        unit.converts_back = unit.converts_back || reduced(t) != stored(t);
      }
      unit.members.push_back(member);
    }
    units_.push_back(std::move(unit));
  }

  // --- the model ----------------------------------------------------------------------------------------------------

  // to_empty() makes shards without padding, and _fsdp_param.py's reset_sharded_param pads them when the unit is made.
  void construct() {
    std::vector<std::size_t> place(graph_.tensors.size());  // in the order that the model is made
    for (std::size_t i = 0; i < graph_.model_storage.size(); ++i) place[index(graph_.model_storage[i])] = i;
    for (std::size_t u = 1; u <= units_.size(); ++u) {
      const MemoryUnit& unit = units_[u % units_.size()];  // the root last
      std::size_t made = 0;
      const Range events = writer_.written([&] {
        for (const Member& m : unit.members) {
          const TensorId tensor = graph_.parameters[index(m.parameter)].tensor;
          made = std::max(made, place[index(tensor)] + 1);
          make_shard(m, graph_.tensor(tensor));
        }
      });
      if (unit.of->path.empty()) made = graph_.model_storage.size();
      writer_.memory().construction.push_back({Phase::start, static_cast<std::int32_t>(made), events});
    }
    std::ranges::stable_sort(writer_.memory().construction, {}, &CollectivePoint::step);
  }

  // A weight that is tied is emptied at each of its places, and the last one stays.
  void make_shard(const Member& m, const Tensor& t) {
    const std::int64_t bytes = shard_of(t.shape, ranks_, rank_).elements() * size_of(stored(t));
    const bool tied = std::ranges::find(graph_.tied_shapes, t.shape) != graph_.tied_shapes.end();
    std::int32_t again = 0;
    if (tied) {
      again = writer_.new_slot();
      writer_.allocate(again, bytes, Category::parameters);
      writer_.free_buffer(t.buffer);
    }
    if (bytes == m.stored_bytes) return;
    writer_.allocate(writer_.new_slot(), m.stored_bytes, Category::parameters);
    if (tied)
      writer_.free(again);
    else
      writer_.free_buffer(t.buffer);
  }

  // --- gathering ----------------------------------------------------------------------------------------------------

  // Under a policy foreach_all_gather() converts all of the unit's shards into one tensor first
  // (_fsdp_collectives.py, _get_param_all_gather_inputs), which goes when the gather has been started.
  void gather(const MemoryUnit& unit) {
    if (unit.members.empty()) return;
    std::int64_t cast = 0;
    for (const Member& m : unit.members)
      if (m.is_converted) cast += m.shard_bytes;
    if (cast > 0) writer_.allocate(cast_, cast, Category::parameters, kGatherStream);
    writer_.allocate(unit.gathered, ranks_ * unit.shard_bytes, Category::parameters, kGatherStream);
    if (cast > 0) writer_.free(cast_);
  }

  // split_with_sizes_copy, with its table: four numbers a tensor, one more, and one a block. Where there are more
  // blocks than twice as many as run at once, each copies several tiles of several shards.
  void copy_out(const MemoryUnit& unit) {
    if (unit.members.empty()) return;
    std::int64_t blocks = 0;
    for (const Member& m : unit.members) {
      writer_.allocate(m.whole, ranks_ * m.shard_bytes, Category::parameters);
      blocks += blocks_of(m.shard_bytes);
    }
    const std::int64_t most = std::int64_t{gpu_.sm_count} * gpu_.max_threads_per_sm / kThreadsPerBlock * 2;
    const std::int64_t rounds = (blocks * ranks_ + most - 1) / most;
    const auto root = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(rounds))));
    const std::int64_t shards = std::min(root, ranks_);
    const std::int64_t tiles = (rounds + shards - 1) / shards;
    std::int64_t words = 1;
    for (const Member& m : unit.members) words += 4 + blocks_of(m.shard_bytes, tiles);
    table(words);
  }

  void table(std::int64_t words) {
    writer_.allocate(table_, words * kWord, Category::scratch);
    writer_.free(table_);
  }

  void reshard(const MemoryUnit& unit) {
    for (const Member& m : unit.members) writer_.free(m.whole);
  }

  // --- forward ------------------------------------------------------------------------------------------------------

  // A gathered buffer is held until the next one is there (Note: Overlapping all-gather copy-in and all-gather).
  void forward() {
    const MemoryUnit* held = nullptr;
    const auto unshard = [&](const MemoryUnit& unit) {
      gather(unit);
      if (held != nullptr) writer_.free(held->gathered);
      copy_out(unit);
      held = unit.members.empty() ? nullptr : &unit;
    };
    writer_.at(Phase::forward, units_[0].of->forward.begin, [&] { unshard(units_[0]); });
    for (std::size_t u = 1; u < units_.size(); ++u) {
      const MemoryUnit& unit = units_[u];
      writer_.at(Phase::forward, unit.of->forward.begin, [&] { unshard(unit); });
      if (unit.reshards) writer_.at(Phase::forward, unit.of->forward.end, [&] { reshard(unit); });
    }
    writer_.at(Phase::forward, units_[0].of->forward.end, [&] {
      if (strategy_.reshards_root) reshard(units_[0]);
      if (held != nullptr) writer_.free(held->gathered);
    });
  }

  // --- backward -----------------------------------------------------------------------------------------------------

  void prefetch(std::size_t unit) {
    if (unit >= 1 && unit < units_.size() && units_[unit].reshards) gather(units_[unit]);
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
    for (std::size_t u = last; u >= 1; --u) {
      const MemoryUnit& unit = units_[u];
      writer_.at(Phase::backward, unit.of->backward.begin, [&] {
        if (unit.reshards) {
          if (u == last && !root_gathers) gather(unit);
          copy_out(unit);
          writer_.free(unit.gathered);
        }
        prefetch(u - 1);
      });
      if (unit.of->input_has_gradient) writer_.at(Phase::backward, unit.of->backward.end, [&] { reduce(unit); });
    }
    const auto end = static_cast<std::int32_t>(schedule_.ops.size());
    writer_.at(Phase::backward, end, [&] {
      for (const MemoryUnit& unit : units_)
        if (!unit.of->input_has_gradient) reduce(unit);
      if (last_reduced_ != nullptr) writer_.free(last_reduced_->reduced_from);
    });
  }

  // FSDPParamGroup.post_backward and foreach_reduce: the buffer that the unit before was reduced from goes first.
  void reduce(const MemoryUnit& unit) {
    reshard(unit);
    if (last_reduced_ != nullptr) writer_.free(last_reduced_->reduced_from);
    last_reduced_ = nullptr;
    if (unit.reduced_bytes == 0) return;
    writer_.allocate(unit.reduced_from, ranks_ * unit.reduced_bytes, Category::gradients);
    // _chunk_cat's table: six numbers a tensor, two more, and one a block.
    std::int64_t words = 2;
    for (const Member& m : unit.members)
      if (m.gradient != kNone) words += 6 + blocks_of(m.shard_bytes);
    table(words);
    for (const Member& m : unit.members)
      if (m.gradient != kNone) writer_.free_buffer(m.gradient);
    writer_.allocate(unit.reduced, unit.reduced_bytes, Category::gradients, kReduceStream);
    if (unit.converts_back) {  // _to_dtype_if_needed(reduce_output, orig_dtype)
      writer_.allocate(unit.converted, unit.kept_bytes, Category::gradients, kReduceStream);
      writer_.free(unit.reduced);
    }
    last_reduced_ = &unit;
  }
  static std::int32_t kept_slot(const MemoryUnit& unit) { return unit.converts_back ? unit.converted : unit.reduced; }

  const Graph& graph_;
  const Schedule& schedule_;
  const RunConfig& run_;
  const Strategy& strategy_;
  const Gpu& gpu_;
  std::int64_t ranks_, rank_;
  CollectiveWriter writer_;
  std::vector<MemoryUnit> units_;
  std::int32_t table_ = 0, cast_ = 0;
  const MemoryUnit* last_reduced_ = nullptr;
};

}  // namespace

CollectiveMemory fsdp_memory(const Graph& graph, const Schedule& schedule, std::span<const FsdpUnit> units,
                             const Strategy& strategy, const RunConfig& run, const Gpu& gpu) {
  return FsdpWriter(graph, schedule, units, strategy, run, gpu).write();
}

}  // namespace gpuplan

#include "estimator/plan/plan_snapshot.h"

#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "estimator/allocator/loop_readings.h"
#include "estimator/allocator/training_loop.h"
#include "estimator/plan/run_names.h"

namespace gpuplan {
namespace {

class Recorder final : public LoopObserver, public SegmentSource {
 public:
  Recorder(const Plan& plan, SegmentOrder order) : plan_(plan), segments_(INT64_MAX, order) {
    snapshot_.name = plan.model->name;
    snapshot_.stack_ends.push_back(0);  // kNoStack
    snapshot_.streams.push_back(0);
    snapshot_.alloc_conf = plan.step.run.alloc_conf;
    (void)word("");
  }

  Snapshot take(const CachingAllocator& allocator) {
    snapshot_.expandable_segments = allocator.settings().expandable_segments;
    snapshot_.device_ends.push_back(static_cast<std::uint32_t>(snapshot_.events.size()));
    for (const SegmentView& segment : allocator.segments()) add_segment(segment);
    return std::move(snapshot_);
  }

  // --- LoopObserver

  void begins(const RunningLoop& loop) override { loop_ = &loop; }
  bool follows_scratch() const override { return true; }
  void allocated(std::uint64_t address, std::int64_t /*bytes*/, std::int64_t requested, Category category) override {
    enter_phase();
    const LayerId layer = loop_->step == kNone ? kNone : operation().layer;
    const std::uint32_t stack = stack_of(layer, loop_->step == kNone ? name_of(category) : operation().name);
    stacks_[address] = stack;
    add(SnapshotAction::alloc, address, requested, stack);
  }
  void releasing(std::uint64_t address, std::int64_t /*bytes*/) override {
    enter_phase();
    const std::int64_t requested = requested_[address];
    add(SnapshotAction::free_requested, address, requested, kNoStack);
    add(SnapshotAction::free_completed, address, requested, kNoStack);
  }
  // Parameters and the like, whose layer is known only now.
  void placed(BufferId buffer, std::uint64_t address) override {
    if (loop_->step != kNone || snapshot_.events.empty() || address == 0) return;
    SnapshotEvent& last = snapshot_.events.back();
    if (last.action != SnapshotAction::alloc || last.address != address) return;
    const Buffer& storage = plan_.step.micro_batches.schedules.back().buffers[index(buffer)];
    last.stack = stacks_[address] = stack_of(storage.layer, name_of(storage.category));
  }
  void constant_is_made(TensorId /*constant*/) override {}
  void model_is_made() override {}
  void micro_batch(std::int64_t /*number*/) override {}
  void run(std::size_t /*pass*/, std::int32_t /*step*/, std::span<const PlacedScratch> /*scratch*/) override {}
  void state(std::uint64_t /*address*/, std::int64_t /*bytes*/) override {}
  void optimizer_tensor(OptimizerPart /*part*/, std::int32_t /*slot*/, std::uint64_t /*address*/) override {}
  void fp32_gradient(std::uint64_t /*address*/) override {}
  void optimizer(OptimizerPart /*part*/, int /*training_step*/, std::int32_t /*parameter*/) override {}
  void phase_ended(int training_step, Phase phase) override {
    enter(training_step, phase);  // one that allocates nothing is marked, too
    leave_phase();
  }

  // --- SegmentSource

  std::uint64_t allocate(std::int64_t bytes) override {
    const std::uint64_t address = segments_.allocate(bytes);
    add(SnapshotAction::segment_alloc, address, bytes, kNoStack);
    return address;
  }
  void release(std::uint64_t address, std::int64_t bytes) override {
    segments_.release(address, bytes);
    add(SnapshotAction::segment_free, address, bytes, kNoStack);
  }
  std::uint64_t reserve(std::int64_t bytes) override { return segments_.reserve(bytes); }
  bool map(std::uint64_t address, std::int64_t bytes) override {
    add(SnapshotAction::segment_map, address, bytes, kNoStack);
    return segments_.map(address, bytes);
  }
  void unmap(std::uint64_t address, std::int64_t bytes) override {
    segments_.unmap(address, bytes);
    add(SnapshotAction::segment_unmap, address, bytes, kNoStack);
  }

 private:
  const ScheduledOp& operation() const {
    return plan_.step.micro_batches.schedules[loop_->pass].ops[index(loop_->step)];
  }

  void add(SnapshotAction action, std::uint64_t address, std::int64_t bytes, std::uint32_t stack) {
    if (action == SnapshotAction::alloc) requested_[address] = bytes;
    snapshot_.events.push_back(
        {.address = address, .bytes = bytes, .microseconds = ++clock_, .stack = stack, .stream = 0, .action = action});
  }

  // Marks, as a profiler makes them of record_function(); those of the optimizer as torch.optim's.
  void enter_phase() { enter(loop_->training_step, loop_->phase); }
  void enter(int training_step, Phase phase) {
    if (in_phase_ && phase_ == phase && training_step_ == training_step) return;
    leave_phase();
    in_phase_ = true;
    phase_ = phase;
    training_step_ = training_step;
    mark(true);
  }
  void leave_phase() {
    if (in_phase_) mark(false);
    in_phase_ = false;
  }
  void mark(bool begins) {
    const bool builds = training_step_ < 0;
    const std::string name = builds ? "build"
                             : phase_ == Phase::optimizer
                                 ? "Optimizer.step#" + std::string(name_of(plan_.step.run.optimizer))
                                 : std::string(name_of(phase_));
    snapshot_.marks.push_back(
        {.name = word(name), .device = 0, .begins = begins, .microseconds = clock_ + (begins ? 0 : 1)});
  }

  std::uint32_t word(std::string_view text) {
    const auto [at, is_new] = words_.try_emplace(std::string(text), static_cast<std::uint32_t>(snapshot_.words.size()));
    if (is_new) snapshot_.words.emplace_back(text);
    return at->second;
  }
  std::uint32_t frame(std::string_view file, std::string_view name, std::int32_t line) {
    const SnapshotFrame f{.file = word(file), .name = word(name), .line = line};
    const auto [at, is_new] =
        frames_.try_emplace({f.file, f.name, f.line}, static_cast<std::uint32_t>(snapshot_.frames.size()));
    if (is_new) snapshot_.frames.push_back(f);
    return at->second;
  }

  // The operation, then its module and those around it: "layer1.0.conv1", "layer1.0", "layer1".
  std::uint32_t stack_of(LayerId layer, std::string_view operation) {
    const std::string key =
        std::to_string(layer) + "/" + std::to_string(static_cast<int>(loop_->phase)) + "/" + std::string(operation);
    const auto [at, is_new] = stack_numbers_.try_emplace(key, static_cast<std::uint32_t>(snapshot_.stack_ends.size()));
    if (!is_new) return at->second;
    const Layer* const of = layer == kNone ? nullptr : &plan_.step.graph.layers[index(layer)];
    const std::string file = of != nullptr && of->mark.source != nullptr ? of->mark.source->name : plan_.model->name;
    const std::int32_t line = of != nullptr && of->mark.source != nullptr ? of->mark.line : 0;
    std::vector<std::uint32_t>& frames = snapshot_.frames_of_stack;
    const bool backward = loop_->phase == Phase::backward;
    const std::string path = of == nullptr ? "" : of->name;
    frames.push_back(frame(
        file, (path.empty() ? "" : path + " ") + std::string(operation) + (backward ? " in backward" : ""), line));
    for (std::string_view module = path; !module.empty();) {
      frames.push_back(frame(file, module, 0));
      const std::size_t dot = module.rfind('.');
      module = dot == module.npos ? "" : module.substr(0, dot);
    }
    frames.push_back(frame(file, plan_.model->name, 0));
    snapshot_.stack_ends.push_back(static_cast<std::uint32_t>(frames.size()));
    return at->second;
  }

  void add_segment(const SegmentView& view) {
    SnapshotSegment segment{.address = view.address, .bytes = view.bytes, .expandable = view.expandable};
    segment.first_block = static_cast<std::uint32_t>(snapshot_.blocks.size());
    for (const BlockView& block : view.blocks) {
      const auto stack = stacks_.find(block.address);
      snapshot_.blocks.push_back({.address = block.address,
                                  .bytes = block.bytes,
                                  .requested_bytes = block.requested_bytes,
                                  .stack = block.allocated && stack != stacks_.end() ? stack->second : kNoStack,
                                  .allocated = block.allocated});
      segment.allocated_bytes += block.allocated ? block.bytes : 0;
      segment.requested_bytes += block.requested_bytes;
    }
    segment.blocks = static_cast<std::uint32_t>(view.blocks.size());
    snapshot_.segments.push_back(segment);
  }

  const Plan& plan_;
  const RunningLoop* loop_ = nullptr;
  ArithmeticSegments segments_;
  Snapshot snapshot_;
  std::int64_t clock_ = 0;
  bool in_phase_ = false;
  Phase phase_ = Phase::start;
  int training_step_ = -1;
  std::unordered_map<std::string, std::uint32_t> words_, stack_numbers_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::int32_t>, std::uint32_t> frames_;
  std::unordered_map<std::uint64_t, std::int64_t> requested_;  // by address
  std::unordered_map<std::uint64_t, std::uint32_t> stacks_;
};

}  // namespace

Snapshot snapshot_of(const Plan& plan) {
  if (plan.step.run.allocator != AllocatorKind::caching)
    throw Error("a snapshot is of PyTorch's caching allocator: leave out --allocator", ErrorKind::usage);
  AllocatorSettings settings = parse_alloc_conf(plan.step.run.alloc_conf);
  settings.segment_order = plan.step.run.segments;
  Recorder recorder(plan, settings.segment_order);
  CachingAllocator allocator(recorder, settings);
  (void)replay_loop(allocator, plan.step, &recorder);
  return recorder.take(allocator);
}

}  // namespace gpuplan

// The training loop of a plan, event by event: model construction and some steps, each of forward, loss, backward,
// clip and optimizer, under an allocator. The last of three or more
// steps is steady: reserved memory has settled. Estimating runs it over segments that are only arithmetic, validating
// over a device's.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "estimator/memory/collective_memory.h"
#include "estimator/memory/cudnn_rnn.h"
#include "estimator/memory/placed_blocks.h"
#include "estimator/optimizer/optimizer_work.h"
#include "estimator/schedule/scratch.h"

namespace gpuplan {

/// What a loop runs. All of it must outlive the loop.
struct LoopParts {
  const Graph& graph;
  std::span<const Schedule> passes;  // of a step; where there are micro-batches also that of all but the first
  const OptimizerWork& optimizer;
  const RunConfig& run;
  const Gpu& gpu;
  const CollectiveMemory* collectives = nullptr;  // of one rank of several
};

template <class Allocator>
class TrainingLoop : private PlacedBlocks<Allocator> {
 public:
  static constexpr int kSteps = 3;  // the third is steady

  TrainingLoop(Allocator& allocator, const LoopParts& parts, LoopFollower* follower = nullptr, int steps = kSteps)
      : PlacedBlocks<Allocator>(allocator, parts.passes.back().buffers, follower),
        graph_(parts.graph),
        passes_(parts.passes),
        optimizer_(parts.optimizer),
        run_(parts.run),
        gpu_(parts.gpu),
        collectives_(parts.collectives),
        steps_(steps) {
    if (collectives_ != nullptr) collective_blocks_.assign(index(collectives_->slots), {kNoBlock, Category::scratch});
    result_.timeline.reserve(passes_.back().steps.size() + kPhases);
    for (std::size_t i = 0; i < passes_.size(); ++i) find_phases(i);
  }

  /// Throws NoRoom where the allocator has none.
  Placement replay() {
    build_model();
    const int reported = run_.mode == Mode::train && run_.first_step ? 0 : steps_ - 1;
    for (int i = 0; i < steps_; ++i) {
      recording_ = i == 0 || i == steps_ - 1;
      reporting_ = i == reported;
      steady_ = i == steps_ - 1;
      allocator_.reset_peaks();
      highest_ = -1;
      training_step_ = i;
      step(i);
    }
    result_.segments = allocator_.segment_count();
    result_.inactive_split_bytes = allocator_.inactive_split_bytes();
    result_.allocations = allocations_;
    return std::move(result_);
  }

  /// The same where the allocator may have no room. `whole`: what replay() returns, where it has.
  LimitedPlacement replay_within_limit(Placement* whole = nullptr) {
    LimitedPlacement limited;
    try {
      Placement placement = replay();
      if (whole != nullptr) *whole = std::move(placement);
    } catch (const NoRoom&) {
      limited = {0, true, allocator_.out_of_memory(), training_step_, phase_, step_, pass_};
    }
    limited.retries = allocator_.retry_count();
    return limited;
  }

 private:
  using Base = PlacedBlocks<Allocator>;
  using Base::allocate, Base::allocate_bytes, Base::block_of, Base::buffer, Base::index, Base::record, Base::release,
      Base::release_as, Base::release_block, Base::release_result, Base::release_scratch, Base::note_peak;
  using Base::allocations_, Base::allocator_, Base::blocks_, Base::categories_, Base::follower_, Base::highest_,
      Base::kernels_, Base::pass_, Base::phase_, Base::recording_, Base::reporting_, Base::result_, Base::silent_,
      Base::steady_, Base::step_, Base::step_peak_, Base::training_step_;

  BufferId buffer_of(TensorId t) const { return graph_.tensors[index(t)].buffer; }

  // --- the training loop ------------------------------------------------------------------------------------------

  void build_model() {
    const std::size_t weights = graph_.model_storage.size() - graph_.adapters.size();
    // Temporaries of constructors go when the next weight is there, weights that are replaced by those that they are
    // tied to once all are.
    BufferId going = kNone;
    std::vector<BufferId> replaced;
    for (std::size_t i = 0; i < weights; ++i) {
      const TensorId t = graph_.model_storage[i];
      const BufferId made = buffer_of(t);
      allocate(made);
      if (going != kNone) release(going);
      release_parts_of(t);
      const bool goes = buffer(made).category == Category::scratch;
      const bool weight = graph_.tensors[index(t)].trained;
      going = goes && !weight ? made : kNone;
      if (goes && weight) replaced.push_back(made);
      run_construction_collectives(i + 1);
    }
    if (going != kNone) release(going);
    for (const BufferId b : replaced) release(b);
    initialize_weights();
    add_adapters();
    if (run_.layout == MemoryFormat::channels_last)
      for (const ParameterTensor& p : graph_.parameters)
        if (graph_.tensors[index(p.tensor)].shape.rank() == 4) move_to_new_block(buffer_of(p.tensor));
    run_optimizer(optimizer_.construction, OptimizerPart::construction);
    make_batch();
    if (follower_ != nullptr) follower_->model_is_made();
  }

  // _cudnn_rnn_flatten_weight: the weights are views of one storage now, and theirs go.
  void release_parts_of(TensorId whole) {
    const auto flat = std::ranges::lower_bound(graph_.flat_weights, whole, {}, &FlatWeights::whole);
    if (flat == graph_.flat_weights.end() || flat->whole != whole) return;
    for (const TensorId part : graph_.at(flat->parts)) release(buffer_of(part));
  }

  void initialize_weights() {
    std::vector<BlockId> blocks;
    if (run_.scratch == Scratch::none) return;
    for (const std::int64_t n : graph_.initialization) {
      if (n > 0)
        blocks.push_back(allocate_bytes(n, Category::scratch));
      else
        release_scratch(blocks[index(-n - 1)]);
    }
  }

  // peft makes a layer's two matrices in fp32 and casts them to that layer's type; when it has made all of them, those
  // of half precision are cast back to fp32 (tuners/lora/layer.py, update_layer; tuners_utils.py, cast_adapter_dtype).
  void add_adapters() {
    const bool cast_twice = run_.precision != adapter_type(run_.precision);
    std::vector<BlockId> half;
    for (std::size_t i = 0; i < graph_.adapters.size(); i += 2) {
      const std::array<TensorId, 2> pair{graph_.adapters[i], graph_.adapters[i + 1]};
      for (const TensorId t : pair) allocate(buffer_of(t));
      if (!cast_twice) continue;
      for (const TensorId t : pair) {
        half.push_back(allocate_bytes(buffer(buffer_of(t)).bytes / size_of(DType::fp32) * size_of(run_.precision),
                                      Category::parameters));
        release(buffer_of(t));
      }
    }
    for (std::size_t i = 0; i < half.size(); ++i) {
      allocate(buffer_of(graph_.adapters[i]));
      release_block(half[i], buffer_of(graph_.adapters[i]));
    }
  }

  // tensor.to(memory_format=channels_last): a copy, then the old one goes.
  void move_to_new_block(BufferId id) {
    const BlockId old = blocks_[index(id)];
    allocate(id);
    release_block(old, id);
  }

  // A batch arrives in fp32; a model of another precision has it cast, and the fp32 copy goes after that.
  void make_batch() {
    std::vector<BlockId> originals;
    std::vector<TensorId> casts;
    for (const TensorId t : graph_.inputs) {
      const Tensor& x = graph_.tensors[index(t)];
      if (!is_floating(x.dtype) || x.dtype == DType::fp32) {
        allocate(x.buffer);
        continue;
      }
      originals.push_back(allocate_bytes(
          graph_.buffers[index(x.buffer)].bytes / size_of(x.dtype) * size_of(DType::fp32), Category::inputs));
      casts.push_back(t);
    }
    for (const TensorId t : casts) allocate(buffer_of(t));
    for (BlockId& b : originals) {
      release_as(b, Category::inputs);
    }
    if (run_.layout == MemoryFormat::channels_last)
      for (const TensorId t : graph_.inputs)
        if (graph_.tensors[index(t)].shape.rank() == 4) move_to_new_block(buffer_of(t));
  }

  void step(int i) {
    if (reporting_) note_peak(Phase::start, kNone);
    if (i > 0) zero_gradients();
    record(Phase::start);
    if (run_.mode == Mode::infer) {
      follow_micro_batch(0);
      infer(i > 0);
    } else {
      for (std::int64_t m = 0; m < run_.micro_batches; ++m) {
        pass_ = m == 0 ? 0 : passes_.size() - 1;
        silent_ = m + 1 < run_.micro_batches;
        follow_micro_batch(m);
        pass(i > 0 || m > 0, i == 0 && m == 0);
      }
      silent_ = false;
      update(i);
    }
    record(Phase::end);
  }

  void follow_micro_batch(std::int64_t number) {
    if (follower_ != nullptr) follower_->micro_batch(number);
  }

  void zero_gradients() {
    for (const BufferId g : passes_.front().gradients) release(g);
    for (BlockId& g : fp32_gradients_) release_as(g, Category::gradients);
    fp32_gradients_.clear();
    if (collectives_ != nullptr) run_collectives(collectives_->zero_grad);
  }

  // --- collectives ------------------------------------------------------------------------------------------------

  void run_collectives(Range events) {
    using Kind = CollectiveEvent::Kind;
    for (std::int32_t i = events.begin; i < events.end; ++i) {
      const CollectiveEvent& e = collectives_->events[index(i)];
      if (e.kind == Kind::free_buffer) {
        release(e.slot);
        continue;
      }
      auto& [block, category] = collective_blocks_[index(e.slot)];
      if (e.kind == Kind::free) {
        release_as(block, category);
      } else if (e.category != Category::scratch || run_.scratch != Scratch::none) {
        block = allocate_bytes(e.bytes, e.category, e.stream);
        category = e.category;
      }
    }
  }

  void run_construction_collectives(std::size_t made) {
    if (collectives_ == nullptr) return;
    for (const CollectivePoint& p : collectives_->construction)
      if (index(p.step) == made) run_collectives(p.events);
  }

  // Those before step `i` of the phase.
  void run_collectives_before(std::int32_t i) {
    if (collectives_ == nullptr) return;
    const auto& points = collectives_->points;
    while (next_collective_ < points.size() && points[next_collective_].phase == phase_ &&
           points[next_collective_].step <= i)
      run_collectives(points[next_collective_++].events);
  }

  // Buffers are sent, and buckets made anew, before the first micro-batch only: the forward before one of the others
  // was under no_sync() (distributed.py, require_forward_param_sync), and so was its backward, whose gradients the
  // reducer does not see (reducer.cpp, expect_autograd_hooks_).
  void begin_forward() {
    if (collectives_ == nullptr) return;
    const bool first_micro_batch = pass_ == 0;
    next_collective_ = first_micro_batch ? 0 : collectives_->points.size();
    if (first_micro_batch && ++forwards_ == 2) run_collectives(collectives_->second_forward);
  }

  void infer(bool result_is_held) {
    const BlockId held_output = block_of(s().output);
    run_steps(Phase::forward);
    if (run_.loop == Loop::plain && result_is_held) release_block(held_output, s().output);
    record(Phase::forward);
    if (run_.loop != Loop::plain) release_result(s().output);
    for (const BufferId b : s().beside_output) release(b);
  }

  // Forward, loss and backward of one micro-batch. A plain loop's names hold the last results until they are bound
  // anew.
  void pass(bool result_is_held, bool first) {
    const BlockId held_output = block_of(s().output);
    const BlockId held_loss = block_of(s().loss);
    const BlockId held_model_loss = block_of(s().model_loss);
    begin_forward();
    std::vector<BlockId> held_beside;
    for (const BufferId b : s().beside_output) held_beside.push_back(block_of(b));
    run_steps(Phase::forward);
    record(Phase::forward);
    run_steps(Phase::loss);
    if (run_.loop == Loop::plain && result_is_held) {
      release_block(held_output, s().output);
      release_block(held_loss, s().loss);
      release_block(held_model_loss, s().model_loss);
      for (std::size_t i = 0; i < held_beside.size(); ++i) release_block(held_beside[i], s().beside_output[i]);
    }
    record(Phase::loss);
    phase_ = Phase::backward;
    updates_first_ = first;
    if (first) run_optimizer(optimizer_.scaler, OptimizerPart::scaler);
    run_steps(Phase::backward);
    record(Phase::backward);
    // The recorded loop deletes its output and loss between backward and step(), unless it is `plain`.
    if (run_.loop == Loop::plain) return;
    release_result(s().output);
    release_result(s().loss);
    release_result(s().model_loss);
    for (const BufferId b : s().beside_output) release(b);
  }

  void update(int i) {
    phase_ = Phase::clip;
    if (run_.clip_grad_norm) {
      run_optimizer(optimizer_.clip, OptimizerPart::clip);
      record(Phase::clip);
    }
    phase_ = Phase::optimizer;
    run_optimizer(i == 0 ? optimizer_.first : optimizer_.steady, OptimizerPart::step);
    record(Phase::optimizer);
  }

  // --- steps ------------------------------------------------------------------------------------------------------

  const Schedule& s() const { return passes_[pass_]; }

  void find_phases(std::size_t pass) {
    const std::vector<Step>& steps = passes_[pass].steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      auto& range = phase_steps_[pass][static_cast<std::size_t>(steps[i].phase)];
      if (steps[i].what != nullptr)
        phase_kernels_[pass][static_cast<std::size_t>(steps[i].phase)] += cost(*steps[i].what).kernels;
      if (range.begin == range.end) range.begin = static_cast<std::int32_t>(i);
      range.end = static_cast<std::int32_t>(i) + 1;
    }
  }

  void run_steps(Phase phase) {
    phase_ = phase;
    const Range range = phase_steps_[pass_][static_cast<std::size_t>(phase)];
    if (recording_) kernels_ += phase_kernels_[pass_][static_cast<std::size_t>(phase)];
    const Schedule& schedule = s();
    for (std::int32_t i = range.begin; i < range.end; ++i) {
      const Step& step = schedule.steps[static_cast<std::size_t>(i)];
      run_collectives_before(i);
      step_ = i;
      if (reporting_) step_peak_ = allocator_.allocated_bytes();
      if (step.what != nullptr) run_kernel(step);
      update_parameter(i);
      for (std::int32_t k = step.releases.begin; k < step.releases.end; ++k) release(schedule.released[index(k)]);
      if (next_replacement_ < schedule.replacements.size() && schedule.replacements[next_replacement_].step == i)
        replace();
      if (reporting_) result_.timeline.push_back({phase, allocator_.allocated_bytes(), step_peak_});
    }
    run_collectives_before(range.end);
    next_replacement_ = next_update_ = 0;
    step_ = kNone;
  }

  // An optimizer's step within backward.
  void update_parameter(std::int32_t step) {
    if (phase_ != Phase::backward || next_update_ >= s().updates.size() || s().updates[next_update_].step != step)
      return;
    const std::size_t parameter = index(s().updates[next_update_++].parameter);
    const auto& programs = updates_first_ ? optimizer_.first_of : optimizer_.steady_of;
    if (parameter >= programs.size()) return;
    run_optimizer(programs[parameter], OptimizerPart::step, static_cast<std::int32_t>(parameter));
  }

  void run_kernel(const Step& step) {
    std::int32_t next = step.allocates.begin;
    const auto program =
        std::span(s().scratch).subspan(index(step.scratch.begin), index(step.scratch.end - step.scratch.begin));
    const auto remaining = [&] {
      while (next < step.allocates.end) allocate(s().allocated[index(next++)]);
    };
    if (std::ranges::find(program, kNextOutput) == program.end()) remaining();
    scratch_.clear();
    scratch_bytes_.clear();
    placed_scratch_.clear();
    if (std::holds_alternative<DropoutStates>(*step.what)) ensure_dropout_states();
    const auto outputs_to_come = [&](std::size_t from) {
      return std::ranges::find(program.subspan(from), kNextOutput) != program.end();
    };
    bool ran = follower_ == nullptr;
    for (std::size_t i = 0; i < program.size(); ++i) {
      const std::int64_t n = program[i];
      if (n == kNextOutput) {
        allocate(s().allocated[index(next++)]);
      } else if (n > 0) {
        scratch_.push_back(allocate_bytes(n, Category::scratch));
        if (!ran) scratch_bytes_.push_back(n);
      } else {
        if (!ran && !outputs_to_come(i)) ran = follow_kernel();
        release_scratch(scratch_[index(-n - 1)]);
      }
    }
    remaining();
    if (!ran) follow_kernel();
    if (keeps_cublas_workspace(run_.pytorch) && run_.scratch != Scratch::none &&
        std::holds_alternative<Gemm>(*step.what))
      ensure_cublas_workspace();
    for (BlockId& b : scratch_) release_scratch(b);
  }

  // What the kernel computes is done when all it allocates is there and as much of its scratch as is still to be freed.
  bool follow_kernel() {
    for (std::size_t i = 0; i < scratch_.size(); ++i)
      placed_scratch_.push_back({this->address(scratch_[i]), scratch_bytes_[i]});
    follower_->run(pass_, step_, placed_scratch_);
    return true;
  }

  // Forward and backward run on two threads, each with a cuBLAS handle of its own.
  void ensure_cublas_workspace() {
    bool& there = phase_ == Phase::backward ? workspace_backward_ : workspace_forward_;
    if (there) return;
    there = true;
    allocate_bytes(cublas_workspace_bytes(gpu_), Category::scratch);
  }

  // aten/src/ATen/native/cudnn/RNN.cpp, get_dropout_state: made once a device, after a seed was read.
  void ensure_dropout_states() {
    if (std::exchange(dropout_states_, true) || run_.scratch == Scratch::none) return;
    BlockId seed = allocate_bytes(size_of(DType::int64), Category::scratch);
    release_scratch(seed);
    const std::int64_t bytes = cudnn_rnn::dropout_states_bytes(gpu_.sm_count, gpu_.max_threads_per_sm);
    const BlockId states = allocate_bytes(bytes, Category::scratch);
    if (follower_ != nullptr) placed_scratch_.push_back({this->address(states), bytes});
  }

  void replace() {
    const auto& r = s().replacements[next_replacement_++];
    release(r.old_buffer);
    blocks_[index(r.old_buffer)] = blocks_[index(r.new_buffer)];
    move_category(r);
    blocks_[index(r.new_buffer)] = kNoBlock;
    if (follower_ != nullptr) follower_->placed(r.old_buffer, this->address(blocks_[index(r.old_buffer)]));
  }

  void move_category(const Schedule::Replacement& r) {
    const std::int64_t bytes = allocator_.charged_bytes(blocks_[index(r.old_buffer)]);
    categories_[static_cast<std::size_t>(buffer(r.new_buffer).category)] -= bytes;
    categories_[static_cast<std::size_t>(buffer(r.old_buffer).category)] += bytes;
  }

  void run_optimizer(const OptimizerProgram& program, OptimizerPart part, std::int32_t parameter = kNone) {
    if (recording_) kernels_ += program.kernels;
    // What the program computes is done when all that it makes is there, and what is still to be freed then.
    std::size_t ready = follower_ == nullptr ? 0 : program.events.size();
    while (ready > 0 && program.events[ready - 1].kind == OptimizerEvent::Kind::free) --ready;
    for (std::size_t i = 0; i <= program.events.size(); ++i) {
      if (follower_ != nullptr && i == ready) follower_->optimizer(part, training_step_, parameter);
      if (i < program.events.size()) run_event(program.events[i], part);
    }
  }

  void run_event(const OptimizerEvent& e, OptimizerPart part) {
    using Kind = OptimizerEvent::Kind;
    const auto slot = static_cast<std::size_t>(e.slot);
    if (slots_.size() <= slot) slots_.resize(slot + 1, kNoBlock);
    switch (e.kind) {
      case Kind::alloc_state: {
        const BlockId state = allocate_bytes(e.bytes, Category::optimizer_state);
        if (follower_ != nullptr) follower_->state(this->address(state), e.bytes);
        break;
      }
      case Kind::alloc_tensor:
        slots_[slot] = allocate_bytes(e.bytes, Category::scratch);
        if (follower_ != nullptr) follower_->optimizer_tensor(part, e.slot, this->address(slots_[slot]));
        break;
      case Kind::alloc_scratch:
        slots_[slot] = run_.scratch == Scratch::none ? kNoBlock : allocate_bytes(e.bytes, Category::scratch);
        break;
      case Kind::free: release_scratch(slots_[slot]); break;
      case Kind::alloc_gradient:
        fp32_gradients_.push_back(allocate_bytes(e.bytes, Category::gradients));
        if (follower_ != nullptr) follower_->fp32_gradient(this->address(fp32_gradients_.back()));
        break;
      case Kind::free_gradient: release(passes_.front().gradient_of[slot]); break;
    }
  }

  const Graph& graph_;
  std::span<const Schedule> passes_;
  const OptimizerWork& optimizer_;
  const RunConfig& run_;
  const Gpu& gpu_;
  const CollectiveMemory* collectives_;
  int steps_;
  std::vector<BlockId> slots_;    // of the optimizer's program
  std::vector<BlockId> scratch_;  // of the step's
  std::vector<std::int64_t> scratch_bytes_;
  std::vector<PlacedScratch> placed_scratch_;
  std::array<std::array<Range, kPhases>, 2> phase_steps_{};
  std::array<std::array<std::int64_t, kPhases>, 2> phase_kernels_{};
  std::vector<BlockId> fp32_gradients_;                          // of master weights
  std::vector<std::pair<BlockId, Category>> collective_blocks_;  // by slot
  std::size_t next_collective_ = 0;
  int forwards_ = 0;
  std::size_t next_replacement_ = 0, next_update_ = 0;
  bool updates_first_ = false;  // optimizers in backward have no states yet
  bool workspace_forward_ = false, workspace_backward_ = false, dropout_states_ = false;
};

}  // namespace gpuplan

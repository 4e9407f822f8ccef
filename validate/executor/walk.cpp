#include "validate/executor/walk.h"

#include <algorithm>
#include <set>
#include <span>
#include <unordered_map>

#include "estimator/error.h"
#include "estimator/memory/allocator.h"
#include "validate/executor/describe_kernel.h"
#include "validate/executor/half.h"
#include "validate/executor/initial_values.h"

namespace gpuplan {
namespace {

constexpr unsigned char kPoison = 0xFF;  // a NaN of every floating-point type, -1 of every integer

// Blocks stay where they are for ever.
class KeepingAllocator final : public CachingAllocator {
 public:
  using CachingAllocator::CachingAllocator;
  void release(BlockId) {}
};

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): the allocator counts in addresses
}

KernelTensor tensor_at(const OperandView& view, std::uint64_t address) {
  KernelTensor t;
  t.dtype = view.dtype;
  t.rank = view.shape.rank();
  for (int i = 0; i < t.rank; ++i) t.sizes[i] = view.shape[i], t.strides[i] = view.strides[i];
  if (address != 0) t.data = pointer(address + static_cast<std::uint64_t>(view.offset * size_of(view.dtype)));
  return t;
}

// aten::empty: no kernel.
bool allocates_only(const Step& step) { return step.what != nullptr && std::holds_alternative<Marker>(*step.what); }

// Kernels of a schedule's steps, with the addresses that the buffers have at the time.
class Kernels {
 public:
  Kernels(const Walk& walk, std::uint64_t seed) : graph_(walk.parts.graph), calls_(walk.calls), seed_(seed) {
    const Schedule& schedule = walk.parts.passes.front();
    steps_ = schedule.steps;
    addresses_.assign(schedule.buffers.size(), 0);
    tf32_ = walk.parts.run.tf32;
    for (const Op& op : graph_.forward_ops) forward_.emplace(&op.what, forward_.size());
    // Attention draws again in backward what it drew in forward.
    for (const AutogradNode& n : graph_.nodes)
      for (std::int32_t i = n.ops.begin; i < n.ops.end && n.op != kNone; ++i)
        forward_.emplace(&graph_.backward_ops[index(i)].what, index(n.op));
  }

  void place(BufferId buffer, std::uint64_t address) { addresses_[index(buffer)] = address; }
  std::uint64_t address(BufferId buffer) const { return addresses_[index(buffer)]; }
  KernelTensor tensor(const OperandView& view) const {
    return view.buffer == kNone ? KernelTensor{} : tensor_at(view, addresses_[index(view.buffer)]);
  }

  /// Valid until the next one.
  const Kernel& kernel(const KernelCall& call, int training_step, std::span<const PlacedScratch> scratch) {
    const Step& step = steps_[index(call.step)];
    kernel_.name = step.name;
    kernel_.layer = step.layer == kNone ? std::string_view{} : std::string_view(graph_.layers[index(step.layer)].name);
    kernel_.what = step.what;
    kernel_.reads = fill(reads_, calls_.at(call.reads));
    kernel_.beside = fill(beside_, calls_.at(call.beside));
    kernel_.writes = fill(writes_, calls_.at(call.writes));
    kernel_.numbers = calls_.numbers_of(call);
    scratch_.clear();
    for (const PlacedScratch& s : scratch) scratch_.push_back({pointer(s.address), s.bytes});
    kernel_.scratch = scratch_;
    kernel_.seed = seed_of(step.what, training_step);
    kernel_.tf32 = tf32_;
    return kernel_;
  }

 private:
  std::span<const KernelTensor> fill(std::vector<KernelTensor>& to, std::span<const OperandView> views) const {
    to.clear();
    for (const OperandView& v : views) to.push_back(tensor(v));
    return to;
  }

  // A checkpoint restores the generator's state: what is run again draws what it drew before.
  std::uint64_t seed_of(const Primitive* what, int training_step) const {
    const auto found = forward_.find(what);
    if (found == forward_.end()) return 0;
    return (seed_ << 40) + (static_cast<std::uint64_t>(training_step) << 32) + found->second;
  }

  const Graph& graph_;
  const Calls& calls_;
  std::span<const Step> steps_;
  std::unordered_map<const Primitive*, std::uint64_t> forward_;  // which operation it is
  std::uint64_t seed_;
  bool tf32_ = false;
  std::vector<std::uint64_t> addresses_;  // by buffer
  Kernel kernel_;
  std::vector<KernelTensor> reads_, beside_, writes_;
  std::vector<KernelScratch> scratch_;
};

class Walker final : public LoopFollower {
 public:
  Walker(Device& device, const Walk& walk, const WalkOptions& options, WalkResult& result)
      : device_(device),
        walk_(walk),
        schedule_(walk.parts.passes.front()),
        options_(options),
        kernels_(walk, options.seed),
        result_(result) {}

  void allocated(std::uint64_t address, std::int64_t bytes) override {
    if (options_.poison) device_.fill_bytes(pointer(address), bytes, kPoison);
  }
  void releasing(std::uint64_t address, std::int64_t bytes) override {
    if (options_.poison && !options_.keeps_everything) device_.fill_bytes(pointer(address), bytes, kPoison);
  }
  void placed(BufferId buffer, std::uint64_t address) override { kernels_.place(buffer, address); }
  void state(std::uint64_t address, std::int64_t bytes) override {
    device_.fill_bytes(pointer(address), bytes, 0);
    states_.push_back({address, bytes});
  }

  void model_is_made() override {
    const Graph& graph = walk_.parts.graph;
    // Temporaries of constructors and weights that tied ones replaced are gone.
    for (const TensorId t : graph.model_storage)
      if (schedule_.buffers[index(graph.tensor(t).buffer)].category != Category::scratch) initialize(t);
    for (const TensorId t : graph.adapters) initialize(t);
    for (const TensorId t : graph.inputs) initialize(t);
    device_.synchronize();
  }

  void run(std::size_t pass, std::int32_t step, std::span<const PlacedScratch> scratch) override {
    if (allocates_only(schedule_.steps[index(step)])) return;
    const auto call = std::ranges::lower_bound(walk_.calls.calls, step, {}, &KernelCall::step);
    if (call == walk_.calls.calls.end() || call->step != step)
      throw Error("the plan says nothing of what " + std::string(schedule_.steps[index(step)].name) + " is given");
    if (watcher() != nullptr) watcher()->tick();
    run_named(kernels_.kernel(*call, training_step_, scratch));
    if (watcher() != nullptr) watcher()->kernel_enqueued(pass, step);
  }

  void optimizer(OptimizerPart part, int training_step) override {
    if (part == OptimizerPart::clip) {
      std::vector<KernelTensor> gradients;
      for (const OperandView& g : walk_.calls.gradients) gradients.push_back(kernels_.tensor(g));
      device_.clip_gradients(gradients);
    }
    if (part == OptimizerPart::step) update(training_step);
    if (watcher() != nullptr) watcher()->optimizer_enqueued(part);
  }

  void phase_ended(int training_step, Phase phase) override {
    training_step_ = phase == Phase::end ? training_step + 1 : training_step;
    if (options_.reads_memory) result_.readings.push_back({training_step, phase, device_.memory()});
    if (phase == Phase::loss && options_.reads_losses) result_.losses.push_back(loss());
    if (phase == Phase::end && training_step + 1 == options_.steps && options_.collects) collect();
    if (watcher() != nullptr) watcher()->phase_ended(training_step, phase);
  }

 private:
  WalkWatcher* watcher() const { return options_.watcher; }

  // A kernel that fails on the GPU says so at the next call, whichever that is.
  void run_named(const Kernel& kernel) {
    try {
      device_.run(kernel);
      if (training_step_ < options_.checked_steps) device_.synchronize();
    } catch (const Error& e) {
      throw Error(described(kernel) + ": " + e.message(), e.kind());
    }
  }

  void initialize(TensorId id) {
    const std::uint64_t address = kernels_.address(walk_.parts.graph.tensor(id).buffer);
    if (address == 0) return;
    if (watcher() != nullptr) watcher()->tick();
    const std::vector<std::byte> values = initial_values(walk_.parts.graph, schedule_, walk_.calls, id, options_.seed);
    device_.copy_to_device(pointer(address), values.data(), static_cast<std::int64_t>(values.size()));
  }

  // The states of one parameter follow each other.
  void update(int training_step) {
    const Graph& graph = walk_.parts.graph;
    const std::size_t count = schedule_.with_gradient.size(), each = count == 0 ? 0 : states_.size() / count;
    std::vector<KernelTensor> states;
    std::vector<ParameterUpdate> updates;
    for (std::size_t i = 0; i < count; ++i) {
      const Tensor& t = graph.tensor(graph.parameters[index(schedule_.with_gradient[i])].tensor);
      for (std::size_t k = 0; k < each; ++k) states.push_back(state_of(t, states_[i * each + k]));
      updates.push_back({kernels_.tensor(view_of(t, t.buffer)), kernels_.tensor(walk_.calls.gradients[i]), {}});
    }
    for (std::size_t i = 0; i < count; ++i) updates[i].states = std::span(states).subspan(i * each, each);
    device_.update(walk_.parts.run.optimizer, training_step + 1, updates);
  }

  // One value is the count of steps; any other state is like the parameter.
  static KernelTensor state_of(const Tensor& parameter, const PlacedScratch& state) {
    OperandView view = view_of(parameter, parameter.buffer);
    view.offset = 0;
    if (state.bytes < parameter.shape.elements() * size_of(parameter.dtype)) view.shape = {}, view.dtype = DType::fp32;
    return tensor_at(view, state.address);
  }

  double loss() {
    const Tensor& t = walk_.parts.graph.tensor(walk_.parts.graph.loss);
    std::byte bytes[8] = {};
    device_.synchronize();
    device_.copy_to_host(bytes, kernels_.tensor(view_of(t, t.buffer)).data, size_of(t.dtype));
    const auto read = [&]<class T>(T value) {
      std::copy_n(bytes, sizeof value, reinterpret_cast<std::byte*>(&value));
      return value;
    };
    switch (t.dtype) {
      case DType::fp64: return read(double{});
      case DType::fp16: return fp16_value(read(std::uint16_t{}));
      case DType::bf16: return bf16_value(read(std::uint16_t{}));
      default: return static_cast<double>(read(float{}));
    }
  }

  void collect() {
    const Graph& graph = walk_.parts.graph;
    device_.synchronize();
    for (const ParameterTensor& p : graph.parameters) {
      const Tensor& t = graph.tensor(p.tensor);
      result_.weights.push_back(copied(kernels_.tensor(view_of(t, t.buffer)), t.shape));
    }
    for (const OperandView& g : walk_.calls.gradients) result_.gradients.push_back(copied(kernels_.tensor(g), g.shape));
  }
  std::vector<std::byte> copied(const KernelTensor& t, const Shape& shape) {
    std::vector<std::byte> bytes(index(shape.elements() * size_of(t.dtype)));
    device_.copy_to_host(bytes.data(), t.data, static_cast<std::int64_t>(bytes.size()));
    return bytes;
  }

  Device& device_;
  const Walk& walk_;
  const Schedule& schedule_;
  const WalkOptions& options_;
  Kernels kernels_;
  std::vector<PlacedScratch> states_;
  int training_step_ = 0;
  WalkResult& result_;
};

std::vector<std::string> refused_loops(const Walk& walk) {
  const RunConfig& run = walk.parts.run;
  std::vector<std::string> reasons;
  const auto refuse = [&](bool given, const char* what) {
    if (given) reasons.emplace_back(std::string(what) + " is not executed yet");
  };
  refuse(run.mode != Mode::train, "inference");
  refuse(run.micro_batches > 1, "a step of several micro-batches");
  refuse(run.offload_saved || run.offload_optimizer, "offloading to the host");
  refuse(run.master_weights, "a loop with master weights");
  refuse(run.optimizer_in_backward, "an optimizer in backward");
  refuse(run.scales_gradients(), "a loop with a GradScaler");
  refuse(run.pytorch < 200, "a plan of PyTorch 1.13");
  refuse(run.allocator != AllocatorKind::caching, "an allocator other than PyTorch's caching one");
  return reasons;
}

template <class Allocator>
void run_loop(Allocator& allocator, const Walk& walk, Walker& walker, int steps, WalkResult& result) {
  result.within = TrainingLoop<Allocator>(allocator, walk.parts, &walker, steps).replay_within_limit(&result.placement);
}

}  // namespace

std::vector<std::string> refusals(const Device& device, const Walk& walk) {
  std::vector<std::string> reasons = refused_loops(walk);
  std::set<std::string> seen;
  Kernels kernels(walk, 0);
  for (const KernelCall& call : walk.calls.calls) {
    if (allocates_only(walk.parts.passes.front().steps[index(call.step)])) continue;
    const Kernel& kernel = kernels.kernel(call, 0, {});
    const std::string why = device.refusal(kernel);
    if (!why.empty() && seen.insert(std::string(kernel.name) + why).second)
      reasons.push_back(std::string(kernel.name) + " of " + std::string(kernel.layer) + ": " + why);
  }
  return reasons;
}

WalkResult run(Device& device, const Walk& walk, const WalkOptions& options) {
  WalkResult result;
  Walker walker(device, walk, options, result);
  const AllocatorSettings settings = parse_alloc_conf(walk.parts.run.alloc_conf);
  if (options.keeps_everything) {
    KeepingAllocator allocator(device, settings);
    run_loop(allocator, walk, walker, options.steps, result);
  } else {
    CachingAllocator allocator(device, settings);
    run_loop(allocator, walk, walker, options.steps, result);
  }
  device.synchronize();
  return result;
}

}  // namespace gpuplan

#include "validate/executor/execution.h"

#include "estimator/allocator/allocator.h"
#include "estimator/base/error.h"
#include "estimator/base/integers.h"
#include "validate/executor/describe_kernel.h"
#include "validate/executor/gradient_scaler.h"
#include "validate/executor/half.h"
#include "validate/executor/initial_values.h"
#include "validate/executor/placed_kernels.h"
#include "validate/executor/stepped_parameters.h"

namespace gpuplan {
namespace {

constexpr unsigned char kPoison = 0xFF;  // a NaN of every floating-point type, -1 of every integer

// Blocks stay where they are for ever.
class KeepingAllocator final : public CachingAllocator {
 public:
  using CachingAllocator::CachingAllocator;
  void release(BlockId) override {}
};

std::vector<std::byte> without_gaps(const std::vector<std::byte>& all, const KernelTensor& t) {
  const auto each = index(size_of(t.dtype));
  std::vector<std::byte> bytes;
  const auto append = [&](auto&& self, int d, std::size_t from) -> void {
    if (d == t.rank) {
      bytes.insert(bytes.end(), all.data() + from, all.data() + from + each);
      return;
    }
    for (std::int64_t i = 0; i < t.sizes[d]; ++i) self(self, d + 1, from + index(i * t.strides[d]) * each);
  };
  append(append, 0, 0);
  return bytes;
}

class Execution final : public LoopObserver {
 public:
  Execution(Device& device, const RankStep& rank, const ExecutionOptions& options, ExecutionResult& result)
      : device_(device),
        rank_(rank),
        options_(options),
        kernels_(rank, options.seed, options.repeatable),
        parameters_(device, rank, kernels_),
        scaler_(device),
        result_(result) {}

  void allocated(std::uint64_t address, std::int64_t bytes, std::int64_t /*requested_bytes*/,
                 Category /*category*/) override {
    if (options_.poison) device_.fill_bytes(pointer(address), bytes, kPoison);
  }
  void releasing(std::uint64_t address, std::int64_t bytes) override {
    if (options_.poison && !options_.keeps_everything) device_.fill_bytes(pointer(address), bytes, kPoison);
  }
  void placed(BufferId buffer, std::uint64_t address) override { kernels_.place(buffer, address); }
  void constant_is_made(TensorId constant) override { initialize(constant); }
  void state(std::uint64_t address, std::int64_t bytes) override {
    if (address != 0) device_.fill_bytes(pointer(address), bytes, 0);
    parameters_.state(address, bytes);
  }
  void optimizer_tensor(OptimizerPart part, std::int32_t slot, std::uint64_t address) override {
    if (run_config().scales_gradients() && part != OptimizerPart::construction)
      scaler_.made(part != OptimizerPart::scaler, slot, address);
  }
  void fp32_gradient(std::uint64_t address) override { parameters_.fp32_gradient(address); }

  void model_is_made() override {
    const Graph& graph = rank_.graph;
    // Temporaries of constructors and weights that tied ones replaced are gone.
    for (const TensorId t : graph.model_storage)
      if (rank_.micro_batches.schedules.front().buffers[index(graph.tensor(t).buffer)].category != Category::scratch)
        initialize(t);
    for (const TensorId t : graph.adapters) initialize(t);
    for (const TensorId t : graph.inputs) initialize(t);
    parameters_.fill_master_copies();
    device_.synchronize();
  }

  void micro_batch(std::int64_t number) override {
    micro_batch_ = number;
    kernels_.begin(training_step_, number);
  }

  void run(std::size_t pass, std::int32_t number, std::span<const PlacedScratch> scratch) override {
    const ScheduledOp& step = rank_.micro_batches.schedules[pass].ops[index(number)];
    if (allocates_only(step)) return;
    const KernelCall* call = kernels_.call(pass, number);
    if (call == nullptr) throw Error("the plan does not record the operands of " + std::string(step.name));
    if (watcher() != nullptr) watcher()->tick();
    run_named(kernels_.kernel(pass, *call, scratch));
    if (watcher() != nullptr) watcher()->kernel_enqueued(pass, number);
  }

  void optimizer(OptimizerPart part, int training_step, std::int32_t parameter) override {
    switch (part) {
      case OptimizerPart::construction: parameters_.claim_constructed(); break;
      case OptimizerPart::scaler:
        if (run_config().scales_gradients()) kernels_.set_scale(scaler_.begin());
        break;
      case OptimizerPart::clip:
        if (run_config().scales_gradients()) scaler_.unscale(parameters_.gradients());
        device_.clip_gradients(parameters_.gradients());
        break;
      case OptimizerPart::step: step(training_step, parameter); break;
    }
    if (watcher() != nullptr) watcher()->optimizer_enqueued(part);
  }

  void phase_ended(int training_step, Phase phase) override {
    training_step_ = phase == Phase::end ? training_step + 1 : training_step;
    if (options_.reads_memory) result_.readings.push_back({training_step, micro_batch_, phase, device_.memory()});
    if (phase == Phase::loss && options_.reads_losses) add_loss(training_step);
    if (options_.collects && training_step + 1 == options_.steps) collect(phase);
    if (watcher() != nullptr) watcher()->phase_ended(training_step, phase);
  }

 private:
  ExecutionWatcher* watcher() const { return options_.watcher; }
  const RunConfig& run_config() const { return rank_.run; }
  OperandView own_view(TensorId id) const {
    const Tensor& t = rank_.graph.tensor(id);
    return view_of(t, t.buffer);
  }

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
    const std::uint64_t address = kernels_.address(rank_.graph.tensor(id).buffer);
    if (address == 0) return;
    if (watcher() != nullptr) watcher()->tick();
    const std::vector<std::byte> values = initial_values(rank_.graph, rank_.micro_batches.schedules.front(),
                                                         rank_.micro_batches.calls.front(), id, options_.seed);
    device_.copy_to_device(pointer(address), values.data(), static_cast<std::int64_t>(values.size()));
  }

  // Where parameters are stepped in backward, nothing is left to do after it.
  void step(int training_step, std::int32_t parameter) {
    if (run_config().optimizer_in_backward && parameter == kNone) return;
    parameters_.claim_stepped(parameter);
    if (run_config().optimizer_in_backward) keep_gradient(training_step, parameter);
    const bool scales = run_config().scales_gradients();
    if (scales && !run_config().clip_grad_norm) scaler_.unscale(parameters_.gradients());
    const bool skipped = scales && options_.reads_losses && scaler_.found_inf();
    if (skipped)
      ++result_.skipped_steps;
    else
      parameters_.step(training_step + 1 - result_.skipped_steps, parameter);
    if (!scales) return;
    scaler_.update();
    if (options_.reads_losses) result_.scales.push_back(scaler_.scale());
  }

  void add_loss(int training_step) {
    result_.losses.resize(index(training_step) + 1);
    result_.losses.back() += loss();
  }
  double loss() {
    const KernelTensor t = kernels_.tensor(own_view(rank_.graph.loss));
    std::byte bytes[8] = {};
    device_.synchronize();
    device_.copy_to_host(bytes, t.data, size_of(t.dtype));
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

  // The gradient of a parameter that is stepped in backward goes with its step.
  void keep_gradient(int training_step, std::int32_t parameter) {
    if (!options_.collects || training_step + 1 != options_.steps) return;
    result_.gradients.resize(rank_.micro_batches.schedules.front().with_gradient.size());
    result_.gradients[index(parameter)] = copied(parameters_.gradient(index(parameter)));
  }

  void collect(Phase phase) {
    if (phase == Phase::forward && run_config().mode == Mode::infer)
      result_.output = copied(kernels_.tensor(own_view(rank_.graph.output)));
    if (phase != Phase::end) return;
    for (const ParameterTensor& p : rank_.graph.parameters)
      result_.weights.push_back(copied(kernels_.tensor(own_view(p.tensor))));
    if (run_config().optimizer_in_backward) return;
    for (const KernelTensor& g : parameters_.gradients()) result_.gradients.push_back(copied(g));
  }

  // As it lies, or where it has gaps its elements row-major.
  std::vector<std::byte> copied(const KernelTensor& t) {
    std::int64_t elements = 1, last = 0;
    for (int d = 0; d < t.rank; ++d) elements *= t.sizes[d], last += (t.sizes[d] - 1) * t.strides[d];
    if (elements == 0) return {};
    std::vector<std::byte> all(index((last + 1) * size_of(t.dtype)));
    device_.synchronize();
    device_.copy_to_host(all.data(), t.data, static_cast<std::int64_t>(all.size()));
    return last + 1 == elements ? all : without_gaps(all, t);
  }

  Device& device_;
  const RankStep& rank_;
  const ExecutionOptions& options_;
  PlacedKernels kernels_;
  SteppedParameters parameters_;
  GradientScaler scaler_;
  int training_step_ = 0;
  std::int64_t micro_batch_ = 0;
  ExecutionResult& result_;
};

}  // namespace

ExecutionResult run(Device& device, const RankStep& rank, const ExecutionOptions& options) {
  ExecutionResult result;
  Execution execution(device, rank, options, result);
  const AllocatorSettings settings = parse_alloc_conf(rank.run.alloc_conf);
  KeepingAllocator keeping(device, settings);
  CachingAllocator caching(device, settings);
  CachingAllocator& allocator = options.keeps_everything ? keeping : caching;
  result.within = replay_loop(allocator, rank, &execution, options.steps, &result.replay);
  device.synchronize();
  return result;
}

}  // namespace gpuplan

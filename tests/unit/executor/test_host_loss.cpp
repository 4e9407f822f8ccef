// Gradients of whole models, as the execution computes them operation by operation, against central differences of the
// loss.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "tests/host_device/host_device.h"
#include "tests/host_device/small_models.h"

namespace gpuplan {
namespace {

// Adds to one element of one of the tensors that are initialised.
class PerturbingDevice final : public HostDevice {
 public:
  PerturbingDevice(std::size_t tensor, std::int64_t element, DType dtype, double delta)
      : tensor_(tensor), element_(element), dtype_(dtype), delta_(delta) {}

  void copy_to_device(void* to, const void* from, std::int64_t bytes) override {
    HostDevice::copy_to_device(to, from, bytes);
    if (copies_++ != tensor_) return;
    auto* at = static_cast<std::byte*>(to) + element_ * size_of(dtype_);
    dtype_ == DType::fp64 ? add<double>(at) : add<float>(at);
  }

 private:
  template <class T>
  void add(std::byte* at) const {
    T value;
    std::memcpy(&value, at, sizeof value);
    value += static_cast<T>(delta_);
    std::memcpy(at, &value, sizeof value);
  }

  std::size_t copies_ = 0, tensor_;
  std::int64_t element_;
  DType dtype_;
  double delta_;
};

// Which of the tensors that are initialised it is.
std::optional<std::size_t> initialised(const Graph& graph, TensorId tensor) {
  std::size_t before = 0;
  for (const TensorId t : graph.model_storage) {
    if (t == tensor) return before;
    const Tensor& stored = graph.tensor(t);
    const Buffer& buffer = graph.buffers[static_cast<std::size_t>(stored.buffer)];
    if (buffer.category != Category::scratch && buffer.bytes > 0) ++before;
  }
  return std::nullopt;
}

double loss_of(const Executable& e, std::size_t tensor, std::int64_t element, DType dtype, double delta) {
  PerturbingDevice device(tensor, element, dtype, delta);
  const ExecutionResult result = run(device, e.step, ExecutionOptions{});
  return result.losses.back();
}

double element_of(const std::vector<std::byte>& bytes, std::int64_t i, DType dtype) {
  double wide = 0;
  float narrow = 0;
  const std::byte* at = &bytes[static_cast<std::size_t>(i * size_of(dtype))];
  if (dtype == DType::fp64) return std::memcpy(&wide, at, sizeof wide), wide;
  std::memcpy(&narrow, at, sizeof narrow);
  return static_cast<double>(narrow);
}

// Some elements of every `stride`-th parameter. Without an optimizer the weights stay, so that the last step's gradient
// is that of the last step's loss.
void check_model(const std::string& name, DType precision, double step, double tolerance, std::size_t stride) {
  CAPTURE(name);
  RunConfig config;
  config.batch = 2;
  config.precision = precision;
  config.optimizer.kind = OptimizerKind::none;
  const auto e = executable(small_model(name), config, ampere());
  HostDevice device;
  ExecutionOptions options;
  options.collects = true;
  const ExecutionResult result = run(device, e->step, options);
  const Schedule& schedule = e->schedule();
  REQUIRE(!schedule.with_gradient.empty());
  std::size_t compared = 0;
  for (std::size_t g = 0; g < schedule.with_gradient.size(); g += stride) {
    const ParameterTensor& p = e->step.graph.parameters[static_cast<std::size_t>(schedule.with_gradient[g])];
    const std::optional<std::size_t> found = initialised(e->step.graph, p.tensor);
    if (!found) continue;  // of a tied weight
    const std::size_t tensor = *found;
    const std::int64_t count = e->step.graph.tensor(p.tensor).shape.elements();
    for (const std::int64_t i : {std::int64_t{0}, count / 2}) {
      const double slope =
          (loss_of(*e, tensor, i, precision, step) - loss_of(*e, tensor, i, precision, -step)) / (2 * step);
      CAPTURE(e->step.graph.layers[static_cast<std::size_t>(p.layer)].name);
      CAPTURE(p.name);
      CAPTURE(i);
      const double computed = element_of(result.gradients[g], i, precision);
      CHECK(std::abs(computed - slope) <= tolerance * std::max(0.1, std::abs(slope)));
      ++compared;
    }
  }
  CHECK(compared >= 4);
}

TEST_CASE("gradients of models in fp64 are the slopes of the loss") {
  check_model("mlp", DType::fp64, 1e-6, 1e-5, 1);
  check_model("cnn", DType::fp64, 1e-6, 1e-5, 1);
  check_model("unet", DType::fp64, 1e-6, 1e-5, 3);
  check_model("vit", DType::fp64, 1e-6, 1e-5, 11);
  check_model("bert", DType::fp64, 1e-6, 1e-5, 3);
}

// Their losses are of fp32 whatever the model is, and so is fused attention.
TEST_CASE("... and of language models in fp32, as far as fp32 shows it") {
  for (const char* name : {"gpt2", "llama", "bert"}) check_model(name, DType::fp32, 1e-2, 2e-2, 4);
}

}  // namespace
}  // namespace gpuplan

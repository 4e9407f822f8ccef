// A host device with a clock that only operations move, and with faults on request.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "estimator/base/error.h"
#include "tests/host_device/host_device.h"

namespace gpuplan {

class ClockDevice : public HostDevice {
 public:
  using HostDevice::HostDevice;

  /// What an operation takes in the training step, counted from 0; an optimizer step takes five times as much, clipping
  /// three times.
  std::function<double(int training_step)> milliseconds_of = [](int) { return 1.0; };
  std::int64_t fails_at = -1;         // the kernel, counted from 0, after which synchronize() says that it failed
  std::int64_t context_bytes = 0;     // in use from the beginning
  std::int64_t unexpected_bytes = 0;  // in use as soon as a kernel has run
  std::int64_t kernels = 0;
  int most_marks = 0;  // that were of use at one time

  void run(const Kernel& kernel) override {
    HostDevice::run(kernel);
    ++kernels;
    now_ += milliseconds_of(training_step_);
  }
  void update(const OptimizerConfig& config, std::int64_t step, std::span<const ParameterUpdate> parameters) override {
    HostDevice::update(config, step, parameters);
    now_ += 5 * milliseconds_of(training_step_);
    training_step_ = static_cast<int>(step);  // counted from 1: that of the next
  }
  void clip_gradients(std::span<const KernelTensor> gradients) override {
    HostDevice::clip_gradients(gradients);
    now_ += 3 * milliseconds_of(training_step_);
  }
  void synchronize() override {
    if (fails_at >= 0 && kernels > fails_at) throw Error("an illegal memory access was encountered");
  }
  void release_all() override {
    HostDevice::release_all();
    training_step_ = 0;
  }
  DeviceMemory memory() override {
    DeviceMemory m = HostDevice::memory();
    m.free_bytes -= context_bytes + (kernels > 0 ? unexpected_bytes : 0);
    return m;
  }
  DeviceDescription description() const override {
    DeviceDescription d;
    d.name = "A clock";
    d.versions = "version 1";
    d.context_bytes = context_bytes;
    return d;
  }
  int mark() override {
    marks_.push_back(now_);
    most_marks = std::max(most_marks, static_cast<int>(marks_.size()));
    return static_cast<int>(marks_.size()) - 1;
  }
  double milliseconds(int from, int to) override {
    return marks_.at(static_cast<std::size_t>(to)) - marks_.at(static_cast<std::size_t>(from));
  }
  void forget_marks() override { marks_.clear(); }

 private:
  double now_ = 0;
  int training_step_ = 0;
  std::vector<double> marks_;
};

}  // namespace gpuplan

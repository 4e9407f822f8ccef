#include "tests/cuda/kernel_cases.h"
#include "tests/cuda/module_bench.h"
#include "tests/host_device/small_models.h"

namespace gpuplan::comparison {
namespace {

RunConfig training(OptimizerKind kind) {
  RunConfig run;
  run.batch = 2;
  run.optimizer.kind = kind;
  return run;
}

void execute(ComparingDevice& device, const std::string& name, const RunConfig& config, const Gpu& gpu) {
  module_test::ran();
  try {
    const auto e = executable(small_model(name), config, gpu);
    std::string why;
    for (const std::string& reason : refusals(device, e->step)) why += reason + "; ";
    if (!why.empty()) throw Error(why);
    ExecutionOptions options;
    options.poison = true;
    options.collects = true;
    (void)run(device, e->step, options);
  } catch (const Error& e) {
    module_test::failed("an execution of " + name + ": " + e.message());
  }
  device.release_all();
}

}  // namespace

void compare_executions(ComparingDevice& device) {
  for (const std::string& name : small_models()) {
    execute(device, name, training(OptimizerKind::sgd), ampere());
    RunConfig half = training(OptimizerKind::adamw);
    half.precision = name == "cnn" || name == "bert" ? DType::fp16 : DType::bf16;
    execute(device, name, half, hopper());
  }
  for (const char* name : {"cnn", "unet"}) {
    RunConfig last = training(OptimizerKind::adam);
    last.layout = MemoryFormat::channels_last;
    execute(device, name, last, ampere());
  }
  for (const char* name : {"cnn", "bert", "llama"}) {
    RunConfig mixed = training(OptimizerKind::adam);
    mixed.autocast = DType::bf16;
    execute(device, name, mixed, hopper());
  }
}

}  // namespace gpuplan::comparison

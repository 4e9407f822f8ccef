// Benchmarks on this machine's GPU, through the CUDA module beside the program. Without a GPU nothing runs, and it is
// said why; that is no failure. Under `gpuplan shadow` every operation runs and no time is taken; one that the module
// refuses is a failure.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <memory>

#include "estimator/base/error.h"
#include "tests/bench/gpu/gpu_benchmarks.h"
#include "validate/load_device.h"

namespace {

int skip(const char* why) {
  std::printf("skipped: %s\n", why);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  std::unique_ptr<gpuplan::Device> device;
  try {
    device = gpuplan::load_device(0);
  } catch (const gpuplan::Error& e) {
    return skip(e.message().c_str());
  }
  const gpuplan::DeviceDescription d = device->description();
  benchmark::AddCustomContext("gpu", d.name);
  benchmark::AddCustomContext("versions", d.versions);
  gpuplan::BenchmarkedGpu gpu{*device, !gpuplan::device_is_a_shadow()};
  gpuplan::register_kernels(gpu);
  gpuplan::register_steps(gpu);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return gpu.failures == 0 ? 0 : 1;
}

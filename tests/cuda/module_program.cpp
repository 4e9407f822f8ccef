// Opens the CUDA module that it is given and runs every operation once on small tensors, in the types and layouts that
// plans have. Nothing is computed under `gpuplan shadow`; what is checked is that the module accepts the operation,
// that no CUDA call fails and, from the recorded launches, that every configuration is within the GPU's limits.
#include <dlfcn.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda/module_bench.h"
#include "validate/cuda/module.h"

using namespace gpuplan;
using namespace gpuplan::module_test;

namespace {

void optimizers(Device& device, DType type) {
  constexpr OptimizerKind kKinds[] = {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw,
                                      OptimizerKind::rmsprop, OptimizerKind::adagrad};
  for (const OptimizerKind kind : kKinds) {
    Bench b(device);
    OptimizerConfig config;
    config.kind = kind;
    config.momentum = kind == OptimizerKind::sgd;
    const bool two = kind == OptimizerKind::adam || kind == OptimizerKind::adamw;
    std::vector<std::vector<KernelTensor>> states(50);
    std::vector<ParameterUpdate> updates;
    std::vector<KernelTensor> gradients;
    for (auto& own : states) {
      const KernelTensor parameter = b.tensor(type, {37, 5}), gradient = b.tensor(type, {37, 5});
      for (int i = 0; i < (two ? 2 : 1); ++i) own.push_back(b.tensor(type, {37, 5}));
      updates.push_back({parameter, gradient, own});
      gradients.push_back(gradient);
    }
    ran();
    try {
      device.clip_gradients(gradients);
      device.update(config, 1, updates);
      device.synchronize();
    } catch (const Error& e) {
      failed("optimizer " + std::to_string(static_cast<int>(kind)) + ": " + e.message());
    }
  }
}

void errors(Device& device) {
  Bench b(device);
  Kernel k;
  k.op = Operator::eye;
  const std::vector<KernelTensor> x{b.tensor(DType::fp32, {2, 3})};
  k.reads = x;
  ran();
  bool named = false;
  try {
    device.run(k);
  } catch (const Error& e) {
    named = e.message() == "there is no CUDA kernel for it";
  }
  if (device.refusal(k).empty() || !named) failed("an unknown operation is refused");
}

void expandable(Device& device) {
  ran();
  constexpr std::int64_t kPage = 2 << 20;
  try {
    const std::uint64_t range = device.reserve(64 * kPage);
    const bool there = device.map(range, 20 * kPage);
    device.fill_bytes(reinterpret_cast<void*>(range), 20 * kPage, 0xFF);  // NOLINT(performance-no-int-to-ptr)
    device.unmap(range + 4 * kPage, 3 * kPage);
    device.unmap(range, 4 * kPage);
    device.unmap(range + 7 * kPage, 13 * kPage);
    if (!there) throw Error("20 pages are not there");
  } catch (const Error& e) {
    failed(std::string("expandable segments: ") + e.message());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  void* module = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    std::printf("FAIL %s\n", dlerror());
    return 1;
  }
  const auto abi = reinterpret_cast<ModuleAbi>(dlsym(module, kModuleAbiSymbol));
  const auto open = reinterpret_cast<ModuleOpen>(dlsym(module, kModuleOpenSymbol));
  if (abi == nullptr || open == nullptr || abi() != kModuleAbi) {
    std::printf("FAIL the module's functions\n");
    return 1;
  }
  char why[256] = "";
  const std::unique_ptr<Device> device(open(0, why, sizeof why));
  if (device == nullptr) {
    std::printf("FAIL %s\n", why);
    return 1;
  }
  const DeviceDescription d = device->description();
  std::printf("%s, %d.%d, %d multiprocessors, %s\n", d.name.c_str(), d.compute_major, d.compute_minor, d.sm_count,
              d.versions.c_str());
  const int before = device->mark();
  for (const DType type : {DType::fp32, DType::fp16, DType::bf16, DType::fp64}) {
    pointwise(*device, type);
    copies(*device, type);
    reductions(*device, type);
    products(*device, type);
    for (const bool last : {false, true}) {
      if (type != DType::fp64 || !last) convolutions(*device, type, last);
      pooling(*device, type, last);
    }
    normalizations(*device, type);
    group_normalizations(*device, type);
    losses(*device, type);
    experts(*device, type);
    lookups(*device, type);
    attention(*device, type);
    recurrent(*device, type);
    optimizers(*device, type);
  }
  integers(*device);
  errors(*device);
  expandable(*device);
  const int after = device->mark();
  device->synchronize();
  (void)device->milliseconds(before, after);
  std::printf("%d of %d failed\n", failures(), runs());
  return failures() == 0 ? 0 : 1;
}

// gpuplan_kernels MODULE [PART]: compares the values that the CUDA module's kernels compute, operation by operation,
// with the host device's. MODULE is libgpuplan_emulated_cuda.so, which runs them on the processor, or
// libgpuplan_cuda.so where there is a GPU. Prints a line for each operation and type: how often it ran, and its largest
// difference in units of what rounding allows (rounding.h). Exit 1 where that is above 1, or something could not run.
#include <dlfcn.h>

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "tests/cuda/comparing_device.h"
#include "tests/cuda/kernel_cases.h"
#include "tests/cuda/module_bench.h"
#include "validate/cuda/module.h"

using namespace gpuplan;
using namespace gpuplan::comparison;

namespace {

std::unique_ptr<Device> open_device(const char* file) {
  void* const module = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) throw Error(dlerror());
  const auto abi = reinterpret_cast<ModuleAbi>(dlsym(module, kModuleAbiSymbol));
  const auto open = reinterpret_cast<ModuleOpen>(dlsym(module, kModuleOpenSymbol));
  if (abi == nullptr || open == nullptr || abi() != kModuleAbi) throw Error(std::string(file) + " is another module");
  char why[256] = "";
  // Of the emulation only.
  const auto check = reinterpret_cast<int (*)(char*, std::size_t)>(dlsym(module, "gpuplan_emulation_check"));
  if (check != nullptr && check(why, sizeof why) == 0) throw Error(std::string("the emulation: ") + why);
  std::unique_ptr<Device> device(open(0, why, sizeof why));
  if (device == nullptr) throw Error(why);
  return device;
}

int print(const std::map<std::string, Finding>& findings) {
  int beyond = 0;
  for (const auto& [name, f] : findings) {
    const bool fails = !(f.worst <= 1);
    beyond += fails ? 1 : 0;
    std::printf("%-5s%-56s %5lld runs %9lld elements %9.3g %s\n", fails ? "FAIL" : "ok", name.c_str(),
                static_cast<long long>(f.runs), static_cast<long long>(f.elements), f.worst,
                fails ? f.where.c_str() : "");
  }
  return beyond;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::printf("gpuplan_kernels MODULE [operations|cases|executions]\n");
    return 2;
  }
  const std::string_view part = argc > 2 ? argv[2] : "";
  try {
    const std::unique_ptr<Device> tested = open_device(argv[1]);
    ComparingDevice device(*tested);
    if (part.empty() || part == "operations") compare_operations(device);
    if (part.empty() || part == "cases") compare_cases(device);
    if (part.empty() || part == "executions") compare_executions(device);
    const int beyond = print(device.findings());
    const int failures = module_test::failures();
    std::printf("%d of %d cases failed, %d of %zu operations and types differ\n", failures, module_test::runs(), beyond,
                device.findings().size());
    return failures == 0 && beyond == 0 ? 0 : 1;
  } catch (const Error& e) {
    std::printf("FAIL %s\n", e.message().c_str());
    return 1;
  }
}

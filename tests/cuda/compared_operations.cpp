#include "tests/cuda/kernel_cases.h"
#include "tests/cuda/module_bench.h"

namespace gpuplan::comparison {

void compare_operations(ComparingDevice& device) {
  using namespace module_test;
  device.draw(Draws::yes);
  for (const DType type : {DType::fp32, DType::fp16, DType::bf16, DType::fp64}) {
    pointwise(device, type);
    copies(device, type);
    reductions(device, type);
    products(device, type);
    for (const bool last : {false, true}) {
      convolutions(device, type, last);
      pooling(device, type, last);
    }
    normalizations(device, type);
    losses(device, type);
    experts(device, type);
    lookups(device, type);
  }
  integers(device);
  device.draw(Draws::no);
}

}  // namespace gpuplan::comparison

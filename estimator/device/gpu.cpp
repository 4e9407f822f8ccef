#include "estimator/device/gpu.h"

namespace gpuplan {

Gpu assumed_gpu() {
  Gpu g;
  g.name = "a100-class";
  g.title = "an A100-class GPU";
  g.architecture = "Ampere";
  g.source = "design: the device assumed when none is named";
  return g;
}

}  // namespace gpuplan

#include "tools/options/python_step.h"

namespace gpuplan {
namespace {

// The GPU of a plan without --gpu, whose name the simulation has.
constexpr const char* kSimulated = "a100-80gb";

}  // namespace

ModelStep python_step(const RunOptions& options) {
  ModelStep step{.mode = options.mode,
                 .optimizer = options.optimizer,
                 .amp = options.amp,
                 .precision = options.precision,
                 .channels_last = options.layout == "nhwc",
                 .gpu = kSimulated};
  if (const std::optional<Gpu> gpu = gpu_called(options.gpu)) step.gpu = gpu->name;
  return step;
}

}  // namespace gpuplan

#include "estimator/serve/start.h"

#include "estimator/base/error.h"
#include "estimator/serve/vllm.h"

namespace gpuplan {

EngineStart start_engine(const ServedModel& model, const Gpu& gpu, const ServeSettings& settings) {
  if (settings.engine != ServingEngine::vllm)
    throw Error("no start of this engine is known", ErrorKind::usage).help("--engine vllm");
  return start_vllm(model, gpu, settings);
}

}  // namespace gpuplan

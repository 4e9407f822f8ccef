#include "estimator/serve/start.h"

#include "estimator/serve/vllm.h"

namespace gpuplan {

EngineStart start_engine(const ServedModel& model, const Gpu& gpu, const ServeSettings& settings) {
  switch (settings.engine) {
    case ServingEngine::vllm: break;
  }
  return start_vllm(model, gpu, settings);
}

}  // namespace gpuplan

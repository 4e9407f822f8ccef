#include "estimator/serve/start.h"

#include "estimator/base/error.h"
#include "estimator/serve/sglang.h"
#include "estimator/serve/transformers.h"
#include "estimator/serve/vllm.h"

namespace gpuplan {

EngineStart start_engine(const ServedModel& model, const Gpu& gpu, const ServeSettings& settings) {
  switch (settings.engine) {
    case ServingEngine::sglang: return start_sglang(model, gpu, settings);
    case ServingEngine::transformers: return start_transformers(model, gpu, settings);
    case ServingEngine::llama_cpp:
      throw Error("no start of llama.cpp is known", ErrorKind::usage).help("--engine vllm, sglang or transformers");
    case ServingEngine::vllm: break;
  }
  return start_vllm(model, gpu, settings);
}

}  // namespace gpuplan

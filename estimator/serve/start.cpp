#include "estimator/serve/start.h"

#include "estimator/base/error.h"
#include "estimator/serve/sglang.h"
#include "estimator/serve/transformers.h"
#include "estimator/serve/vllm.h"

namespace gpuplan {

namespace {

EngineStart start_named(const ServedModel& model, const Gpu& gpu, const ServeSettings& settings) {
  switch (settings.engine) {
    case ServingEngine::sglang: return start_sglang(model, gpu, settings);
    case ServingEngine::transformers: return start_transformers(model, gpu, settings);
    case ServingEngine::llama_cpp:
      throw Error("no start of llama.cpp is known", ErrorKind::usage).help("--engine vllm, sglang or transformers");
    case ServingEngine::vllm: break;
  }
  return start_vllm(model, gpu, settings);
}

}  // namespace

EngineStart start_engine(const ServedModel& model, const Gpu& gpu, const ServeSettings& settings) {
  EngineStart start = start_named(model, gpu, settings);
  // CUDA 13, which PyTorch of these releases is built with, has no compiler for GPUs before Turing.
  if (gpu.capability_major * 10 + gpu.capability_minor < 75) {
    start.starts = false;
    start.limits.cache_tokens = start.blocks = 0;
    start.error = gpu.title + " has compute capability " + std::to_string(gpu.capability_major) + "." +
                  std::to_string(gpu.capability_minor) + "; PyTorch of " + start.engine + " is built for 7.5 and later";
  }
  return start;
}

}  // namespace gpuplan

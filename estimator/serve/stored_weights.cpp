#include "estimator/serve/stored_weights.h"

#include <array>
#include <string>

#include "estimator/base/error.h"

namespace gpuplan {
namespace {

struct NamedWeights {
  ServingEngine engine;
  std::string_view name;
  StoredWeights weights;
};

constexpr ServingEngine kVllm = ServingEngine::vllm, kTransformers = ServingEngine::transformers,
                        kLlamaCpp = ServingEngine::llama_cpp;

// int4 in groups of 128 with a scale in fp16 and a zero point: 4 + 20 / 128 bits. llama.cpp's blocks (ggml-common.h):
// q4_0 has 18 bytes of 32 weights, q8_0 34, mxfp4 17; q4_K_M is q4_K, 144 bytes of 256, and q6_K, 210 bytes, in half of
// the value and down projections (llama-quant.cpp), 4.85 bits on average; its head is q6_K.
//
// Who unpacks: vLLM's Marlin never. AutoAWQ's products unpack from 1,024 rows (0.2: gemm.py,
// FP16_MATMUL_HEURISTIC_CONDITION; releases of 2023 never), exllamav2's from 51 (AutoGPTQ's q_gemm.cu, MAX_Q_GEMM_ROWS
// 50), bitsandbytes' 4 bits from two (matmul_4bit() has a product of a vector), llama.cpp's from 33 (ggml-cuda.cu of
// May 2024, MMQ_MAX_BATCH_SIZE 32 where there are tensor cores; later releases multiply int8, and are a little faster).
// Calls: AutoAWQ's reshapes, sums the parts of a split, adds a bias and reshapes again; exllamav2's reshapes;
// bitsandbytes' 4 bits allocate and look up scales, and its LLM.int8() quantises rows, looks for outliers, multiplies
// and scales, in about nine.
constexpr double kInt4 = 4.16;
constexpr WeightFormat kPlain = WeightFormat::as_computed;
constexpr auto kWeights = std::to_array<NamedWeights>({
    {kVllm, "fp8", {8, 16, 0, false, WeightFormat::fp8, 0}},
    {kVllm, "int8", {8, 16, 0, false, WeightFormat::int8, 0}},
    {kVllm, "int8:rtn", {8, 16, 0, false, kPlain, 0}},
    {kVllm, "int4:awq", {kInt4, 16, 0, false, kPlain, 0}},
    {kVllm, "int4:gptq", {kInt4, 16, 0, false, kPlain, 0}},
    {kVllm, "mxfp4", {4.25, 16, 0, false, kPlain, 0}},
    {kTransformers, "fp8", {8, 16, 0, false, kPlain, 0}},
    {kTransformers, "int8", {8, 16, 0, false, kPlain, 0}},
    {kTransformers, "int8:bnb", {8, 16, 0, false, kPlain, 9}},
    {kTransformers, "int4:awq", {kInt4, 16, 1024, true, kPlain, 4}},
    {kTransformers, "int4:gptq", {kInt4, 16, 51, false, kPlain, 1}},
    {kTransformers, "nf4", {4.5, 16, 2, false, kPlain, 2}},
    {kLlamaCpp, "f16", {16, 16, 0, false, kPlain, 0}},
    {kLlamaCpp, "q8_0", {8.5, 8.5, 33, false, kPlain, 0}},
    {kLlamaCpp, "q4_0", {4.5, 6.5625, 33, false, kPlain, 0}},
    {kLlamaCpp, "q4_K_M", {4.85, 6.5625, 33, false, kPlain, 0}},
    {kLlamaCpp, "mxfp4", {4.25, 8.5, 0, false, kPlain, 0}},
});

}  // namespace

StoredWeights stored_weights(ServingEngine engine, std::string_view name) {
  if (name == "fp16" || name == "bf16") return {};
  std::string known = "fp16, bf16";
  for (const NamedWeights& w : kWeights) {
    if (w.engine != engine) continue;
    if (w.name == name) return w.weights;
    known += ", " + std::string(w.name);
  }
  throw Error("weights stored as '" + std::string(name) + "' have no known speed in this engine", ErrorKind::usage)
      .help("known are " + known);
}

}  // namespace gpuplan

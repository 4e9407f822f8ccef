#include <doctest/doctest.h>

#include <vector>

#include "estimator/base/error.h"
#include "estimator/serve/pace.h"
#include "tests/times/serving_cases.h"
#include "tests/times/time_cases.h"

using namespace gpuplan;

namespace {

EngineStep decoding(std::int64_t sequences, std::int64_t context) {
  EngineStep step;
  step.decoding = sequences;
  step.context_tokens = context;
  return step;
}

EngineStep prefilling(std::int64_t tokens) {
  EngineStep step;
  step.prefill_tokens = tokens;
  step.prefill_pairs = static_cast<double>(tokens) * static_cast<double>(tokens) / 2;
  return step;
}

StepSeconds pace_on_a100(const std::string& model, const PaceSettings& settings = {}) {
  const std::optional<StepSeconds> pace = pace_of(sized_model(model), measured_gpu("a100-80gb"), settings);
  REQUIRE(pace);
  return *pace;
}

double median_of(const char* engine, ServingQuantity quantity, bool held) {
  std::vector<double> ratios;
  for (const ServingReading& r : serving_readings())
    if (r.engine == engine && r.quantity == quantity && r.held == held)
      ratios.push_back(predicted_seconds(r, {}) / r.seconds);
  CHECK(ratios.size() >= 9);
  return median_factor(ratios);
}

}  // namespace

TEST_CASE("tokens visit so many experts that differ") {
  CHECK(visited_experts(1, 1, 100) == 1);
  CHECK(visited_experts(8, 2, 1) == doctest::Approx(2));
  CHECK(visited_experts(8, 2, 2) == doctest::Approx(3.5));  // 8 (1 - 0.75^2)
  CHECK(visited_experts(8, 2, 1000) == doctest::Approx(8));
}

TEST_CASE("decoding is no faster than the memory, which reads every weight once") {
  // Llama-2-7B: 32 layers of 4,096 x (12,288 + 4,096 + 22,016 + 11,008), and a head of 4,096 x 32,000, two bytes each.
  const double bytes = 2.0 * 4096 * (32.0 * (12288 + 4096 + 22016 + 11008) + 32000);
  CHECK(bytes == 13'214'154'752);
  const double least = bytes / 2039e9;
  const double seconds = pace_on_a100("Llama-2-7b")(decoding(1, 0));
  CHECK(seconds > least);
  CHECK(seconds < 1.7 * least);
}

TEST_CASE("decoding slows down by what it reads of the cache") {
  // 1,000 tokens of 2 x 4,096 elements in 32 layers, two bytes each.
  const double bytes = 1000.0 * 2 * 4096 * 32 * 2;
  const StepSeconds vllm = pace_on_a100("Llama-2-7b");
  CHECK(vllm(decoding(1, 3000)) - vllm(decoding(1, 2000)) == doctest::Approx(bytes / (2039e9 * PaceModel{}.stream)));
  // A quarter of the heads of keys and values, in fp8.
  PaceSettings fp8;
  fp8.cache_element_bytes = 1;
  const StepSeconds grouped = pace_on_a100("Mistral-7B", fp8);
  CHECK(grouped(decoding(1, 3000)) - grouped(decoding(1, 2000)) ==
        doctest::Approx(bytes / 8 / (2039e9 * PaceModel{}.stream)));
}

TEST_CASE("a window bounds what attention reads") {
  ServedModel model = sized_model("Mistral-7B");
  for (ServedLayer& layer : model.layers) layer.attention.window = 4096;
  const StepSeconds pace = *pace_of(model, measured_gpu("a100-80gb"), {});
  CHECK(pace(decoding(1, 4096)) == pace(decoding(1, 32768)));
  CHECK(pace(decoding(1, 2048)) < pace(decoding(1, 4096)));
}

TEST_CASE("a step with nothing in it takes no time") { CHECK(pace_on_a100("Llama-2-7b")({}) == 0); }

TEST_CASE("prompts are no faster than tensor cores") {
  const double flops = 2.0 * 4096 * 4096 * 32 * (12288 + 4096 + 22016 + 11008);
  const double seconds = pace_on_a100("Llama-2-7b")(prefilling(4096));
  CHECK(seconds > flops / 312e12);
  CHECK(seconds < 2 * flops / 312e12);
}

TEST_CASE("weights of fewer bits are read faster") {
  PaceSettings four;
  four.weights = stored_weights(ServingEngine::vllm, "int4:awq");
  const double whole = pace_on_a100("Llama-2-7b")(decoding(1, 0));
  const double packed = pace_on_a100("Llama-2-7b", four)(decoding(1, 0));
  // Of layers alone: the head stays in half precision.
  const double elements = 32.0 * 4096 * (12288 + 4096 + 22016 + 11008);
  CHECK(whole - packed == doctest::Approx(elements * (2 - four.weights.bits / 8) / (2039e9 * PaceModel{}.stream)));
}

TEST_CASE("8 bits are multiplied as such where tensor cores can") {
  const auto prompt = [](const char* weights) {
    PaceSettings settings;
    settings.weights = stored_weights(ServingEngine::vllm, weights);
    return pace_on_a100("Llama-2-7b", settings)(prefilling(8192));
  };
  CHECK(prompt("int8") < 0.8 * prompt("bf16"));
  CHECK(prompt("fp8") == doctest::Approx(prompt("bf16")));  // an A100 has no fp8: it is unpacked
}

TEST_CASE("ranks share a step, and reduce twice a layer") {
  PaceSettings two;
  two.tensor_ranks = 2;
  CHECK_FALSE(pace_of(sized_model("Llama-2-7b"), measured_gpu("a100-80gb"), two));
  two.link = link_within_node(measured_gpu("a100-80gb"), 2);
  REQUIRE(two.link);
  const double alone = pace_on_a100("Llama-2-7b")(decoding(1, 0)) - PaceModel{}.vllm_step;
  const double shared = pace_on_a100("Llama-2-7b", two)(decoding(1, 0)) - PaceModel{}.vllm_step;
  const double reduced = 64 * ring_seconds(Collective::all_reduce, 2 * 4096, 2, *two.link);
  CHECK(shared > alone / 2 + reduced);
  CHECK(shared < alone);
}

TEST_CASE("transformers wait for the host where a GPU is fast") {
  PaceSettings eager;
  eager.engine = ServingEngine::transformers;
  const StepSeconds pace = pace_on_a100("Llama-2-7b", eager);
  CHECK(pace(decoding(1, 100)) == pace(decoding(4, 400)));
  CHECK(pace(decoding(64, 32768)) > 2 * pace(decoding(1, 512)));
}

TEST_CASE("transformers run experts one after another") {
  // Qwen2-57B-A14B in GPTQ's int4 on an A100 at batch 1: 5.55 tokens a second, transformers 4.38 (Qwen's
  // docs/source/benchmark/speed_benchmark.rst). Each layer has 64 experts, of which a token visits 8, and a shared one.
  ServedModel model = sized_model("Qwen2.5-7B");
  for (ServedLayer& layer : model.layers) {
    for (ServedMatrix& m : layer.matrices) {
      if (m.role == MatrixRole::mlp_input) m.out = 2 * 2560, m.copies = 64, m.used = 8, m.expert = true;
      if (m.role == MatrixRole::mlp_output) m.in = 2560, m.copies = 64, m.used = 8, m.expert = true;
    }
    layer.matrices.push_back({MatrixRole::mlp_input, 3584, 2 * 20480});
    layer.matrices.push_back({MatrixRole::mlp_output, 20480, 3584});
  }
  PaceSettings eager;
  eager.engine = ServingEngine::transformers;
  eager.weights = stored_weights(eager.engine, "int4:gptq");
  eager.compute = DType::fp16;
  const double seconds = (*pace_of(model, measured_gpu("a100-80gb"), eager))(decoding(1, 1025));
  CHECK(seconds > 1 / 5.55 / 1.3);
  CHECK(seconds < 1 / 5.55 * 1.3);
}

TEST_CASE("llama.cpp splits layers, not a layer") {
  PaceSettings two;
  two.engine = ServingEngine::llama_cpp;
  two.tensor_ranks = 2;
  CHECK_THROWS_AS(pace_of(sized_model("Llama-2-7b"), measured_gpu("a100-80gb"), two), Error);
}

TEST_CASE("a GPU that nobody knows the peaks of has no pace") {
  CHECK_FALSE(pace_of(sized_model("Llama-2-7b"), assumed_gpu(), {}));
}

TEST_CASE("weights that an engine does not have are refused") {
  CHECK(stored_weights(ServingEngine::vllm, "bf16").bits == 16);
  CHECK(stored_weights(ServingEngine::llama_cpp, "q4_0").bits == 18.0 * 8 / 32);
  CHECK_THROWS_AS(stored_weights(ServingEngine::vllm, "q4_0"), Error);
}

TEST_CASE("published speeds: the medians of tests/times/RESULTS.md") {
  using Q = ServingQuantity;
  CHECK(median_of("transformers", Q::decode, true) < 1.09);
  CHECK(median_of("transformers", Q::prefill, true) < 1.12);
  CHECK(median_of("transformers", Q::whole, true) < 1.16);
  CHECK(median_of("vllm", Q::decode, true) < 1.14);
  CHECK(median_of("vllm", Q::prefill, true) < 1.16);
  CHECK(median_of("vllm", Q::whole, true) < 1.08);
  CHECK(median_of("llama.cpp", Q::decode, true) < 1.08);
  CHECK(median_of("llama.cpp", Q::prefill, true) < 1.21);
}

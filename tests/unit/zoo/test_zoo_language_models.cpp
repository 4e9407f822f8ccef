// The zoo's decoders against figures that do not come from here: published parameter counts (each also counted from
// Hugging Face's class with these sizes), and multiply-adds derived below.
#include <doctest/doctest.h>

#include <string>

#include "tests/support/zoo_models.h"

namespace gpuplan {
namespace {

RunConfig one_sample() {
  RunConfig run;
  run.batch = 1;
  run.precision = DType::bf16;
  return run;
}

TEST_CASE("decoders have the published number of parameters") {
  struct Count {
    const char* model;
    std::int64_t parameters;
  };
  for (const Count& c : {Count{"tinyllama_1b", 1'100'048'384},  Count{"llama2_7b", 6'738'415'616},
                         Count{"llama3_8b", 8'030'261'248},     Count{"llama3_70b", 70'553'706'496},
                         Count{"mistral_7b", 7'241'732'096},    Count{"gemma_2b", 2'506'172'416},
                         Count{"qwen2_0_5b", 494'032'768},      Count{"qwen2_5_7b", 7'615'616'512},
                         Count{"mixtral_8x7b", 46'702'792'704}, Count{"llama3_1_8b", 8'030'261'248},
                         Count{"llama3_1_70b", 70'553'706'496}, Count{"llama3_2_1b", 1'235'814'400},
                         Count{"llama3_2_3b", 3'212'749'824},   Count{"qwen3_0_6b", 596'049'920},
                         Count{"qwen3_4b", 4'022'468'096},      Count{"qwen3_8b", 8'190'735'360},
                         Count{"qwen3_32b", 32'762'123'264},    Count{"qwen3_30b_a3b", 30'532'122'624},
                         Count{"gpt_oss_20b", 20'914'757'184},  Count{"gemma3_1b", 999'885'952}}) {
    CAPTURE(std::string(c.model));
    CHECK(plan_zoo(c.model, one_sample()).model.parameters == c.parameters);
  }
}

TEST_CASE("TinyLlama's forward multiplies each weight matrix by every token, and queries by keys, weights by values") {
  // s tokens, layers of q, o: 2 h^2; k, v: 2 h g d; gate, up, down: 3 h i; the head V h. Attention: 2 s^2 h a layer.
  const std::int64_t s = 2048, h = 2048, g = 4, d = 64, i = 5632, vocabulary = 32000, layers = 22;
  const std::int64_t matrices = layers * (2 * h * h + 2 * h * g * d + 3 * h * i) + vocabulary * h;
  const std::int64_t expected = s * matrices + layers * 2 * s * s * h;
  CHECK(plan_zoo("tinyllama_1b", one_sample()).compute.forward_macs == expected);
}

TEST_CASE("Mixtral multiplies by top_k of its experts") {
  // As above with 8 experts, of which each token uses 2, and the router's 8 h.
  const std::int64_t s = 2048, h = 4096, g = 8, d = 128, i = 14336, vocabulary = 32000, layers = 32;
  const std::int64_t matrices = layers * (2 * h * h + 2 * h * g * d + 2 * 3 * h * i + 8 * h) + vocabulary * h;
  CHECK(plan_zoo("mixtral_8x7b", one_sample()).compute.forward_macs == s * matrices + layers * 2 * s * s * h);
}

}  // namespace
}  // namespace gpuplan

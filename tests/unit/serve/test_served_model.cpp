// What an engine makes of the zoo's decoders: sizes from their config.json, counted by hand.
#include <doctest/doctest.h>

#include "estimator/device/gpu.h"
#include "estimator/serve/engine_texts.h"
#include "tests/support/zoo_models.h"
#include "tools/answers/serving.h"

namespace gpuplan {
namespace {

ServedModel served(const char* name) { return decoder_of(zoo_model(name), assumed_gpu()); }

TEST_CASE("Llama's queries, keys and values are one product, and so are gate and up") {
  const ServedModel model = served("llama3_1_8b");
  REQUIRE(model.layers.size() == 32);
  const ServedLayer& layer = model.layers.front();
  REQUIRE(layer.matrices.size() == 4);
  CHECK(layer.matrices[0].out == (32 + 8 + 8) * 128);
  CHECK(layer.matrices[0].parts == 3);
  CHECK(layer.matrices[1].role == MatrixRole::attention_output);
  CHECK(layer.matrices[2].out == 2 * 14336);
  CHECK(layer.matrices[3].in == 14336);
  CHECK(layer.attention.cached() == 2 * 8 * 128);
  CHECK(model.positions == 131072);
  CHECK(model.parameters() == 8'030'261'248);
  CHECK_FALSE(model.tied);
}

TEST_CASE("a tied head is counted once") {
  CHECK(served("qwen3_0_6b").tied);
  CHECK(served("qwen3_0_6b").parameters() == 596'049'920);
}

TEST_CASE("experts are matrices that a token visits some of") {
  const ServedModel model = served("qwen3_30b_a3b");
  const ServedLayer& layer = model.layers.front();
  const ServedMatrix* const first = layer.find(MatrixRole::mlp_input);
  REQUIRE(first != nullptr);
  CHECK(first->copies == 128);
  CHECK(first->used == 8);
  CHECK(first->out == 2 * 768);
  CHECK(layer.find(MatrixRole::router)->out == 128);
  CHECK(model.parameters() == 30'532'122'624);
}

TEST_CASE("a layer that has router and experts is both") {
  const ServedModel model = served("mixtral_8x7b");
  CHECK(model.layers.front().find(MatrixRole::router)->out == 8);
  CHECK(model.layers.front().find(MatrixRole::mlp_input)->used == 2);
  CHECK(model.parameters() == 46'702'792'704);
}

TEST_CASE("windows belong to the layers whose mask has them") {
  const ServedModel gemma = served("gemma3_1b");
  int windowed = 0;
  for (const ServedLayer& layer : gemma.layers) windowed += layer.attention.window == 512 ? 1 : 0;
  CHECK(windowed == 22);
  CHECK(gemma.layers[5].attention.window == 0);  // every sixth sees all
  CHECK(served("gpt_oss_20b").layers[0].attention.window == 128);
}

TEST_CASE("an attention that is written out is read from the spec's variables") {
  const ServedModel model = served("gpt_oss_20b");
  REQUIRE(model.layers.size() == 24);
  CHECK(model.layers[0].attention.heads == 64);
  CHECK(model.layers[0].attention.cached() == 2 * 8 * 64);
  CHECK(model.parameters() == 20'914'757'184);
}

TEST_CASE("GPUs that cannot share the heads of keys and values are refused") {
  const ServedModel model = served("llama3_2_3b");  // 24 heads of queries, 8 of keys
  CHECK_THROWS_WITH_AS(refuse_ranks(model, 3), doctest::Contains("8 heads of keys and values"), Error);
  CHECK_THROWS_WITH_AS(refuse_ranks(model, 5), doctest::Contains("24 heads"), Error);
  CHECK_NOTHROW(refuse_ranks(model, 8));
  CHECK_NOTHROW(refuse_ranks(model, 24));
}

TEST_CASE("what writes no tokens is no decoder") {
  CHECK_THROWS_WITH_AS(served("resnet50"), doctest::Contains("is no decoder: it has no embedding of tokens"), Error);
  CHECK_THROWS_WITH_AS(served("vit_b_16"), doctest::Contains("is no decoder"), Error);
}

}  // namespace
}  // namespace gpuplan

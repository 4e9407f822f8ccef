// What gpuplan serve writes for scripts fits its schemas, and its text says what was asked.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "estimator/report/serve_report.h"
#include "estimator/report/serving_offers.h"
#include "tests/support/json_schema.h"
#include "tests/support/zoo_models.h"
#include "tools/answers/served_load.h"
#include "tools/answers/serving.h"
#include "tools/answers/serving_offers.h"
#include "tools/options/load_options.h"
#include "tools/options/serve_options.h"

namespace gpuplan {
namespace {

Gpu named(const char* name) {
  RunOptions options;
  options.gpu = name;
  return *load_gpu(options);
}

AskedLoad small_load() {
  LoadOptions options;
  options.prompt = "2K";
  options.requests = "50";
  options.slo = "ttft=2s,tpot=100ms";
  return load_of(options);
}

ServeReport report_on(const char* gpu_name, std::int64_t length) {
  const Gpu gpu = named(gpu_name);
  const ServedModel model = decoder_of(zoo_model("llama3_1_8b"), gpu);
  ServeReport report;
  report.model = "llama3_1_8b";
  report.gpu_title = gpu.title;
  report.precision = "bf16";
  report.settings.length = length;
  report.start = tried_start(model, gpu, report.settings);
  if (report.start.starts) report.load = served_load(model, gpu, report.settings, report.start, small_load());
  return report;
}

TEST_CASE("JSON of a start that serves, and of one that fails, fits the schema") {
  const nlohmann::json schema = nlohmann::json::parse(serve_json_schema());
  const ServeReport serves = report_on("l4", 8192), fails = report_on("l4", 131072);
  tests::check_against(schema, nlohmann::json::parse(serve_json(serves, "0.1.0")), "serves");
  tests::check_against(schema, nlohmann::json::parse(serve_json(fails, "0.1.0")), "fails");
  CHECK(serves.load->point.load.requests == 50);
  CHECK_FALSE(fails.start.hints.empty());
  CHECK(serve_text(serves, {}).find("2K tokens in, 128 out") != std::string::npos);
  CHECK(serve_text(fails, {}).find("--max-len") != std::string::npos);
}

TEST_CASE("JSON of offers fits the schema, and what cannot serve says why") {
  const std::vector<Gpu> gpus = {named("l4"), named("k80")};
  const ServedModel model = decoder_of(zoo_model("qwen3_0_6b"), gpus.front());
  ServeSettings settings;
  settings.length = 8192;
  const ServingOffers offers = serving_offers(model, gpus, settings, small_load());
  tests::check_against(nlohmann::json::parse(serving_offers_json_schema()),
                       nlohmann::json::parse(serving_offers_json(offers, "0.1.0")), "offers");
  REQUIRE(offers.best() != nullptr);
  CHECK(offers.best()->gpu == "l4");
  CHECK(offers.rows.back().refused.find("compute capability 3.7") != std::string::npos);
}

TEST_CASE("flags of engines that are not understood") {
  for (const char* text : {"4", "4x17", "0x16", "x", "4x"}) {
    ServeOptions options;
    options.lora = text;
    CHECK_THROWS_AS(serve_settings(options), Error);
  }
  CHECK(token_count("--max-len", "16K") == 16384);
  CHECK(token_count("--max-len", "16k") == 16000);
}

}  // namespace
}  // namespace gpuplan

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "estimator/report/writers.h"
#include "tests/support/golden.h"
#include "tests/support/json_schema.h"
#include "tests/support/report_example.h"

using namespace gpuplan;
using gpuplan::tests::check_against;
using gpuplan::tests::check_golden;
using gpuplan::tests::example_gpu;
using gpuplan::tests::example_report;
using Json = nlohmann::json;

namespace {

// The rows of the first table whose heading starts with `heading`, as {label, first figure}, the total last.
std::vector<std::pair<std::string, double>> figures_below(const std::string& text, const std::string& heading) {
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line) && line.find(heading) != 2) {
  }
  std::vector<std::pair<std::string, double>> rows;
  while (std::getline(lines, line) && !line.empty()) {
    const std::size_t digit = line.find_first_of("0123456789");
    rows.emplace_back(line.substr(2, line.find("  ", 2) - 2), std::stod(line.substr(digit)));
  }
  return rows;
}

}  // namespace

TEST_CASE("the screen at a terminal") {
  Report report = example_report();
  report.gpu = example_gpu();
  check_golden("plan_terminal.txt", report_text(report, {.width = 80, .interactive = true}));
}

TEST_CASE("the screen in a pipe has no bars, no timeline and no suggestions") {
  const std::string text = report_text(example_report(), {});
  check_golden("plan_piped.txt", text);
  CHECK_EQ(text.find("█"), std::string::npos);
  CHECK_EQ(text.find("next"), std::string::npos);
}

TEST_CASE("ASCII only on request") {
  Report report = example_report();
  report.gpu = example_gpu();
  const std::string text = report_text(report, {.unicode = false, .width = 80, .interactive = true, .verbose = true});
  check_golden("plan_ascii.txt", text);
  for (const char c : text) CHECK_LT(static_cast<unsigned char>(c), 0x80);
}

TEST_CASE("a device that is too small is a clear no, with suggestions") {
  Report report = example_report();
  report.gpu = example_gpu(512LL << 20);
  CHECK_FALSE(verdict(report).fits);
  check_golden("plan_too_big.txt", report_text(report, {}, {{"--batch 1", 536870912}}));
}

TEST_CASE("without a device there is no verdict") {
  CHECK_FALSE(verdict(example_report()).known);
  Report report = example_report();
  report.gpu = example_gpu(0);  // memory size unknown
  CHECK_FALSE(verdict(report).known);
  CHECK(verdict(report).fits);
}

TEST_CASE("needs exactly the device's memory: fits") {
  Report report = example_report();
  report.gpu = example_gpu(report.peak.device_bytes);
  CHECK(verdict(report).fits);
  report.gpu = example_gpu(report.peak.device_bytes - 1);
  CHECK_FALSE(verdict(report).fits);
}

TEST_CASE("the printed rows sum to the printed total") {
  for (const bool exact : {false, true}) {
    TextStyle style;
    style.exact_bytes = exact;
    std::string text = report_text(example_report(), style);
    std::erase(text, ',');
    const auto rows = figures_below(text, "alive at the peak");
    REQUIRE_EQ(rows.size(), 9);
    double sum = 0;
    for (std::size_t i = 0; i + 1 < rows.size(); ++i) sum += rows[i].second;
    CHECK_EQ(rows.back().first, "total");
    CHECK_EQ(sum, doctest::Approx(rows.back().second).epsilon(1e-9));
  }
}

TEST_CASE("colour only where asked for") {
  Report report = example_report();
  report.gpu = example_gpu();
  CHECK_EQ(report_text(report, {}).find('\x1b'), std::string::npos);
  CHECK_NE(report_text(report, {.color = true}).find("\x1b[32m"), std::string::npos);
}

TEST_CASE("what saves memory is said below the headline, what it costs in rows of its own") {
  Report report = example_report();
  report.run.autocast = DType::bf16;
  report.run.micro_batches = 2;
  report.run.checkpoint.kind = CheckpointConfig::Kind::every;
  report.run.checkpoint.every = 2;
  report.run.layout = MemoryFormat::channels_last;
  report.run.offload_saved = true;
  report.model.checkpointed_blocks = 3;
  report.compute.recompute_flops = 1212416;
  report.offload_bytes_to_host = report.offload_bytes_from_host = 262272;
  check_golden("plan_savers.txt", report_text(report, {}));
  const std::string md = report_md(report);
  CHECK_NE(md.find("fp32, amp bf16, adam, 2 micro-batches, checkpoint every=2, nhwc"), std::string::npos);
  CHECK_NE(md.find("1.21 MFLOP are recomputed in backward. Checkpointed blocks: 3."), std::string::npos);
  const Json json = Json::parse(report_json(report, "0.1.0"));
  check_against(Json::parse(plan_json_schema()), json, "plan");
  CHECK_EQ(json["run"]["amp"], "bf16");
  CHECK_EQ(json["run"]["checkpoint"], "every=2");
  CHECK_EQ(json["compute"]["recompute_flops"], 1212416);
}

TEST_CASE("a generation is said with its cache") {
  Report report = example_report();
  report.run.mode = Mode::infer;
  report.run.weights = WeightFormat::int8;
  report.run.generation.part = Generation::Part::decode;
  report.run.generation.cache = Generation::Cache::fixed;
  report.run.generation.prompt = 512;
  report.bytes.kv_cache = 6 << 20;
  const std::string text = report_text(report, {});
  CHECK_NE(text.find("\n  decode of token 513 · static cache · int8 weights\n"), std::string::npos);
  CHECK_NE(text.find("  KV cache  6.00 MiB\n"), std::string::npos);
  const Json json = Json::parse(report_json(report, "0.1.0"));
  check_against(Json::parse(plan_json_schema()), json, "plan");
  CHECK_EQ(json["run"]["generation"]["phase"], "decode");
  CHECK_EQ(json["bytes"]["kv_cache"], 6 << 20);
}

TEST_CASE("an empty model is a report too") {
  const Report empty;
  CHECK_NOTHROW(report_text(empty, {.interactive = true, .verbose = true}));
  CHECK_NOTHROW(report_md(empty));
  CHECK_NOTHROW(report_csv(empty));
}

TEST_CASE("JSON keeps the contract") {
  Report report = example_report();
  report.count_as = {.tool = "fvcore", .unit = "flops", .per_sample = 5, .batch = 2};
  const std::string text = report_json(report, "0.1.0");
  check_golden("plan.json", text);
  check_against(Json::parse(plan_json_schema()), Json::parse(text), "plan");
}

TEST_CASE("JSON in inference has no optimizer") {
  Report report = example_report();
  report.run.mode = Mode::infer;
  const Json json = Json::parse(report_json(report, "0.1.0"));
  CHECK(json["run"]["optimizer"].is_null());
  check_against(Json::parse(plan_json_schema()), json, "plan");
}

TEST_CASE("JSON survives a name that is not UTF-8") {
  Report report = example_report();
  report.layers[0].name = "caf\xe9";
  Json parsed;
  CHECK_NOTHROW(parsed = Json::parse(report_json(report, "0.1.0")));
}

TEST_CASE("CSV has a line a layer and quotes what needs it") {
  Report report = example_report();
  report.layers[3].name = "he\"a,d";
  check_golden("layers.csv", report_csv(report));
}

TEST_CASE("Markdown has the verdict, the parts and the layers") {
  Report report = example_report();
  report.gpu = example_gpu();
  check_golden("plan.md", report_md(report));
}

// Starts of vLLM itself on simulated GPUs (tests/serving/README.md) beside ours.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "tests/support/engine_starts.h"

namespace gpuplan {
namespace {

std::int64_t number(const CsvTable& table, std::size_t row, const char* column) {
  return std::strtoll(table.at(row, column).text.c_str(), nullptr, 10);
}

TEST_CASE("the cache has as many tokens as vLLM prints, within 0.5 %, and starts are refused as vLLM refuses them") {
  const CsvTable table = serving_table("vllm_starts.csv");
  REQUIRE(table.rows() >= 26);
  for (std::size_t i = 0; i < table.rows(); ++i) {
    CAPTURE(table.at(i, "name").text);
    const EngineStart start =
        serving_start(table.at(i, "model").text, table.at(i, "gpu").text, table.at(i, "flags").text);
    const std::int64_t tokens = number(table, i, "kv_tokens");
    CHECK(start.starts == (tokens > 0));
    CHECK(std::abs(static_cast<double>(start.limits.cache_tokens - tokens)) <= 0.005 * static_cast<double>(tokens));
    if (tokens == 0) CHECK(start.error.find(table.at(i, "error").text.substr(0, 16)) != std::string::npos);
  }
}

TEST_CASE("the peak of the profile run is vLLM's to 1 MiB in most starts, and to 25 MiB in all") {
  const CsvTable table = serving_table("vllm_starts.csv");
  int equal = 0, compared = 0;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    if (table.at(i, "profile_bytes").text.empty()) continue;
    CAPTURE(table.at(i, "name").text);
    const EngineStart start =
        serving_start(table.at(i, "model").text, table.at(i, "gpu").text, table.at(i, "flags").text);
    const std::int64_t off = std::abs(start.profile_bytes - number(table, i, "profile_bytes"));
    CHECK(off <= 25 << 20);
    equal += off <= 1 << 20 ? 1 : 0;
    ++compared;
  }
  CHECK(equal >= compared - 3);
}

}  // namespace
}  // namespace gpuplan

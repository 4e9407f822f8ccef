// Starts of engines on real GPUs, as their logs were published (tests/serving/README.md), beside ours.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "estimator/base/format.h"
#include "tests/support/engine_starts.h"

namespace gpuplan {
namespace {

std::string fixed(double value, const char* format) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

struct Beside {
  double published = 0, ours = 0;
  std::string published_text, ours_text;

  double off_percent() const { return 100 * (ours / published - 1); }
};

Beside compared(const CsvTable& table, std::size_t row, const EngineStart& start) {
  Beside out;
  if (const std::string& tokens = table.at(row, "kv_tokens").text; !tokens.empty()) {
    out.published = std::strtod(tokens.c_str(), nullptr);
    out.ours = static_cast<double>(start.limits.cache_tokens);
    out.published_text = format_count(static_cast<std::int64_t>(out.published)) + " tokens";
    out.ours_text = format_count(start.limits.cache_tokens) + " tokens";
  } else {
    out.published = std::strtod(table.at(row, "kv_gib").text.c_str(), nullptr);
    out.ours = static_cast<double>(start.cache_bytes) / static_cast<double>(std::int64_t{1} << 30);
    out.published_text = fixed(out.published, "%.2f GiB");
    out.ours_text = fixed(out.ours, "%.2f GiB");
  }
  return out;
}

TEST_CASE("published starts are met within their tolerances, and stand beside ours in the README") {
  const CsvTable table = serving_table("published_starts.csv");
  const std::string readme = serving_text("README.md");
  int gated = 0;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    const auto text = [&](const char* column) { return table.at(i, column).text; };
    if (text("model").empty()) {
      CHECK_FALSE(text("note").empty());  // why it cannot be repeated
      continue;
    }
    CAPTURE(text("flags"));
    const EngineStart start = serving_start(text("model"), text("gpu"), text("flags"));
    CHECK(start.starts);
    const Beside b = compared(table, i, start);
    const std::string line = "| " + text("engine") + " " + text("version") + " | " + text("published_model") + " | " +
                             text("published_gpu") + " | `" + text("flags") + "` | " + b.published_text + " | " +
                             b.ours_text + " | " + fixed(b.off_percent(), "%+.1f %%") + " |\n";
    CAPTURE(line);
    CHECK(readme.find(line) != std::string::npos);
    if (text("tolerance_percent").empty()) {
      CHECK_FALSE(text("note").empty());
      continue;
    }
    ++gated;
    CHECK(std::abs(b.off_percent()) <= std::strtod(text("tolerance_percent").c_str(), nullptr));
  }
  CHECK(gated >= 6);
}

}  // namespace
}  // namespace gpuplan

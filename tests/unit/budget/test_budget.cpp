// gpuplan.yaml: what is read of it, and what is refused.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "estimator/base/glob.h"
#include "estimator/budget/read_budget.h"
#include "estimator/budget/rounded_amount.h"

using namespace gpuplan;

namespace {

const RunKeys kKeys = {{"batch", "batch"},     {"precision", "precision"},
                       {"dtype", "precision"}, {"micro-batches", "micro-batches"},
                       {"gpu", "gpu"},         {"clip-grad-norm", "clip-grad-norm"}};

Budget read(const std::string& text) {
  return read_budget(std::make_shared<Source>(Source{.name = "gpuplan.yaml", .text = text}), kKeys);
}

// A check of `body`, indented by four blanks.
std::string check_with(const std::string& body) { return "gpuplan: 1\nchecks:\n  - model: m.yaml\n" + body; }

std::string error_of(const std::string& text) {
  try {
    (void)read(text);
  } catch (const Error& error) {
    return error.render();
  }
  return "no error";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::int64_t peak_of(const std::string& amount) {
  return read(check_with("    budget: {peak: \"" + amount + "\"}\n")).checks[0].limits[0].max->amount;
}

}  // namespace

TEST_CASE("budget: amounts have the unit that they are written with") {
  CHECK_EQ(peak_of("8 GiB"), 8'589'934'592);
  CHECK_EQ(peak_of("8 GB"), 8'000'000'000);
  CHECK_EQ(peak_of("1.5GiB"), 1'610'612'736);
}

TEST_CASE("budget: an amount of a budget is more than nothing") {
  CHECK(has(error_of(check_with("    budget: {peak: 0}\n")), "must be above 0"));
  CHECK(has(error_of(check_with("    budget: {peak: 0 GiB}\n")), "must be above 0"));
  CHECK(has(error_of(check_with("    budget: {peak: -5 GiB}\n")), "is an amount such as 8 GiB, not \"-5 GiB\""));
  CHECK(has(error_of(check_with("    budget: {peak: 8}\n")), "an amount with its unit, and 8 has none"));
  CHECK(has(error_of(check_with("    budget: {peak: 8 Gib}\n")), "the units: B, KiB, MiB, GiB, TiB, kB, MB, GB, TB"));
  CHECK(has(error_of(check_with("    budget: {peak: 99999999 TiB}\n")), "does not fit in 64 bits"));
  CHECK(has(error_of(check_with("    budget: {peak: nan GiB}\n")), "is an amount such as"));
}

TEST_CASE("budget: every kind of limit") {
  const Budget budget = read(check_with(R"(    batch: 8
    budget:
      peak: {max: 8 GiB, warn: 90%}
      params: {min: 25 M, max: 26 M}
      step_flop: 2 TFLOP
      step_time: {max: 120 ms, level: warn}
      cost: 0.50 USD/Msample
      fits: [t4, l4]
      modules:
        "h.*.attn": {saved: 2 GiB, params: 7 M}
)"));
  REQUIRE_EQ(budget.checks.size(), 1);
  const Check& check = budget.checks[0];
  CHECK_EQ(check.name, "m");
  REQUIRE_EQ(check.limits.size(), 5);
  CHECK_EQ(check.limits[0].warn->amount, 7'730'941'132);  // nine tenths of 2^33, rounded down
  CHECK_EQ(check.limits[1].min->amount, 25'000'000);
  CHECK_EQ(check.limits[1].max->amount, 26'000'000);
  CHECK_EQ(check.limits[2].max->amount, 2'000'000'000'000);
  CHECK_EQ(check.limits[3].max->amount, 120'000'000);
  CHECK_EQ(check.limits[3].level, Level::warn);
  CHECK_EQ(check.limits[4].max->amount, 500'000);
  CHECK_EQ(check.fits.size(), 2);
  CHECK_EQ(check.modules[0].pattern, "h.*.attn");
  CHECK_EQ(check.modules[0].limits[1].max->amount, 7'000'000);
  CHECK_EQ(check.limits[0].max->mark.line, 6);
  CHECK_EQ(check.limits[0].max->mark.column, 19);
}

TEST_CASE("budget: defaults hold unless a check says otherwise") {
  const Budget budget = read(R"(gpuplan: 1
defaults:
  batch: 4
  margin: 5%
  inherited: warn
  growth: {peak: {fail: {percent: 5, bytes: 256 MiB}, warn: {percent: 0.25}}}
checks:
  - {name: a, model: m.yaml}
  - {name: b, model: m.yaml, batch: 8, growth: {peak: 10%, params: 1 M}, inherited: error}
)");
  const Check &a = budget.checks[0], &b = budget.checks[1];
  CHECK_EQ(a.settings.back().text, "4");
  CHECK_EQ(b.settings.back().text, "8");
  CHECK_EQ(a.margin_hundredths, 500);
  CHECK_EQ(a.inherited, Level::warn);
  CHECK_EQ(b.inherited, Level::error);
  REQUIRE_EQ(a.growth.size(), 1);
  CHECK_EQ(*a.growth[0].fail->hundredths, 500);
  CHECK_EQ(*a.growth[0].fail->amount, 268'435'456);
  CHECK_EQ(*a.growth[0].warn->hundredths, 25);
  REQUIRE_EQ(b.growth.size(), 2);
  CHECK_EQ(*b.growth[0].fail->hundredths, 1000);
  CHECK_FALSE(b.growth[0].fail->amount);
  CHECK_EQ(*b.growth[1].fail->amount, 1'000'000);
}

TEST_CASE("budget: a matrix is a check for each combination") {
  const Budget budget =
      read(check_with("    matrix: {batch: [8, 16], dtype: [fp32, bf16]}\n    budget: {peak: 1 GiB}\n"));
  REQUIRE_EQ(budget.checks.size(), 4);
  CHECK_EQ(budget.checks[0].name, "m[batch=8,dtype=fp32]");
  CHECK_EQ(budget.checks[1].name, "m[batch=8,dtype=bf16]");
  CHECK_EQ(budget.checks[3].name, "m[batch=16,dtype=bf16]");
  CHECK_EQ(budget.checks[3].settings.back().text, "bf16");
  CHECK(has(error_of(check_with("    matrix: {batch: []}\n    budget: {peak: 1 GiB}\n")),
            "the matrix lists no values for batch"));
  CHECK(has(error_of(check_with("    matrix: {}\n    budget: {peak: 1 GiB}\n")), "an empty matrix"));
  CHECK(has(error_of(check_with("    matrix: {batch: [8, 8]}\n    budget: {peak: 1 GiB}\n")), "8 appears twice"));
  CHECK(has(error_of(check_with("    matrix: {bathc: [8]}\n    budget: {peak: 1 GiB}\n")), "did you mean \"batch\""));
}

TEST_CASE("budget: 10,000 checks are read, and a matrix of too many is not") {
  std::string text = "gpuplan: 1\nchecks:\n";
  for (int i = 0; i < 10'000; ++i)
    text += "  - {name: c" + std::to_string(i) + ", model: m.yaml, batch: 8, budget: {peak: 8 GiB}}\n";
  CHECK_EQ(read(text).checks.size(), 10'000);
  std::string values;
  for (int i = 1; i <= 400; ++i) values += (i > 1 ? ", " : "") + std::to_string(i);
  CHECK(has(error_of(check_with("    matrix: {batch: [" + values + "], micro_batches: [" + values +
                                "]}\n    budget: {peak: 1 GiB}\n")),
            "more than 100000 combinations"));
}

TEST_CASE("budget: what is wrong is said with its place") {
  CHECK(has(error_of("gpuplan: 2\nchecks: []\n"), "format version 1"));
  CHECK(has(error_of("checks: []\n"), "needs gpuplan:"));
  CHECK(has(error_of("gpuplan: 1\nchecks: []\n"), "no check is listed"));
  CHECK(has(error_of("gpuplan: 1\nchecks:\n  - {name: a, budget: {peak: 1 GiB}}\n"), "a check needs model:"));
  CHECK(has(error_of(check_with("    bugdet: {peak: 1 GiB}\n")), "did you mean \"budget\""));
  CHECK(has(error_of(check_with("    budget: {peek: 1 GiB}\n")), "did you mean \"peak\""));
  CHECK(has(error_of(check_with("    budget: {peak: 1 GiB, peak: 2 GiB}\n")), "given twice"));
  CHECK(has(error_of(check_with("    budget: {}\n")), "a budget without limits"));
  CHECK(has(error_of(check_with("    batch: 8\n")), "has no limit"));
  CHECK(has(error_of(check_with("    budget: {peak: {max: 1 GiB, min: 2 GiB}}\n")), "min is above max"));
  CHECK(has(error_of(check_with("    budget: {peak: {max: 1 GiB, warn: 120%}}\n")), "never triggers"));
  CHECK(has(error_of(check_with("    budget: {peak: {warn: 90%}}\n")), "a share of max:, which is not given"));
  CHECK(has(error_of(check_with("    budget: {peak: 1 GiB}\n    skip_until: 2026-13-01\n")), "a day such as"));
  CHECK(has(error_of(check_with("    budget: {peak: 1 GiB}\n    skip_until: 2026-12-01\n")),
            "skip_until needs a reason"));
  CHECK(has(error_of(check_with("    budget: {peak: 1 GiB}\n    reason: because\n")), "belongs to skip_until"));
  CHECK(has(error_of(check_with("    budget: {peak: 1 GiB}\n  - model: m.yaml\n    budget: {peak: 1 GiB}\n")),
            "two checks are called m"));
  CHECK(has(error_of(check_with("    name: \"a\\nb\"\n    budget: {peak: 1 GiB}\n")), "control character"));
  CHECK(has(error_of(check_with("    name: --base\n    budget: {peak: 1 GiB}\n")), "looks like a flag"));
  CHECK(has(error_of(check_with("    growth: {peak: {}}\n")), "without a percent or an amount"));
  CHECK(has(error_of(check_with("    growth: {peak: {percent: -1}}\n")), "a percentage such as 5%"));
  CHECK(has(error_of(check_with("    margin: 100%\n    budget: {peak: 1 GiB}\n")), "less than 100%"));
  CHECK(has(error_of(check_with("    budget: {fits: [t4, t4]}\n")), "t4 appears twice"));
  CHECK(has(error_of(check_with("    budget: {peak: 1 GiB}\n    set: {seq: [1]}\n")), "seq must be text, not a list"));
  CHECK(has(error_of("just text"), "a budget file must be a map"));
  CHECK(has(error_of(check_with("    budget: {peak: 8}\n")), "--> gpuplan.yaml:4:20"));
}

TEST_CASE("budget: a flag has several names, and is given once") {
  CHECK(has(error_of(check_with("    dtype: bf16\n    precision: fp32\n    budget: {peak: 1 GiB}\n")),
            "precision is given twice"));
  CHECK(has(error_of(check_with("    micro_batches: 2\n    micro-batches: 4\n    budget: {peak: 1 GiB}\n")),
            "given twice"));
  CHECK(has(error_of(check_with("    matrix: {dtype: [fp32], precision: [bf16]}\n    budget: {peak: 1 GiB}\n")),
            "given twice"));
  CHECK(has(error_of(check_with("    batch: 8\n    matrix: {batch: [8]}\n    budget: {peak: 1 GiB}\n")),
            "the matrix and the check both say batch"));
  const Budget budget = read(
      "gpuplan: 1\ndefaults: {dtype: bf16}\nchecks:\n  - {model: m, precision: fp32, budget: {peak: "
      "1 GiB}}\n");
  CHECK_EQ(budget.checks[0].settings[0].key, "precision");
  CHECK(budget.checks[0].settings[0].by_default);
  CHECK_FALSE(budget.checks[0].settings[1].by_default);
  CHECK(has(error_of(check_with("    matrix: {gpu: [\"a\\nb\"]}\n    budget: {peak: 1 GiB}\n")), "control character"));
}

TEST_CASE("budget: limits are rounded in their own unit, and never past the figure") {
  CHECK_EQ(rounded_amount(14'592'000'000, Unit::bytes, " GiB", Rounding::up), "13.6 GiB");  // 13.589...
  CHECK_EQ(rounded_amount(14'592'000'000, Unit::bytes, " GiB", Rounding::down), "13.5 GiB");
  CHECK_EQ(rounded_amount(8'589'934'592, Unit::bytes, " GiB", Rounding::up), "8 GiB");
  CHECK_EQ(rounded_amount(8'589'934'593, Unit::bytes, " GiB", Rounding::up), "8.01 GiB");
  CHECK_EQ(rounded_amount(25'557'032, Unit::count, " M", Rounding::up), "25.6 M");
  CHECK_EQ(rounded_amount(25'557'032, Unit::count, "", Rounding::up), "25557032");
  CHECK_EQ(rounded_amount(1, Unit::bytes, "TiB", Rounding::up), "0.01TiB");
  // Rounded down it would be nothing: in a smaller unit instead.
  CHECK_EQ(rounded_amount(9'700'000, Unit::bytes, " TiB", Rounding::down), "9.25 MiB");
  CHECK_EQ(rounded_amount(0, Unit::bytes, " GiB", Rounding::down), "1 B");
  CHECK_EQ(rounded_amount(INT64_MAX, Unit::flop, " EFLOP", Rounding::up), "9.23 EFLOP");  // 9.2233...e18
}

TEST_CASE("budget: percentages keep their zeros") {
  CHECK_EQ(percentage_text(500), "5 %");
  CHECK_EQ(percentage_text(105), "1.05 %");
  CHECK_EQ(percentage_text(150), "1.5 %");
  CHECK_EQ(percentage_text(25), "0.25 %");
}

namespace {

// What each $ref of a schema points at is defined.
void check_references(const nlohmann::json& part, const nlohmann::json& definitions) {
  if (part.is_object() && part.contains("$ref")) {
    const std::string target = part["$ref"];
    REQUIRE(target.starts_with("#/$defs/"));
    CHECK_MESSAGE(definitions.contains(target.substr(8)), target);
  }
  if (part.is_structured())
    for (const nlohmann::json& inner : part) check_references(inner, definitions);
}

}  // namespace

TEST_CASE("budget: the schema is JSON that refers to what it defines, and has every key that is read") {
  const nlohmann::json schema = nlohmann::json::parse(budget_json_schema(kKeys));
  check_references(schema, schema["$defs"]);
  const nlohmann::json& check = schema["properties"]["checks"]["items"]["properties"];
  for (const char* key : {"name", "model", "matrix", "budget", "message", "owner", "skip_until", "reason", "margin",
                          "growth", "inherited", "set", "batch", "micro_batches", "micro-batches", "dtype"})
    CHECK_MESSAGE(check.contains(key), key);
  const nlohmann::json& budget = check["budget"]["properties"];
  for (const Figure figure : figures_of_step()) CHECK(budget.contains(std::string(name_of(figure))));
  CHECK(budget.contains("fits"));
  CHECK(budget.contains("modules"));
  for (const char* key : {"batch", "margin", "growth", "inherited", "set"})
    CHECK_MESSAGE(schema["properties"]["defaults"]["properties"].contains(key), key);
}

// What gpuplan check prints and writes: every format, and hostile names in each.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "estimator/base/excerpt.h"
#include "estimator/budget/read_budget.h"
#include "estimator/report/check_findings.h"
#include "estimator/report/read_check.h"
#include "tests/support/golden.h"
#include "tests/support/json_schema.h"
#include "tools/check/update.h"

using namespace gpuplan;

namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::shared_ptr<const Source> example_source() {
  return std::make_shared<Source>(Source{.name = "gpuplan.yaml", .text = R"(gpuplan: 1
checks:
  - name: mlp
    model: configs/mlp.yaml
    budget: {peak: 1 GiB}
  - name: gpt2
    model: configs/gpt2.yaml
    budget:
      peak: 12 GiB  # the lab's cards
      params: {min: 120 M, max: 130 M}
    growth: 5%
    message: "Must fit the 12 GB lab cards."
    owner: "@ml-infra"
  - name: old
    model: configs/old.yaml
    budget: {peak: 1 GiB}
    skip_until: 2026-12-31
    reason: "migration, see #412"
)"});
}

Measured measured(std::int64_t peak, std::int64_t params) {
  Measured m;
  m.figures[Figure::peak] = peak;
  m.figures[Figure::reserved] = peak + kGiB;
  m.figures[Figure::device] = peak + 2 * kGiB;
  m.figures[Figure::params] = params;
  return m;
}

CheckResult result_of(const Check& check, const Measured& head, const Measured& base) {
  CheckResult result;
  result.check = check;
  result.measured = head;
  result.base = base.figures;
  result.assertions = judge(check, head, &base, {});
  result.state = state_of(check, result.assertions, *day_of("2026-11-22"));
  result.run = "train, batch 8, fp32, adam";
  return result;
}

struct Example {
  Budget budget = read_budget(example_source(), {});
  CheckReport report;
  Example() {
    report.file = "gpuplan.yaml";
    report.base_commit = "3f2c1ab99dc248579e6848c5ee1a9b5faa8a0f10";
    report.base_rule = "first parent of the pull-request merge";
    report.today = *day_of("2026-11-22");
    const auto& checks = budget.checks;
    report.results.push_back(result_of(checks[0], measured(kGiB / 100, 535'818), measured(kGiB / 100, 535'818)));
    // 14,592,000,000 B are 13.6 GiB; 10,226,000,000 B 9.52.
    report.results.push_back(
        result_of(checks[1], measured(14'592'000'000, 124'832'000), measured(10'226'000'000, 124'439'808)));
    report.results.push_back(result_of(checks[2], measured(2 * kGiB, 1), measured(2 * kGiB, 1)));
    CheckResult& gpt2 = report.results[1];
    gpt2.peak_place = "backward of lm_head";
    gpt2.parts = {{Category::activations, 12'000'000'000, Confidence::modelled},
                  {Category::optimizer_state, 2'592'000'000, Confidence::exact}};
    gpt2.base_parts = {{Category::activations, 7'634'000'000, Confidence::modelled},
                       {Category::optimizer_state, 2'592'000'000, Confidence::exact}};
    gpt2.causes = {
        {.file = "configs/gpt2.yaml", .line = 6, .column = 8, .what = "vars.seq", .from = "1024", .to = "1536"}};
    gpt2.suggestions = {{.flags = "--batch 6", .figure = Figure::peak, .value = 11'000'000'000}};
  }
};

std::string hostile() { return "a|b<script>`x`\"'&%]]>\\ @you *b* ::error:: \xc3\xa9"; }

// One check that fails, everything in it that can be text being hostile.
CheckReport hostile_report() {
  static const Example example;  // its marks point into its text
  CheckReport report = example.report;
  CheckResult& bad = report.results[1];
  bad.check.name = bad.check.message = bad.check.owner = bad.peak_place = bad.base_note = hostile();
  bad.causes[0].what = bad.causes[0].from = bad.causes[0].to = bad.causes[0].file = hostile();
  report.results = {bad};
  report.file = hostile();
  return report;
}

}  // namespace

TEST_CASE("check: the screen") {
  const Example example;
  tests::check_golden("check.txt", check_text(example.report, {}));
  TextStyle ascii;
  ascii.unicode = false;
  ascii.interactive = true;
  tests::check_golden("check_ascii.txt", check_text(example.report, ascii));
}

TEST_CASE("check: Markdown, its marker last, and within a comment's size") {
  const Example example;
  const std::string md = check_md(example.report, "0.1.0", 65'536);
  tests::check_golden("check.md", md);
  CHECK(md.ends_with("<!-- gpuplan:gpuplan.yaml -->\n"));
  CheckReport many = example.report;
  for (int i = 0; i < 3000; ++i) many.results.push_back(example.report.results[1]);
  for (const std::size_t most : {std::size_t{65'536}, std::size_t{2'000}, std::size_t{300}}) {
    const std::string cut = check_md(many, "0.1.0", most);
    CHECK_LE(cut.size(), most);
    CHECK(has(cut, "Details left out"));
    CHECK(cut.ends_with("-->\n"));
  }
}

TEST_CASE("check: JSON holds to its schema and can be a base") {
  const Example example;
  const std::string text = check_json(example.report, "0.1.0");
  tests::check_against(nlohmann::json::parse(check_json_schema()), nlohmann::json::parse(text), "check");
  const SavedChecks saved = read_saved_checks({.name = "base.json", .text = text});
  CHECK_EQ(saved.version, "0.1.0");
  REQUIRE(saved.by_name.contains("gpt2"));
  CHECK_EQ(*saved.by_name.at("gpt2").figures[Figure::peak], 14'592'000'000);
  CHECK_THROWS_AS((void)read_saved_checks({.name = "x", .text = "{}"}), Error);
  CHECK_THROWS_AS((void)read_saved_checks({.name = "x", .text = "[[["}), Error);
}

TEST_CASE("check: findings stand on the line that changed, the limit beside it") {
  const Example example;
  const std::vector<Finding> list = findings(example.report);
  REQUIRE_EQ(list.size(), 2);  // the peak and its growth; the muted check is none
  CHECK_EQ(list[0].place.path, "configs/gpt2.yaml");
  CHECK_EQ(list[0].place.line, 6);
  REQUIRE_EQ(list[0].related.size(), 1);
  CHECK_EQ(list[0].related[0].path, "gpuplan.yaml");
  CHECK_EQ(list[0].related[0].line, 9);
  CHECK_EQ(list[0].related[0].column, 13);
  CHECK_EQ(list[0].related[0].end_column, 19);
  CHECK_NE(list[0].fingerprint, list[1].fingerprint);
  // http://www.isthe.com/chongo/tech/comp/fnv: FNV-1a of "a" and of "foobar".
  CHECK_EQ(fingerprint_of("a"), "af63dc4c8601ec8c");
  CHECK_EQ(fingerprint_of("foobar"), "85944171f73967e8");
}

TEST_CASE("check: GitHub shows ten annotations of a kind") {
  const Example example;
  tests::check_golden("check_github.txt", check_github(example.report));
  CheckReport many = example.report;
  for (int i = 0; i < 20; ++i) many.results.push_back(example.report.results[1]);
  const std::string text = check_github(many);
  CHECK_EQ(std::count(text.begin(), text.end(), '\n'), 10);
  CHECK(has(text, "::error title=gpuplan::and 33 more"));  // 21 checks with 2 findings each, 9 of them shown
}

TEST_CASE("check: JUnit, SARIF, Code Quality and OpenMetrics") {
  const Example example;
  tests::check_golden("check_junit.xml", check_junit(example.report));
  tests::check_golden("check.sarif", check_sarif(example.report, "0.1.0"));
  tests::check_golden("check_metrics.txt", check_openmetrics(example.report));
  const nlohmann::json quality = nlohmann::json::parse(check_gitlab(example.report));
  REQUIRE_EQ(quality.size(), 2);
  CHECK_EQ(quality[0]["severity"], "major");
  CHECK_EQ(quality[0]["location"]["lines"]["begin"], 6);
}

TEST_CASE("check: what code scanning has no room for is said, and metrics are in their units") {
  const Example example;
  CheckReport many = example.report;
  many.results.assign(5001, example.report.results[1]);
  const auto run = nlohmann::json::parse(check_sarif(many, "0.1.0"))["runs"][0];
  CHECK_EQ(run["results"].size(), 5000);
  const auto& notes = run["invocations"][0]["toolExecutionNotifications"];
  REQUIRE_EQ(notes.size(), 1);
  CHECK(has(notes[0]["message"]["text"].get<std::string>(), "the first 5000 of "));
  CheckReport timed = example.report;
  FigureValues& figures = timed.results[0].measured.figures;
  for (const auto& [nanoseconds, text] : {std::pair<std::int64_t, const char*>{36'200'000, "0.0362"},
                                          {2'000'000'000, "2.0"},
                                          {1, "0.000000001"},
                                          {12'345'678'901, "12.345678901"}}) {
    figures[Figure::step_time] = nanoseconds;
    CHECK(has(check_openmetrics(timed), "gpuplan_step_seconds{check=\"mlp\"} " + std::string(text) + "\n"));
  }
  figures[Figure::cost] = 520'000;
  CHECK(has(check_openmetrics(timed), "# UNIT gpuplan_million_samples_usd usd\n"));
  CHECK(has(check_openmetrics(timed), "gpuplan_million_samples_usd{check=\"mlp\"} 0.52\n"));
}

TEST_CASE("check: a plan that failed is shown where it failed, an import at its file") {
  Example example;
  CheckResult& result = example.report.results[0];
  result.state = State::error;
  result.error = "configs/mlp.yaml:7: unknown layer";
  const auto first = [&] { return findings(example.report).front(); };
  CHECK_EQ(first().place.path, "gpuplan.yaml");
  result.error_at.file = "configs/mlp.yaml";
  result.error_at.line = 7;
  CHECK_EQ(first().place.path, "configs/mlp.yaml");
  CHECK_EQ(first().place.line, 7);
  CHECK_EQ(first().related.front().path, "gpuplan.yaml");
  example.report.folder = "team/";
  CHECK_EQ(first().place.path, "team/configs/mlp.yaml");
  example.report.real_paths["configs/mlp.yaml"] = "models/mlp.yaml";
  CHECK_EQ(first().place.path, "models/mlp.yaml");
  result.error_at.file = "import:configs/mlp.yaml";
  CHECK_EQ(first().place.path, "models/mlp.yaml");
  CHECK_EQ(first().place.line, 1);
}

TEST_CASE("check: hostile names stay text in every format") {
  const CheckReport report = hostile_report();
  const std::string md = check_md(report, "0.1.0", 65'536);
  CHECK_FALSE(has(md.substr(0, md.find("```")), "<script>"));
  CHECK_FALSE(has(md.substr(0, md.find("```")), "@you"));
  const std::string github = check_github(report);
  for (std::size_t at = github.find('\n'); at != std::string::npos && at + 1 < github.size();
       at = github.find('\n', at + 1))
    CHECK(github.substr(at + 1).starts_with("::error "));
  const std::string junit = check_junit(report);
  CHECK_FALSE(has(junit, "<script>"));
  CHECK_FALSE(has(junit, "]]>"));
  CHECK(nlohmann::json::accept(check_sarif(report, "0.1.0")));
  CHECK(has(check_sarif(report, "0.1.0"), "a%7Cb%3Cscript%3E"));
  CHECK(has(check_openmetrics(report), "check=\"a|b<script>`x`\\\"'&%]]>\\\\ @you"));
  CheckReport bytes = report;
  bytes.results[0].check.name = "bad \xff\xfe utf-8 \x01 \xef\xbf\xbe";
  bytes.results[0].check.message = "line\nline";
  CHECK(nlohmann::json::accept(check_json(bytes, "0.1.0")));
  CHECK(nlohmann::json::accept(check_sarif(bytes, "0.1.0")));
  CHECK(has(check_junit(bytes), "name=\"bad \xEF\xBF\xBD\xEF\xBF\xBD utf-8 \xEF\xBF\xBD \xEF\xBF\xBD\""));
  CHECK_FALSE(has(check_text(bytes, {}), "\x01"));
}

TEST_CASE("check: no name turns the text around it, or is a command of a terminal") {
  CHECK_EQ(printable_text("a\xE2\x80\xAE"
                          "b\xE2\x81\xA6"
                          "c\xE2\x80\xA8\xC2\x9B"
                          "31m"),
           "a\xEF\xBF\xBD"
           "b\xEF\xBF\xBD"
           "c\xEF\xBF\xBD  31m");
  CHECK_EQ(printable_text("\xE2\x80\x94 \xC2\xB1 \xE2\x86\x92 \xC3\xBC"),
           "\xE2\x80\x94 \xC2\xB1 \xE2\x86\x92 \xC3\xBC");
  CHECK_EQ(printable_text("\xFF\xFEg\x9B"
                          "31m \xC3"),
           "??g?31m ?");
  Example example;
  CheckResult& result = example.report.results[1];
  result.check.name = "gpt2\xE2\x80\xAE";
  for (const std::string& text :
       {check_text(example.report, {}), check_md(example.report, "0.1.0", 65'536), check_github(example.report)})
    CHECK_FALSE(has(text, "\xE2\x80\xAE"));
}

TEST_CASE("check: --update rewrites the limits that were broken, and nothing else") {
  Example example;
  const BudgetUpdate update = update_limits(*example.budget.source, example.report.results);
  REQUIRE_EQ(update.edits.size(), 1);
  CHECK_EQ(update.edits[0].line, 9);
  CHECK_EQ(update.edits[0].after, "      peak: 13.6 GiB  # the lab's cards");
  CHECK_EQ(update.left, 1);  // its growth
  std::string expected = example.budget.source->text;
  expected.replace(expected.find("12 GiB  #"), 6, "13.6 GiB");
  CHECK_EQ(update.text, expected);
  // Two limits of one line, and a quoted one.
  const auto source = std::make_shared<Source>(Source{
      .name = "gpuplan.yaml",
      .text =
          "gpuplan: 1\nchecks:\n  - {name: a, model: m, budget: {peak: '1 GiB', params: {min: 20 M, max: 30 M}}}\n"});
  const Budget two = read_budget(source, {});
  const CheckResult both = result_of(two.checks[0], measured(2 * kGiB, 10'500'001), measured(1, 1));
  const BudgetUpdate edited = update_limits(*source, {both});
  REQUIRE_EQ(edited.edits.size(), 1);
  CHECK_EQ(edited.edits[0].after, "  - {name: a, model: m, budget: {peak: 2 GiB, params: {min: 10.5 M, max: 30 M}}}");
  CHECK_EQ(edited.left, 0);
}

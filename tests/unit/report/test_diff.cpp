// What two plans differ by: rows that sum, limits, and the screens and files that say so.
#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "estimator/plan/plan.h"
#include "estimator/report/change_text.h"
#include "estimator/report/diff_report.h"
#include "estimator/report/escape.h"
#include "estimator/report/read_figures.h"
#include "estimator/report/writers.h"
#include "layers/catalog.h"
#include "tests/support/golden.h"
#include "tests/support/json_schema.h"
#include "tests/support/test_spec.h"
#include "tests/support/zoo_models.h"
#include "tools/options/growth_limits.h"
#include "tools/process/read_source.h"

using namespace gpuplan;
using gpuplan::testing::spec_source;
using gpuplan::tests::check_golden;

namespace {

std::int64_t sum_of(const std::vector<Change>& changes) {
  std::int64_t sum = 0;
  for (const Change& c : changes) sum += c.delta();
  return sum;
}

std::int64_t delta_of(const Differences& d, Metric metric) {
  for (const Difference& total : d.totals)
    if (total.metric == metric) return total.total.delta();
  FAIL("no such total");
  return 0;
}

void check_sums(const Differences& d) {
  CHECK_EQ(sum_of(d.categories), delta_of(d, Metric::peak));
  CHECK_EQ(sum_of(d.modules), delta_of(d, Metric::peak));
  CHECK_EQ(sum_of(d.module_parameters), delta_of(d, Metric::parameters));
  CHECK_EQ(sum_of(d.module_flops), delta_of(d, Metric::step_flops));
}

std::string error_of(const auto& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.render();
  }
  return "";
}

bool says(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

// Round numbers in whole MiB, as of a sequence that has become longer.
DiffReport example() {
  constexpr std::int64_t kMiB = 1 << 20;
  Figures base;
  base.model = "gpt2";
  base.allocated_bytes = 9 * 1024 * kMiB;
  base.reserved_bytes = 10 * 1024 * kMiB;
  base.device_bytes = base.reserved_bytes + 512 * kMiB;
  base.parameters = 124'439'808;
  base.step_flops = 7'040'000'000'000;
  base.categories = {{"activations", 7000 * kMiB}, {"optimizer_state", 2000 * kMiB}, {"scratch", 216 * kMiB}};
  base.modules = {{"h", 6000 * kMiB}, {"lm_head", 1000 * kMiB}, {kEverythingElse, 2216 * kMiB}};
  base.module_parameters = {{"wte", 38'597'376}, {"wpe", 786'432}, {"h", 85'054'464}, {"ln_f", 1'536}};
  base.module_flops = {{"h", 5'000'000'000'000}, {"lm_head", 2'040'000'000'000}};
  base.run = {{"mode", "train"}, {"batch", "8"}, {"precision", "fp32"}, {"optimizer", "adam"}, {"gpu", "none"}};
  Figures now = base;
  now.allocated_bytes += 2503 * kMiB;
  now.reserved_bytes += 2560 * kMiB;
  now.device_bytes += 2560 * kMiB;
  now.parameters = 124'833'024;
  now.step_flops = 11'280'000'000'000;
  now.categories[0].value += 2500 * kMiB;
  now.categories[1].value += 3 * kMiB;
  now.modules[0].value += 2000 * kMiB;
  now.modules[1].value += 500 * kMiB;
  now.modules[2].value += 3 * kMiB;
  now.module_parameters[1].value += 393'216;
  now.module_flops[0].value = 8'220'000'000'000;
  now.module_flops[1].value = 3'060'000'000'000;
  DiffReport report;
  report.base = {
      "3f2c1ab", "3f2c1ab7d3b4f6a0c9e8d7f6a5b4c3d2e1f00112", "merge base of origin/main", "configs/gpt2.yaml", false,
      base};
  report.now = {"working tree", "", "", "configs/gpt2.yaml", false, now};
  report.differences = differences(base, now);
  report.causes_known = true;
  report.causes = {{Cause::Kind::changed,
                    "vars.seq",
                    "1024",
                    "1536",
                    {"configs/gpt2.yaml", 6, 8, 4, "  seq: 1536"},
                    {"3f2c1ab:configs/gpt2.yaml", 6, 8, 4, "  seq: 1024"}},
                   {Cause::Kind::removed,
                    "layers.drop",
                    "Dropout(0.1)",
                    "",
                    {"configs/gpt2.yaml", 31, 5, 1, "  - ln_f: LayerNorm(768)"},
                    {"3f2c1ab:configs/gpt2.yaml", 31, 5, 4, "  - drop: Dropout(0.1)"}}};
  report.effects = Attribution{{{{0}, 2560 * kMiB}, {{1}, -60 * kMiB}}, 3 * kMiB};
  for (const char* text : {"peak +25%", "params +1M"}) {
    const GrowthLimit limit = read_growth_limit(text);
    const auto& totals = report.differences->totals;
    const auto total = std::ranges::find(totals, limit.metric, &Difference::metric)->total;
    report.limits.push_back({limit, total, exceeds(total, limit)});
  }
  return report;
}

}  // namespace

TEST_CASE("rows sum to the difference of their totals, on every model of the zoo") {
  std::optional<Figures> before;
  for (const std::string& name : zoo_names()) {
    INFO(name);
    RunConfig run;
    run.batch = 2;
    const Model model = zoo_model(name);
    const Figures small = figures_of(plan(model, make_catalog(), run));
    run.optimizer.kind = OptimizerKind::adam;
    run.batch = 3;
    const Figures large = figures_of(plan(model, make_catalog(), run));
    check_sums(differences(small, large));
    check_sums(differences(large, small));
    if (before) check_sums(differences(*before, small));
    CHECK_FALSE(differences(small, small).any());
    CHECK(differences(small, small).categories.empty());
    before = small;
  }
}

TEST_CASE("a saved plan has the figures of the plan") {
  RunConfig run;
  run.batch = 4;
  const Report report = plan(zoo_model("resnet18"), make_catalog(), run);
  const Figures figures = figures_of(report);
  const SavedFigures saved = read_figures(*spec_source(report_json(report, "1.2.3"), "plan.json"));
  CHECK_EQ(saved.version, "1.2.3");
  CHECK_EQ(saved.schema, "gpuplan.plan/1");
  const Differences d = differences(figures, saved.figures);
  CHECK_EQ(d.totals.size(), 5);
  CHECK_FALSE(d.any());
  CHECK(d.categories.empty());
  CHECK(d.modules.empty());
  CHECK(d.module_parameters.empty());
  CHECK(d.module_flops.empty());
  CHECK(run_changes(figures, saved.figures).empty());
}

TEST_CASE("a recorded run has its peaks and what was alive, and a rest that makes it whole") {
  const char* const text =
      R"({"schema": "gpuplan.shadow/1", "tool": {"name": "gpuplan", "version": "0.1.0"}, "gpu": "h100",
          "command": ["python", "train.py"],
          "peak": {"allocated_bytes": 100, "requested_bytes": 90, "reserved_bytes": 200, "device_bytes": 300},
          "alive": {"categories": [{"category": "parameters", "bytes": 60}], "lines": []}})";
  const Figures f = read_figures(*spec_source(text)).figures;
  CHECK_EQ(f.model, "python train.py");
  CHECK_EQ(f.allocated_bytes, 100);
  REQUIRE_EQ(f.categories.size(), 2);
  CHECK_EQ(f.categories[1].name, kEverythingElse);
  CHECK_EQ(f.categories[1].value, 40);
  CHECK_FALSE(f.parameters.has_value());
  CHECK_EQ(differences(f, f).totals.size(), 3);
}

TEST_CASE("what is no saved plan is refused with its place or its key") {
  const std::pair<const char*, const char*> files[] = {
      {"{\n  \"schema\": \"gpuplan.plan/1\",,\n", "plan.json:2:30"},
      {"[]", "no schema of gpuplan"},
      {"{\"schema\": 3}", "no schema of gpuplan"},
      {"{\"schema\": \"gpuplan.fit/1\"}", "gpuplan.fit/1"},
      {"{\"schema\": \"gpuplan.plan/1\"}", "peak.allocated_bytes"},
      {R"({"schema": "gpuplan.plan/1", "peak": {"allocated_bytes": -1}})", "peak.allocated_bytes"},
      {R"({"schema": "gpuplan.plan/1", "peak": {"allocated_bytes": 1.5}})", "peak.allocated_bytes"},
      {R"({"schema": "gpuplan.plan/1", "peak": {"allocated_bytes": "8"}})", "peak.allocated_bytes"},
      {R"({"schema": "gpuplan.plan/1", "peak": {"allocated_bytes": 99999999999999999999}})", "peak.allocated_bytes"},
      {R"({"schema": "gpuplan.plan/1", "peak": 3})", "peak.allocated_bytes"}};
  for (const auto& file : files) {
    INFO(file.first);
    const std::string error = error_of([&] { read_figures(*spec_source(file.first, "plan.json")); });
    CHECK(says(error, file.second));
    CHECK(says(error, "plan.json"));
  }
  const std::string large = R"({"schema": "gpuplan.shadow/1", "peak": {"allocated_bytes": 1, "reserved_bytes": 1,
      "device_bytes": 1}, "alive": {"categories": [{"category": "a", "bytes": 4611686018427387904},
      {"category": "b", "bytes": 4611686018427387904}]}})";
  CHECK(says(error_of([&] { read_figures(*spec_source(large)); }), "64 bits"));
}

TEST_CASE("a change in percent is that of the base") {
  CHECK_EQ(percent_text({"", 1000, 1427}), "+42.7 %");
  CHECK_EQ(percent_text({"", 1427, 1000}), "-29.9 %");  // 427 / 1427
  CHECK_EQ(percent_text({"", 8, 0}), "-100.0 %");
  CHECK_EQ(percent_text({"", 0, 8}), "new");
  CHECK_EQ(percent_text({"", 0, 0}), "0.0 %");
  CHECK_EQ(percent_text({"", 5, 5}), "0.0 %");
  CHECK_EQ(percent_text({"", 1'000'000, 1'000'001}), "+0.0 %");
  CHECK_EQ(percent_text({"", 1'000'000, 999'999}), "-0.0 %");
  CHECK_EQ(percent_text({"", 2000, 2001}), "+0.1 %");  // 0.05 %, half away from zero
  constexpr std::int64_t kLarge = std::int64_t{1} << 62;
  CHECK_EQ(percent_text({"", kLarge, kLarge + kLarge / 2}), "+50.0 %");
  CHECK_EQ(percent_text({"", 1, 1001}), "+100000.0 %");
}

TEST_CASE("rounded rows of both signs sum to the rounded total") {
  const std::vector<std::vector<std::int64_t>> lists = {
      {33, 33, 34}, {-33, -33, -34}, {5, -5}, {149, -51, 7, -3}, {14, 14, 14, -14, -28}, {}, {1, 1, 1, 1, 1, 1}};
  for (const std::vector<std::int64_t>& values : lists) {
    const std::vector<std::int64_t> tenths = signed_tenths_that_sum(values, 100);
    std::int64_t sum = 0, total = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      sum += tenths[i];
      total += values[i];
      CHECK_LE(std::abs(10 * tenths[i] - values[i]), 10);  // less than a tenth away from the value
    }
    CHECK_EQ(sum, in_tenths(total, 100));
  }
}

TEST_CASE("a limit of growth is exact at its edge") {
  const auto exceeded = [](const char* limit, std::int64_t base, std::int64_t now) {
    return exceeds({"", base, now}, read_growth_limit(limit));
  };
  CHECK_FALSE(exceeded("peak +5%", 1000, 1050));
  CHECK(exceeded("peak +5%", 1000, 1051));
  CHECK_FALSE(exceeded("peak +0.05 %", 2000, 2001));
  CHECK(exceeded("peak +0.0499%", 2000, 2001));
  CHECK_FALSE(exceeded("peak +0%", 1000, 1000));
  CHECK(exceeded("peak+0%", 1000, 1001));
  CHECK_FALSE(exceeded("peak +0%", 1000, 1));
  CHECK(exceeded("peak +500%", 0, 1));
  CHECK_FALSE(exceeded("peak +1KiB", 0, 1024));
  CHECK(exceeded("device +1 KiB", 0, 1025));
  CHECK_FALSE(exceeded("params +1.5K", 0, 1500));
  CHECK(exceeded("params +1500", 0, 1501));
  CHECK_FALSE(exceeded("flop +0.5 TFLOP", 0, 500'000'000'000));
  CHECK(exceeded("flop +0.5 TFLOP", 0, 500'000'000'001));
  CHECK_FALSE(exceeded("seconds +2ms", 0, 2'000'000));
  CHECK(exceeded("seconds +2.5us", 0, 2501));
  constexpr std::int64_t kLarge = std::int64_t{1} << 61;
  CHECK_FALSE(exceeded("peak +50%", kLarge, kLarge + kLarge / 2));
  CHECK(exceeded("peak +50%", kLarge, kLarge + kLarge / 2 + 1));
}

TEST_CASE("a limit that is not understood says what is") {
  for (const char* text : {"",
                           "peak",
                           "peak 5%",
                           "peak +",
                           "peak +%",
                           "peak +5",
                           "peak +5 %%",
                           "peak +-5%",
                           "peak +5GB5",
                           "peak +0.00001%",
                           "params +1MiB",
                           "flop +5",
                           "flop +1 FLOPs",
                           "seconds +5",
                           "seconds +1h",
                           "peek +5%",
                           "params +99999999999999999999",
                           "peak +1e3 MiB",
                           "params +.5M",
                           "params +5.M"})
    CHECK_THROWS_AS(read_growth_limit(text), Error);
  CHECK(says(error_of([] { read_growth_limit("peek +5%"); }), "did you mean \"peak\"?"));
  CHECK(says(error_of([] { read_growth_limit("peak +5"); }), "--fail-on \"peak +512MiB\""));
}

TEST_CASE("the screen of a difference") {
  const DiffReport report = example();
  check_golden("diff.txt", diff_text(report, {}));
  TextStyle ascii;
  ascii.unicode = false;
  ascii.verbose = true;
  check_golden("diff_ascii.txt", diff_text(report, ascii));
  TextStyle exact;
  exact.exact_bytes = true;
  exact.brief = true;
  CHECK(says(diff_text(report, exact), "+2,624,585,728 B"));  // 2503 MiB
}

TEST_CASE("the files of a difference") {
  const DiffReport report = example();
  check_golden("diff.md", diff_md(report, {}));
  check_golden("diff.csv", diff_csv(report));
  check_golden("diff.json", diff_json(report, "0.0.0"));
  const nlohmann::json schema = nlohmann::json::parse(diff_json_schema());
  tests::check_against(schema, nlohmann::json::parse(diff_json(report, "0.0.0")), "diff");
  DiffReport new_model = example();
  new_model.base.figures.reset();
  new_model.differences.reset();
  new_model.causes_known = false;
  tests::check_against(schema, nlohmann::json::parse(diff_json(new_model, "0.0.0")), "diff");
  CHECK(new_model.differs());
}

TEST_CASE("a model that only one side has is said, with its figures") {
  DiffReport report = example();
  report.differences.reset();
  report.limits.clear();
  report.base.figures.reset();
  report.base.file.clear();
  check_golden("diff_new.txt", diff_text(report, {}));
  CHECK(says(diff_md(report, {}), "new model, peak 11.4 GiB"));  // 9216 + 2503 MiB
  CHECK_EQ(diff_csv(report), "section,name,unit,base,now,delta\n");
  std::swap(report.base, report.now);
  CHECK(says(diff_text(report, {}), "deleted model"));
}

TEST_CASE("hostile names stay names in every format") {
  DiffReport report = example();
  const std::string hostile = "a\nb\x1b[31m|`x`<img src=x>@me [y](z)\r::error::";
  report.now.file = report.base.file = report.causes[0].at.file = hostile;
  report.causes[0].to = hostile;
  report.differences->modules[0].name = hostile;
  const std::string text = diff_text(report, {});
  CHECK_FALSE(says(text, "\x1b"));
  CHECK_FALSE(says(text, "a\nb"));
  CHECK_FALSE(says(text, "\r"));
  const std::string md = diff_md(report, {});
  CHECK_FALSE(says(md, "a\nb"));
  CHECK_FALSE(says(md, " <img"));
  CHECK(says(md,
             "&lt;img src=x&gt;@\xe2\x80\x8b"
             "me \\[y\\]\\(z\\)"));
  CHECK(says(md, "`` a b [31m\\|`x`<img src=x>@me [y](z) ::error:::6 ``"));
  CHECK_EQ(nlohmann::json::parse(diff_json(report, "0"))["now"]["file"], hostile);
  report.base.renamed = true;
  report.base.rule = "to`p`ic";
  CHECK(says(diff_md(report, {}), "(to\\`p\\`ic), then `` a b [31m"));
  CHECK(says(diff_text(report, {}), " (a b [31m|`x`<img src=x>@me [y](z) ::error:: at 3f2c1ab)"));
  CHECK_EQ(markdown_code("a``b"), "``` a``b ```");
  CHECK_EQ(markdown_code("plain"), "`plain`");
}

TEST_CASE("beside a run: phases side by side, and allocations of a size that one side has more of") {
  Figures planned, recorded;
  planned.model = recorded.model = "net";
  planned.allocated_bytes = 100;
  recorded.allocated_bytes = 130;
  planned.phases = {{"forward", 70}, {"backward", 100}};
  recorded.phases = {{"forward", 75}, {"backward", 130}};
  planned.tensors = {{"fc1", 40}, {"fc2", 40}, {"fc2", 20}};
  recorded.tensors = {{"net.py:3 forward", 40}, {"net.py:4 forward", 40}, {"net.py:9 step", 50}};
  const Differences d = differences(planned, recorded);
  REQUIRE_EQ(d.phases.size(), 2);
  CHECK_EQ(d.phases[1].delta(), 30);
  REQUIRE_EQ(d.tensors.size(), 2);  // both have two of 40 bytes
  CHECK_EQ(d.tensors[0].bytes, 50);
  CHECK_EQ(d.tensors[0].now_where, "net.py:9 step");
  CHECK_EQ(d.tensors[1].delta_bytes(), -20);
  DiffReport report;
  report.base.figures = planned;
  report.now.figures = recorded;
  report.differences = d;
  const std::string text = diff_text(report, {});
  CHECK(testing::contains(text, "on one side only"));
  CHECK(testing::contains(text, "net.py:9 step"));
  CHECK(testing::contains(diff_json(report, "0"), "\"tensor_bytes\": 50"));
  CHECK(testing::contains(diff_csv(report), "tensors on one side,net.py:9 step,tensors of 50 B,0,1,1\n"));
  CHECK(testing::contains(diff_md(report, {}), "net.py:9 step"));
  planned.tensors.clear();  // of a saved plan they are not known
  CHECK(differences(planned, recorded).tensors.empty());
}

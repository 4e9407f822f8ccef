// `notes:` and `differs:` of a spec: what it lacks and where it is not PyTorch's, said in warnings of its plans.
#include <doctest/doctest.h>

#include <algorithm>

#include "estimator/plan/plan.h"
#include "estimator/spec/canonical.h"
#include "layers/catalog.h"
#include "tests/support/test_spec.h"

namespace gpuplan {
namespace {

std::string spec(const std::string& notes) {
  return testing::with_layers("  - Linear(4, 4)\n", "notes: " + notes + "\n");
}

bool warns(const std::string& notes, DType precision, std::optional<DType> autocast = std::nullopt) {
  RunConfig run;
  run.precision = precision;
  run.autocast = autocast;
  const Report report = plan(testing::read_spec(spec(notes)), make_catalog(), run);
  return std::ranges::find(report.warnings, "a branch") != report.warnings.end();
}

}  // namespace

TEST_CASE("a note is a warning of every plan, and of one type a warning of plans that compute in it") {
  CHECK(warns("[a branch]", DType::fp32));
  CHECK_FALSE(warns("[{fp16: a branch}]", DType::fp32));
  CHECK_FALSE(warns("[{fp16: a branch}]", DType::fp32, DType::bf16));
  CHECK(warns("[{fp16: a branch}]", DType::fp16));
  CHECK(warns("[{bf16: a branch}]", DType::fp32, DType::bf16));
}

TEST_CASE("a spec that was exported for a type says so in plans of another one") {
  const auto warned = [](DType precision, std::optional<DType> autocast, const std::string& type = "") {
    RunConfig run;
    run.precision = precision;
    run.autocast = autocast;
    const std::string text = testing::with_layers("  - Linear(4, 4)\n", "exported_for: amp-bf16\n");
    const Report report = plan(testing::read_spec(text), make_catalog(), run);
    return std::ranges::any_of(report.warnings, [&](const std::string& warning) {
      return testing::contains(warning, "what code of the model that asks for its type does in " + type) &&
             testing::contains(warning, "it was exported for autocast to bf16");
    });
  };
  CHECK(warned(DType::fp32, std::nullopt, "fp32;"));
  CHECK(warned(DType::bf16, std::nullopt, "bf16;"));
  CHECK(warned(DType::fp32, DType::fp16, "autocast to fp16;"));
  CHECK_FALSE(warned(DType::fp32, DType::bf16));
  const std::string wrong = testing::with_layers("  - Linear(4, 4)\n", "exported_for: amp-bf61\n");
  CHECK(testing::contains(testing::error_of(wrong), "did you mean \"amp-bf16\"?"));
}

TEST_CASE("the canonical text has the notes") {
  const std::string canonical = canonical_yaml(testing::read_spec(spec("[a branch, {fp16: \"it's: another\"}]")));
  const Model again = testing::read_spec(canonical);
  REQUIRE(again.notes.size() == 2);
  CHECK(again.notes[0].text == "a branch");
  CHECK(again.notes[1].text == "it's: another");
  CHECK(again.notes[1].of == DType::fp16);
}

TEST_CASE("a note of another type, or of two, is an error") {
  CHECK(testing::contains(testing::error_of(spec("[{fp8: a branch}]")), "fp8"));
  CHECK(testing::contains(testing::error_of(spec("[{fp16: a, bf16: b}]")), "{fp16: TEXT}"));
  CHECK(testing::contains(testing::error_of(spec("[{}]")), "{fp16: TEXT}"));
  CHECK(testing::contains(testing::error_of(spec("[[a]]")), "note"));
}

TEST_CASE("what a spec differs in is a warning of plans in that mode, and not of a spec that extends it") {
  const auto differs = [](const std::string& map) {
    return testing::with_layers("  - Linear(4, 4)\n", "differs: " + map + "\n");
  };
  const auto warns_in = [&](Mode mode) {
    RunConfig run;
    run.mode = mode;
    const Report report = plan(testing::read_spec(differs("{train: not equal}")), make_catalog(), run);
    return std::ranges::find(report.warnings, "not equal") != report.warnings.end();
  };
  CHECK(warns_in(Mode::train));
  CHECK_FALSE(warns_in(Mode::infer));
  CHECK(testing::read_spec(differs("{infer: a, train: b}")).differs.size() == 2);
  CHECK(testing::contains(testing::error_of(differs("not equal")), "{train: TEXT, infer: TEXT}"));
  CHECK(testing::contains(testing::error_of(differs("{eval: a}")), "infer"));
  CHECK(testing::contains(testing::error_of(differs("{train: [a]}")), "difference"));
}

}  // namespace gpuplan

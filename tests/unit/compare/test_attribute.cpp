// What each of several changes does by itself: sums by definition, and models that were edited by hand.
#include <doctest/doctest.h>

#include <map>

#include "estimator/compare/attribute.h"
#include "estimator/compare/cause_models.h"
#include "estimator/plan/plan.h"
#include "layers/catalog.h"
#include "tests/support/test_spec.h"

using namespace gpuplan;
using namespace gpuplan::testing;

namespace {

// "0+2: 30" one an effect, then "together 5".
std::string text_of(const Attribution& attribution) {
  std::string out;
  for (const Effect& effect : attribution.effects) {
    std::string numbers;
    for (const std::size_t i : effect.changes) numbers += (numbers.empty() ? "" : "+") + std::to_string(i);
    out += numbers + ": " + std::to_string(effect.delta) + "\n";
  }
  return out + "together " + std::to_string(attribution.together) + "\n";
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), with);
}

std::int64_t peak_of(const Model& model) {
  RunConfig run;
  run.batch = 4;
  return plan(model, make_catalog(), run).peak.reading.allocated_bytes;
}

std::int64_t peak_of(const std::string& text) { return peak_of(read_model(spec_source(text, "hand.yaml"))); }

struct Edit {
  std::string what, with;
};

// The effects of edits, and beside them those of the same edits made by hand, one at a time.
struct Outcome {
  Attribution attribution;
  std::vector<Cause> causes;
  std::int64_t base = 0, now = 0;
};
Outcome outcome_of(const std::string& text, const std::vector<Edit>& edits) {
  std::string after = text;
  for (const Edit& edit : edits) after = replaced(after, edit.what, edit.with);
  const WrittenModel base{spec_source(text, "base.yaml"), {}}, now{spec_source(after, "now.yaml"), {}};
  Outcome outcome;
  outcome.causes = causes(base, now, make_catalog());
  const CauseModels models(base, now, outcome.causes);
  outcome.base = peak_of(text);
  outcome.now = peak_of(after);
  const auto peak = [](const Model& model) { return peak_of(model); };
  outcome.attribution = attribute(outcome.causes.size(), outcome.base, outcome.now,
                                  [&](const std::vector<bool>& made) { return models.amount(made, {}, peak); });
  return outcome;
}

const std::string kNet =
    "gpuplan: 1\n"
    "vars: {wide: 256, unused: 1}\n"
    "input: {shape: [128]}\n"
    "blocks:\n"
    "  Unit:\n"
    "    params: {n: required}\n"
    "    layers:\n"
    "      - a: Linear(_, $n)\n"
    "      - ReLU()\n"
    "layers:\n"
    "  - units: {block: Unit, repeat: 2, with: {n: $wide}}\n"
    "  - middle: Linear(_, 512, bias=False)\n"
    "  - third: Linear(512, 1024)\n"
    "  - fourth: Linear(1024, 64)\n"
    "  - head: Linear(_, 10)\n";

}  // namespace

TEST_CASE("what cannot be planned with anything does not keep others from being planned together") {
  // 0 and 2 are a layer's output and another's input, 1 is of a line that needs all three.
  const auto trial = [](const std::vector<bool>& made) -> std::optional<std::int64_t> {
    if (made[0] != made[2]) return std::nullopt;
    if (made[1] && (!made[0] || !made[3])) return std::nullopt;
    if (made[3] && !made[1]) return std::nullopt;
    return 100 + (made[0] ? 10 : 0) + (made[1] ? 5 : 0);
  };
  // 0 + 1, 0 + 1 + 2 and so on cannot be, all four can: they are one.
  CHECK_EQ(text_of(attribute(4, 100, 115, trial)), "0+1+2+3: 15\ntogether 0\n");
  // 1 is planned with nothing but everything, of which 3 is a part that no trial makes: 0 and 2 are a pair.
  const auto never = [](const std::vector<bool>& made) -> std::optional<std::int64_t> {
    if (made[0] != made[2] || made[1]) return std::nullopt;
    return 100 + (made[0] ? 10 : 0);
  };
  CHECK_EQ(text_of(attribute(3, 100, 115, never)), "0+2: 10\ntogether 5\n");
}

TEST_CASE("effects and what is done only together sum to the difference") {
  // 10 a, 7 b, 3 more where both: an interaction.
  const auto both = [](const std::vector<bool>& made) -> std::optional<std::int64_t> {
    return 100 + (made[0] ? 10 : 0) + (made[1] ? 7 : 0) + (made[0] && made[1] ? 3 : 0);
  };
  CHECK_EQ(text_of(attribute(2, 100, 120, both)), "0: 10\n1: 7\ntogether 3\n");
  // 1 and 2 cannot be without each other; 3 only with both of them and 0, which has no effect of its own.
  const auto dependent = [](const std::vector<bool>& made) -> std::optional<std::int64_t> {
    if (made[1] != made[2] || (made[3] && !(made[0] && made[1]))) return std::nullopt;
    return (made[1] ? 40 : 0) + (made[3] ? 2 : 0);
  };
  CHECK_EQ(text_of(attribute(4, 0, 42, dependent)), "0: 0\n1+2+3: 42\ntogether 0\n");
  const auto never = [](const std::vector<bool>&) -> std::optional<std::int64_t> { return std::nullopt; };
  CHECK_EQ(text_of(attribute(2, 5, 9, never)), "together 4\n");
  CHECK_EQ(text_of(attribute(0, 5, 5, never)), "together 0\n");
}

TEST_CASE("a change costs by itself what the same edit by hand does") {
  const std::vector<Edit> edits = {{"wide: 256", "wide: 512"},
                                   {"repeat: 2", "repeat: 5"},
                                   {"bias=False", "bias=True"},
                                   {"  - head: Linear(_, 10)\n", "  - ReLU()\n  - head: Linear(_, 100)\n"}};
  const Outcome outcome = outcome_of(kNet, edits);
  REQUIRE_EQ(outcome.causes.size(), 5);  // the last edit is two: a layer that came, a size that changed
  std::map<std::string, std::int64_t> by_hand = {
      {"vars.wide", peak_of(replaced(kNet, edits[0].what, edits[0].with))},
      {"layers.units.repeat", peak_of(replaced(kNet, edits[1].what, edits[1].with))},
      {"layers.middle.bias", peak_of(replaced(kNet, edits[2].what, edits[2].with))},
      {"layers.4", peak_of(replaced(kNet, "  - head", "  - ReLU()\n  - head"))},
      {"layers.head.out_features", peak_of(replaced(kNet, "(_, 10)", "(_, 100)"))}};
  std::int64_t sum = outcome.attribution.together;
  REQUIRE_EQ(outcome.attribution.effects.size(), 5);
  for (const Effect& effect : outcome.attribution.effects) {
    REQUIRE_EQ(effect.changes.size(), 1);
    const std::string& what = outcome.causes[effect.changes[0]].what;
    INFO(what);
    REQUIRE(by_hand.contains(what));
    CHECK_EQ(effect.delta, by_hand[what] - outcome.base);
    sum += effect.delta;
  }
  CHECK_EQ(sum, outcome.now - outcome.base);
}

TEST_CASE("changes that need each other are one effect") {
  // A layer's output and the next one's input; and a size by itself.
  const Outcome outcome =
      outcome_of(kNet, {{"(512, 1024)", "(512, 2048)"}, {"(1024, 64)", "(2048, 64)"}, {"wide: 256", "wide: 128"}});
  REQUIRE_EQ(outcome.causes.size(), 3);
  REQUIRE_EQ(outcome.attribution.effects.size(), 2);
  const Effect& pair = outcome.attribution.effects[1];
  CHECK_EQ(pair.changes, std::vector<std::size_t>{1, 2});
  const std::string wider = replaced(replaced(kNet, "(512, 1024)", "(512, 2048)"), "(1024, 64)", "(2048, 64)");
  CHECK_EQ(pair.delta, peak_of(wider) - outcome.base);

  // A variable that the change needs costs nothing by itself; a block that nothing calls yet is no cause.
  const Outcome named = outcome_of(
      kNet,
      {{"unused: 1", "unused: 1, more: 2048"},
       {"bias=False)", "bias=False)\n  - extra: {block: Two}"},
       {"layers:\n  - units", "  Two:\n    layers: [\"Linear(_, $more)\", \"Linear(_, 512)\"]\nlayers:\n  - units"}});
  std::int64_t most = 0;
  for (const Effect& effect : named.attribution.effects) most = std::max(most, effect.delta);
  CHECK_EQ(most, named.now - named.base);
}

TEST_CASE("with all of its edits the mix is the other model, with none the base") {
  const std::string other =
      "gpuplan: 1\n"
      "vars: {wide: 128}\n"
      "input: {shape: [64]}\n"
      "layers:\n"
      "  - middle: {op: Linear, in_features: _, out_features: $wide}\n"
      "  - parallel:\n"
      "      branches: {left: [ReLU()], right: [Tanh()]}\n"
      "      join: add\n"
      "  - head: Linear(_, 7)\n"
      "loss: mean\n";
  const WrittenModel base{spec_source(kNet, "base.yaml"), {}}, now{spec_source(other, "now.yaml"), {}};
  for (const bool swapped : {false, true}) {
    const MixedSpec spec(swapped ? now : base, swapped ? base : now);
    const std::vector<bool> none(spec.edits(), false), all(spec.edits(), true);
    CHECK_EQ(peak_of(spec.with(none, {})), peak_of(swapped ? other : kNet));
    CHECK_EQ(peak_of(spec.with(all, {})), peak_of(swapped ? kNet : other));
  }
  CHECK_EQ(MixedSpec(base, base).edits(), 0);
}

TEST_CASE("base and head may extend the same file") {
  const auto opened = [](std::string_view name, std::string_view) {
    return spec_source("name: small\ninput: [8]\nlayers:\n  - Linear(8, 4)\nloss: cross_entropy\n", std::string(name));
  };
  SpecOptions options;
  options.open = opened;
  const WrittenModel base{spec_source("extends: small.yaml\nname: a\n", "base.yaml"), options},
      now{spec_source("extends: small.yaml\nname: b\n", "now.yaml"), options};
  CHECK_NOTHROW(CauseModels(base, now, {}));
}

// The canonical form reads back to an equal model; the JSON Schema is JSON.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "estimator/spec/canonical.h"
#include "estimator/spec/schema.h"
#include "tests/support/test_spec.h"
#include "tests/support/zoo_models.h"

using namespace gpuplan;
using namespace gpuplan::testing;

namespace {

bool equal(const LayerCall& a, const LayerCall& b) {
  if (a.type != b.type || a.arguments.size() != b.arguments.size()) return false;
  for (std::size_t i = 0; i < a.arguments.size(); ++i)
    if (a.arguments[i].name != b.arguments[i].name || !(a.arguments[i].value == b.arguments[i].value)) return false;
  return true;
}

bool equal(const Body& a, const Body& b);
bool equal(const Block& a, const Block& b) { return a.block == b.block && equal(a.body, b.body); }
bool equal(const Repeat& a, const Repeat& b) { return equal(a.items, b.items); }
bool equal(const Residual& a, const Residual& b) {
  return equal(a.body, b.body) && equal(a.shortcut, b.shortcut) && a.inplace == b.inplace &&
         a.shortcut_first == b.shortcut_first;
}
bool equal(const Parallel& a, const Parallel& b) {
  if (a.join != b.join || a.dim != b.dim || a.branches.size() != b.branches.size()) return false;
  for (std::size_t i = 0; i < a.branches.size(); ++i)
    if (a.branches[i].name != b.branches[i].name || !equal(a.branches[i].body, b.branches[i].body)) return false;
  return true;
}

bool equal(const Node& a, const Node& b) {
  if (a.name != b.name || a.named != b.named || a.from != b.from || a.tie != b.tie || a.frozen != b.frozen ||
      a.checkpoint != b.checkpoint || a.keep != b.keep || a.when != b.when || a.what.index() != b.what.index())
    return false;
  return std::visit([&](const auto& what) { return equal(what, std::get<std::decay_t<decltype(what)>>(b.what)); },
                    a.what);
}

bool equal(const Body& a, const Body& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!equal(a[i], b[i])) return false;
  return true;
}

void check_round_trip(const Model& model) {
  const Model again = read_spec(canonical_yaml(model));
  CHECK(again.name == model.name);
  CHECK(equal(again.layers, model.layers));
  CHECK(equal(again.loss, model.loss));
  REQUIRE(again.inputs.size() == model.inputs.size());
  for (std::size_t i = 0; i < model.inputs.size(); ++i) {
    CHECK(again.inputs[i].name == model.inputs[i].name);
    CHECK(again.inputs[i].shape == model.inputs[i].shape);
    CHECK(again.inputs[i].dtype == model.inputs[i].dtype);
    CHECK(again.inputs[i].requires_grad == model.inputs[i].requires_grad);
  }
  REQUIRE(again.vars.size() == model.vars.size());
  for (std::size_t i = 0; i < model.vars.size(); ++i) CHECK(again.vars[i].value == model.vars[i].value);
}

}  // namespace

TEST_CASE("the canonical form of every zoo model reads back to an equal model") {
  int models = 0;
  for (const auto& file : std::filesystem::directory_iterator(GPUPLAN_SOURCE_DIR "/configs/models")) {
    if (file.path().extension() != ".yaml") continue;
    CAPTURE(file.path().string());
    check_round_trip(zoo_model(file.path().stem().string()));
    ++models;
  }
  CHECK(models >= 20);
}

TEST_CASE("the canonical form keeps every structure, modifier and kind of value") {
  const char* text = R"yaml(
gpuplan: 1
name: "a \"b\": c"
vars: {n: 2, t: true}
inputs: {x: {shape: [4, 4], requires_grad: true}, null_: {shape: [], dtype: int64}}
blocks:
  B:
    params: {p: 0.5}
    layers:
      - drop: Dropout($p)
      - residual: [A(), {op: C(), from: input}]
layers:
  - a: Op(1.0, -2, 1e-30, None, _, (1,), (), ((1, 2), 'x'), t='True', u='\\')
  - b: "Op(s='it\\'s: #1', t='\t\n')"
  - {name: from, op: Add(), from: [a, x]}
  - {name: yes, op: Linear, in: 4, tie: a, frozen: true}
  - {block: B, repeat: 2, checkpoint: true}
  - r:
      residual: {inplace: true, body: [A()], shortcut: [B()]}
  - {op: A(), if: false}
  - {op: A(), when: train, keep: true}
  - {block: B, when: infer}
  - {op: A(), autocast: false}
  - {op: A(), grad: false}
  - residual:
      shortcut: [B()]
      body: [A()]
  - residual:
      shortcut: {if: false, layers: [B()]}
      body: [A()]
  - parallel: {join: add, branches: [[A(), q: C()], []]}
  - parallel: {dim: -1, branches: {l: [A()], '0': []}}
  - '12': {layers: []}
loss: MSELoss(reduction='sum')
)yaml";
  check_round_trip(read_spec(text));
}

TEST_CASE("the canonical form is expanded: no variable, repeat or condition is left") {
  const std::string text = canonical_yaml(read_spec(with_layers(
      "  - l: {block: B, repeat: 2, first: {c: 3}}\n", "blocks:\n  B: {params: {c: 5}, layers: ['Op($c)']}\n")));
  CHECK(text ==
        "gpuplan: 1\n"
        "name: test\n"
        "input: {shape: [4]}\n"
        "layers:\n"
        "  - name: l\n"
        "    layers:\n"
        "      - block: B\n"
        "        layers:\n"
        "          - Op(3)\n"
        "      - block: B\n"
        "        layers:\n"
        "          - Op(5)\n"
        "loss: CrossEntropyLoss()\n");
}

TEST_CASE("the JSON Schema is JSON, has the keys of the format, and offers the layers given") {
  const auto schema = nlohmann::json::parse(model_json_schema({"Linear", "ReLU"}));
  for (const char* key : {"gpuplan", "name", "extends", "vars", "input", "inputs", "blocks", "layers", "loss"})
    CHECK(schema.at("properties").contains(key));
  CHECK(schema.at("$defs").at("type").at("anyOf").at(1).at("enum") == nlohmann::json::array({"Linear", "ReLU"}));
  CHECK(nlohmann::json::parse(model_json_schema()).is_object());
}

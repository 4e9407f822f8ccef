// What changed between two specs, and where: the line that was edited and no other.
#include <doctest/doctest.h>

#include <map>

#include "estimator/compare/causes.h"
#include "layers/catalog.h"
#include "tests/support/test_spec.h"

using namespace gpuplan;
using namespace gpuplan::testing;

namespace {

std::vector<Cause> causes_of(const std::string& base, const std::string& now, const SpecOptions& options = {}) {
  return causes({spec_source(base, "base.yaml"), options}, {spec_source(now, "now.yaml"), options}, make_catalog());
}

// "now.yaml:4 vars.n: 8 -> 9", one a line.
std::string text_of(const std::vector<Cause>& list) {
  constexpr const char* kKinds[] = {"changed", "added", "removed", "moved"};
  std::string out;
  for (const Cause& c : list)
    out += c.at.file + ":" + std::to_string(c.at.line) + " " + kKinds[static_cast<int>(c.kind)] + " " + c.what + ": " +
           c.from + " -> " + c.to + "\n";
  return out;
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), with);
}

const std::string kModel =
    "gpuplan: 1\n"
    "vars: {n: 8, m: 4}\n"
    "input: {shape: [3, 8, 8]}\n"
    "blocks:\n"
    "  Unit:\n"
    "    params: {c: required, stride: 1}\n"
    "    layers:\n"
    "      - residual:\n"
    "          body:\n"
    "            - conv: Conv2d(_, $c, 3, stride=$stride, padding=1)\n"
    "            - bn: BatchNorm2d(_)\n"
    "          shortcut:\n"
    "            - down: Conv2d(_, $c, 1, stride=$stride)\n"
    "      - ReLU()\n"
    "  Unused:\n"
    "    layers: [Tanh()]\n"
    "layers:\n"
    "  - stem: Conv2d(3, $n, 3, padding=1)\n"
    "  - body: {block: Unit, repeat: 3, with: {c: $n}, first: {stride: 2}}\n"
    "  - join:\n"
    "      parallel:\n"
    "        branches: {left: [ReLU()], right: [Tanh()]}\n"
    "        join: add\n"
    "  - Flatten()\n"
    "  - fc: Linear(_, ${2 * m})\n";

}  // namespace

TEST_CASE("what is written otherwise and means the same is no cause") {
  const std::pair<const char*, const char*> edits[] = {
      {"vars: {n: 8, m: 4}\n", "# sizes\nvars:\n  m: 4   # and this\n  n: 8\n"},
      {"Conv2d(3, $n, 3, padding=1)", "nn.Conv2d( in_channels=3,out_channels=${n}, kernel_size=(3, 3), padding = 1 )"},
      {"Conv2d(3, $n, 3, padding=1)", "Conv2d(3, $n, 3, padding=1, bias=True, stride=1)"},
      {"stem: Conv2d(3, $n, 3, padding=1)",
       "{name: stem, op: Conv2d, in_channels: 3, out_channels: $n, "
       "kernel_size: 3, padding: 1}"},
      {"${2 * m}", "${(2*m)}"},
      {"${2 * m}", "8"},  // resolved, it is the same
      {"layers: [Tanh()]", "layers: [Sigmoid()]"},
      {"      - ReLU()\n", "\n      # activation\n      - ReLU(inplace=false)\n"},
      {"repeat: 3, with: {c: $n}", "with: {c: $n}, repeat: 3"},
      {"gpuplan: 1\n", "gpuplan: 1\nname: other\n"}};
  for (const auto& edit : edits) {
    INFO(edit.second);
    CHECK_EQ(text_of(causes_of(kModel, replaced(kModel, edit.first, edit.second))), "");
  }
}

TEST_CASE("each kind of edit is said with its line, from and to") {
  struct Edit {
    const char* what;
    const char* with;
    const char* cause;
  };
  const Edit edits[] = {
      {"n: 8", "n: 16", "now.yaml:2 changed vars.n: 8 -> 16\n"},
      {"[3, 8, 8]", "[3, 16, 16]", "now.yaml:3 changed input.shape: [3, 8, 8] -> [3, 16, 16]\n"},
      {"[3, 8, 8]", "[3, 8, 8], requires_grad: true", "now.yaml:3 changed input.requires_grad: false -> true\n"},
      {"stride: 1}", "stride: 2}", "now.yaml:6 changed blocks.Unit.stride: 1 -> 2\n"},
      {"conv: Conv2d(_, $c, 3,", "conv: Conv2d(_, ${2 * c}, 3,",
       "now.yaml:10 changed blocks.Unit.residual.conv.out_channels: $c -> ${2 * c}\n"},
      {"padding=1)\n            - bn", "padding=1, bias=False)\n            - bn",
       "now.yaml:10 changed blocks.Unit.residual.conv.bias: True (default) -> False\n"},
      {", stride=$stride, padding", ", padding",
       "now.yaml:10 changed blocks.Unit.residual.conv.stride: $stride -> 1 (default)\n"},
      {"            - bn: BatchNorm2d(_)\n", "", "now.yaml:10 removed blocks.Unit.residual.bn: BatchNorm2d(_) -> \n"},
      {"          shortcut:\n            - down: Conv2d(_, $c, 1, stride=$stride)\n", "",
       "now.yaml:8 removed blocks.Unit.residual.shortcut.down: Conv2d(_, $c, 1, stride=$stride) -> \n"},
      {"      - ReLU()\n", "      - GELU()\n", "now.yaml:14 changed blocks.Unit.1: ReLU() -> GELU()\n"},
      {"      - ReLU()\n", "      - ReLU()\n      - drop: Dropout(0.1)\n",
       "now.yaml:15 added blocks.Unit.drop:  -> Dropout(0.1)\n"},
      {"stem:", "entry:", "now.yaml:18 changed layers.entry.name: stem -> entry\n"},
      {"stem: Conv2d", "stem: LazyConv2d",
       "now.yaml:18 changed layers.stem: Conv2d(3, $n, 3, padding=1) -> LazyConv2d(3, $n, 3, padding=1)\n"},
      {"repeat: 3", "repeat: 5", "now.yaml:19 changed layers.body.repeat: 3 -> 5\n"},
      {"first: {stride: 2}", "first: {stride: 1}", "now.yaml:19 changed layers.body.first.stride: 2 -> 1\n"},
      {"repeat: 3,", "repeat: 3, checkpoint: true,", "now.yaml:19 changed layers.body.checkpoint: false -> true\n"},
      {"right: [Tanh()]", "right: [GELU()]", "now.yaml:22 changed layers.join.right.0: Tanh() -> GELU()\n"},
      {"{left: [ReLU()], right: [Tanh()]}", "{right: [Tanh()], left: [ReLU()]}",
       "now.yaml:22 moved layers.join.left: a branch -> a branch\n"},
      {"join: add", "join: mul", "now.yaml:20 changed layers.join.join: add -> mul\n"},
      {"  - Flatten()\n", "  - Flatten()\n  - {name: skip, op: ReLU, from: stem}\n",
       "now.yaml:25 added layers.skip:  -> ReLU()\n"},
      {"${2 * m})\n", "${2 * m})\nloss: mean\n", "now.yaml:26 changed loss: CrossEntropyLoss() -> mean()\n"}};
  for (const Edit& edit : edits) {
    INFO(edit.with);
    CHECK_EQ(text_of(causes_of(kModel, replaced(kModel, edit.what, edit.with))), edit.cause);
  }
}

TEST_CASE("several edits are several causes in the order of the file") {
  const std::string now = replaced(replaced(kModel, "m: 4", "m: 6"), "stem: Conv2d(3, $n, 3", "stem: Conv2d(3, $n, 5");
  CHECK_EQ(text_of(causes_of(kModel, now)),
           "now.yaml:2 changed vars.m: 4 -> 6\n"
           "now.yaml:18 changed layers.stem.kernel_size: 3 -> 5\n");
}

TEST_CASE("two layers that change places are one that has moved") {
  const std::string base = with_layers("  - a: Linear(4, 4)\n  - b: ReLU()\n  - c: Tanh()\n");
  const std::string now = with_layers("  - b: ReLU()\n  - c: Tanh()\n  - a: Linear(4, 4)\n");
  CHECK_EQ(text_of(causes_of(base, now)), "now.yaml:6 moved layers.a: Linear(4, 4) -> Linear(4, 4)\n");
}

TEST_CASE("a variable that --set gives is no cause where the file changes it, and one where --set does") {
  const std::string now = replaced(kModel, "n: 8", "n: 16");
  SpecOptions set;
  set.set = {{"n", 32}};
  CHECK(causes_of(kModel, now, set).empty());
  const std::vector<Cause> list =
      causes({spec_source(kModel), {}}, {spec_source(kModel, "now.yaml"), set}, make_catalog());
  REQUIRE_EQ(list.size(), 1);
  CHECK_EQ(list[0].what, "vars.n");
  CHECK_EQ(list[0].to, "32");
  CHECK_EQ(list[0].at.line, 0);
}

TEST_CASE("a change in an extended file is shown there") {
  const std::string own = "gpuplan: 1\nextends: common.yaml\nname: own\n";
  const auto written = [&](const std::string& common) {
    WrittenModel model{spec_source(own, "own.yaml"), {}};
    model.options.open = [=](std::string_view, std::string_view) { return spec_source(common, "common.yaml"); };
    return model;
  };
  const std::string changed = replaced(kModel, "m: 4", "m: 8");
  CHECK_EQ(text_of(causes(written(kModel), written(changed), make_catalog())),
           "common.yaml:2 changed vars.m: 4 -> 8\n");
  // Moved into the file itself: nothing of the model has changed.
  CHECK(causes(written(kModel), {spec_source(kModel), {}}, make_catalog()).empty());
}

TEST_CASE("a variable that five hundred layers use is one cause") {
  std::string layers = "vars: {width: 4}\ninput: {shape: [4]}\nlayers:\n";
  for (int i = 0; i < 500; ++i) layers += "  - Linear(_, $width)\n";
  const std::string base = "gpuplan: 1\n" + layers;
  CHECK_EQ(text_of(causes_of(base, replaced(base, "width: 4", "width: 6"))), "now.yaml:2 changed vars.width: 4 -> 6\n");
}

namespace {

constexpr int kLayers = 100;
constexpr int kFirstLine = 4;  // of the layers

// Line k of a hundred: named and unnamed, some alike.
std::string layer_line(int k) {
  const std::string n = std::to_string(k), size = std::to_string(16 + k);
  switch (k % 5) {
    case 0: return "  - fc" + n + ": Linear(_, " + size + ")\n";
    case 1: return "  - ReLU()\n";
    case 2: return "  - Dropout(0.25)\n";
    case 3: return "  - Linear(_, " + size + ", bias=False)\n";
    default: return "  - {name: out" + n + ", op: Linear, in_features: _, out_features: " + size + "}\n";
  }
}

std::string hundred_layers(int line, const std::string& text) {
  std::string out = "gpuplan: 1\ninput: {shape: [16]}\nlayers:\n";
  for (int k = 0; k < kLayers; ++k) out += k == line ? text : layer_line(k);
  return out;
}

}  // namespace

TEST_CASE("an edit of any one of a hundred layers is one cause, at its line") {
  const std::string base = hundred_layers(-1, "");
  const auto one_cause = [&](const std::string& now, Cause::Kind kind) {
    const std::vector<Cause> list = causes_of(base, now);
    INFO(text_of(list));
    REQUIRE_EQ(list.size(), 1);
    CHECK(list[0].kind == kind);
    return list[0];
  };
  for (int k = 0; k < kLayers; ++k) {
    const int line = kFirstLine + k;
    const std::string written = layer_line(k);
    INFO(written);
    const auto changes_here = [&](const std::string& what, const std::string& with) {
      if (written.find(what) == std::string::npos) return;
      const Cause cause = one_cause(hundred_layers(k, replaced(written, what, with)), Cause::Kind::changed);
      CHECK_EQ(cause.at.line, line);
      CHECK_EQ(cause.was.line, line);
      CHECK_EQ(cause.at.text + "\n", replaced(written, what, with));
    };
    changes_here("Linear(_, ", "Linear(_, 9");
    changes_here("out_features: ", "out_features: 9");
    changes_here("bias=False", "bias=True");
    changes_here("0.25", "0.5");
    changes_here("ReLU", "GELU");
    changes_here("Dropout", "AlphaDropout");
    changes_here("Linear(", "LazyLinear(");
    changes_here("op: Linear", "op: LazyLinear");
    changes_here("fc", "dense");
    changes_here("name: out", "name: dense");
    CHECK_EQ(one_cause(hundred_layers(k, ""), Cause::Kind::removed).was.line, line);
    for (const char* added : {"  - added: Identity()\n", "  - Tanh()\n"})
      CHECK_EQ(one_cause(hundred_layers(k, added + written), Cause::Kind::added).at.line, line);
    CHECK(causes_of(base, hundred_layers(k, "  # a comment\n\n" + written)).empty());
  }
}

TEST_CASE("lists too long for a table of all pairs are still compared") {
  std::string base = "gpuplan: 1\ninput: {shape: [16]}\nlayers:\n", now = base;
  for (int i = 0; i < 3000; ++i) {
    base += "  - a" + std::to_string(i) + ": Linear(16, 16)\n";
    now += "  - b" + std::to_string(i) + ": Linear(16, 16)\n";
  }
  CHECK_EQ(causes_of(base, now).size(), 3000);
}

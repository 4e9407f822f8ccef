// Blocks, repeats, residuals, parallels: what they expand to and how it is named.
#include <doctest/doctest.h>

#include "tests/support/test_spec.h"

using namespace gpuplan;
using namespace gpuplan::testing;

using Paths = std::vector<std::string>;

namespace {

const std::string kBottleneck =
    "blocks:\n"
    "  Bottleneck:\n"
    "    params: {c: required, stride: 1, down: false}\n"
    "    layers:\n"
    "      - residual:\n"
    "          inplace: true\n"
    "          body:\n"
    "            - conv1: Conv2d(_, $c, 1)\n"
    "            - ReLU()\n"
    "            - conv2: Conv2d(_, ${4*c}, 3, stride=$stride)\n"
    "          shortcut:\n"
    "            if: $down\n"
    "            layers:\n"
    "              - downsample.0: Conv2d(_, ${4*c}, 1, stride=$stride)\n"
    "      - ReLU(inplace=True)\n";

Model with_bottleneck(const std::string& entry) { return read_spec(with_layers("  - " + entry + "\n", kBottleneck)); }

std::string bottleneck_error(const std::string& entry) {
  return error_of(with_layers("  - " + entry + "\n", kBottleneck));
}

Value integer(std::int64_t i) { return Value{i}; }

}  // namespace

TEST_CASE("unnamed entries have their index, as in nn.Sequential") {
  const Model model =
      read_spec(with_layers("  - conv: Conv2d()\n  - ReLU()\n  - features:\n      layers:\n"
                            "        - Conv2d()\n        - bn: BatchNorm2d()\n        - ReLU()\n"));
  CHECK(paths_of(model) == Paths{"conv", "1", "features.0", "features.bn", "features.2"});
  CHECK(model.layers[0].named);
  CHECK_FALSE(model.layers[1].named);
  CHECK(std::holds_alternative<Repeat>(model.layers[2].what));
}

TEST_CASE("an entry that its if leaves out takes no index") {
  // As torchvision builds its lists: `if expand_ratio != 1: layers.append(...)`.
  const Model model = read_spec(
      with_layers("  - {op: A(), if: $no}\n  - B()\n  - {op: C(), if: \"${not no}\"}\n", "vars: {no: false}\n"));
  CHECK(paths_of(model) == Paths{"0", "1"});
  CHECK(call_of(model.layers[0]).type == "B");
}

TEST_CASE("a repeat is a sequence of calls 0 .. n-1; first and last override with") {
  const Model model = with_bottleneck(
      "layer1: {block: Bottleneck, repeat: 3, with: {c: 64, stride: 1}, "
      "first: {down: true, stride: 2}, last: {c: 16}}");
  CHECK(paths_of(model) == Paths{"layer1.0.conv1", "layer1.0.2", "layer1.0.conv2", "layer1.0.downsample.0",
                                 "layer1.0.1", "layer1.1.conv1", "layer1.1.2", "layer1.1.conv2", "layer1.1.1",
                                 "layer1.2.conv1", "layer1.2.2", "layer1.2.conv2", "layer1.2.1"});
  const auto& items = std::get<Repeat>(model.layers.at(0).what).items;
  const Block& first = std::get<Block>(items.at(0).what);
  CHECK(first.block == "Bottleneck");
  const auto& residual = std::get<Residual>(first.body.at(0).what);
  CHECK(residual.inplace);
  CHECK(residual.body.size() == 3);
  CHECK(residual.shortcut.size() == 1);
  CHECK(call_of(residual.body[2]).arguments[1].value == integer(256));
  CHECK(call_of(residual.body[2]).arguments[3].value == integer(2));
  const auto& last = std::get<Residual>(std::get<Block>(items.at(2).what).body.at(0).what);
  CHECK(last.shortcut.empty());
  CHECK(call_of(last.body[2]).arguments[1].value == integer(64));
  CHECK(items.at(1).where.empty());
  CHECK(last.body[2].where == "in layer1.2 (block Bottleneck, repeat 3 of 3)");
}

TEST_CASE("a block without repeat is one call") {
  const Model model = with_bottleneck("{name: head, block: Bottleneck, with: {c: 2}}");
  CHECK(paths_of(model) == Paths{"head.conv1", "head.2", "head.conv2", "head.1"});
  const Block& block = std::get<Block>(model.layers.at(0).what);
  CHECK(block.body.at(1).where == "in head (block Bottleneck)");
}

TEST_CASE("an unnamed residual is transparent, a named one prefixes") {
  const std::string body =
      "      body:\n        - conv: Conv2d()\n        - ReLU()\n      shortcut:\n        - proj: Conv2d()\n";
  const Model bare = read_spec(with_layers("  - A()\n  - residual:\n" + body + "  - B()\n"));
  CHECK(paths_of(bare) == Paths{"0", "conv", "3", "proj", "2"});  // 3: after the list's 0 .. 2
  CHECK(bare.layers.at(1).name.empty());
  std::string indented;
  for (const char c : body) indented += c == '\n' ? std::string("\n    ") : std::string(1, c);
  const Model named = read_spec(with_layers("  - skip:\n      residual:\n    " + indented + "\n  - B()\n"));
  CHECK(paths_of(named) == Paths{"skip.conv", "skip.0", "skip.proj", "1"});
}

TEST_CASE("numbers of unnamed entries in transparent structures avoid explicit names") {
  const Model model = read_spec(with_layers("  - residual:\n      - A()\n      - '2': B()\n      - C()\n  - D()\n"));
  CHECK(paths_of(model) == Paths{"3", "2", "4", "1"});
}

TEST_CASE("parallel: branches as a list share names, as a map they prefix") {
  const Model list =
      read_spec(with_layers("  - parallel:\n      join: mul\n      branches:\n        - [a: A(), 'B()']\n"
                            "        - C()\n        - []\n"));
  CHECK(paths_of(list) == Paths{"a", "1", "2"});
  const auto& parallel = std::get<Parallel>(list.layers.at(0).what);
  CHECK(parallel.join == Join::mul);
  CHECK(parallel.branches.at(2).body.empty());
  const Model map = read_spec(
      with_layers("  - parallel:\n      dim: -1\n      branches:\n        left: [A()]\n        right: B()\n"));
  CHECK(paths_of(map) == Paths{"left.0", "right.0"});
  CHECK(std::get<Parallel>(map.layers.at(0).what).dim == -1);
  CHECK(std::get<Parallel>(map.layers.at(0).what).join == Join::cat);
  const Model named = read_spec(with_layers("  - p:\n      parallel: {branches: [[A()], {x: B()}]}\n"));
  CHECK(paths_of(named) == Paths{"p.0", "p.x"});
}

TEST_CASE("a residual may be a bare list") {
  const Model model = read_spec(with_layers("  - residual:\n      - ln_1: LayerNorm(4)\n"));
  CHECK(paths_of(model) == Paths{"ln_1"});
  CHECK_FALSE(std::get<Residual>(model.layers.at(0).what).inplace);
}

TEST_CASE("modifiers stand beside the call or within its map") {
  const Model model =
      read_spec(with_layers("  - wte: Embedding(8, 4)\n  - h: Linear(4, 4)\n    frozen: true\n"
                            "  - {name: head, op: Linear, out: 8, tie: wte, from: [h, input]}\n"));
  CHECK(model.layers.at(1).frozen);
  CHECK(model.layers.at(2).tie == "wte");
  CHECK(model.layers.at(2).from == Paths{"h", "input"});
  CHECK(call_of(model.layers.at(2)).arguments.size() == 1);
}

TEST_CASE("from names earlier entries of the block, the nearest one first, relative to the block") {
  const Model model =
      read_spec(with_layers("  - stem: A()\n  - halves: Chunk(2)\n  - enc:\n      layers:\n        - stem: B()\n"
                            "        - {op: Add(), from: [stem, halves.1]}\n"
                            "  - {op: Add(), from: [enc.stem, stem, input]}\n"));
  const auto& inner = std::get<Repeat>(model.layers.at(2).what).items;
  CHECK(inner.at(1).from == Paths{"enc.stem", "halves.1"});
  CHECK(model.layers.at(3).from == Paths{"enc.stem", "stem", "input"});
}

TEST_CASE("from does not reach later entries, other blocks or what is not there") {
  CHECK(error_of(with_layers("  - encoder: A()\n  - {op: Cat(), from: [encoded]}\n")) ==
        "error: unknown name \"encoded\" — did you mean \"encoder\"?\n"
        "  --> test.yaml:5:24\n"
        "  5 |   - {op: Cat(), from: [encoded]}\n"
        "    |                        ^^^^^^^ no entry before this one has it\n");
  CHECK(
      contains(error_of(with_layers("  - {op: A(), from: b}\n  - b: B()\n")), "\"b\" does not come before this entry"));
  CHECK(contains(error_of(with_layers("  - a: A()\n    from: a\n")), "does not come before"));
  const std::string block = "blocks:\n  B: {layers: [{op: Add(), from: stem}]}\n";
  CHECK(contains(error_of(with_layers("  - stem: A()\n  - b: {block: B}\n", block)), "in b (block B)"));
  CHECK(contains(error_of(with_layers("  - l:\n      layers: [A()]\n  - {op: B(), from: l.7}\n")),
                 "unknown name \"l.7\""));
}

TEST_CASE("within a block, input is what it was given, inputs all of it, and no layer has these names") {
  const std::string block =
      "blocks:\n  B: {layers: [{op: Cat(), from: inputs}, {op: Add(), from: [input, input.1]}]}\n";
  const Model model = read_spec(with_layers("  - a: A()\n  - {block: B, from: [a, input]}\n", block));
  const Block& body = std::get<Block>(model.layers.at(1).what);
  CHECK(body.body.at(0).from == Paths{"inputs"});
  CHECK(body.body.at(1).from == Paths{"input", "input.1"});
  CHECK(contains(error_of(with_layers("  - input: A()\n")), "a layer cannot be named \"input\""));
  CHECK(contains(error_of(with_layers("  - inputs: A()\n")), "a layer cannot be named \"inputs\""));
}

TEST_CASE("several inputs are referred to by name") {
  const std::string inputs = "gpuplan: 1\ninputs: {ids: {shape: [4], dtype: int64}, mask: {shape: [4]}}\nlayers:\n";
  const Model model = read_spec(inputs + "  - {op: A(), from: [ids, mask]}\n");
  CHECK(model.inputs.at(0).dtype == DType::int64);
  CHECK(model.layers.at(0).from == Paths{"ids", "mask"});
  CHECK(contains(error_of(inputs + "  - {op: A(), from: input}\n"), "inputs: ids, mask"));
  CHECK(contains(error_of(inputs + "  - mask: A()\n"), "the model has an input of this name"));
}

TEST_CASE("tie comes out as a path: a name of the block first, then one from the model") {
  const std::string block =
      "blocks:\n  B:\n    layers:\n      - w: A()\n      - {op: A(), tie: w}\n      - {op: A(), tie: stem}\n";
  const Model model = read_spec(with_layers("  - stem: A()\n  - b: {block: B, repeat: 2}\n", block));
  const auto& item = std::get<Block>(std::get<Repeat>(model.layers.at(1).what).items.at(1).what);
  CHECK(item.body.at(1).tie == "b.1.w");
  CHECK(item.body.at(2).tie == "stem");
  CHECK(contains(error_of(with_layers("  - wte: A()\n  - {op: B(), tie: wt}\n")), "did you mean \"wte\"?"));
}

TEST_CASE("two siblings of one name are an error, transparent structures included") {
  CHECK(error_of(with_layers("  - fc: A()\n  - B()\n  - fc: C()\n")) ==
        "error: two layers are named \"fc\"\n"
        "  --> test.yaml:6:5\n"
        "  6 |   - fc: C()\n"
        "    |     ^^ first on line 4\n");
  CHECK(contains(error_of(with_layers("  - fc: A()\n  - residual: [fc: B()]\n")), "two layers are named"));
  CHECK(contains(error_of(with_layers("  - '1': A()\n  - B()\n")), "two layers are named \"1\""));
  CHECK(contains(error_of(with_layers("  - a.0: A()\n  - a: {layers: [B()]}\n")), "two layers are named \"a.0\""));
}

TEST_CASE("block parameters: required, unknown, of the wrong kind") {
  CHECK(bottleneck_error("down: {block: Bottleneck, with: {stride: 2}}") ==
        "error: the block Bottleneck needs its parameter \"c\"\n"
        "  --> test.yaml:19:19\n"
        " 19 |   - down: {block: Bottleneck, with: {stride: 2}}\n"
        "    |                   ^^^^^^^^^^ missing: c\n"
        "  help: write with: {c: ...}\n");
  CHECK(contains(bottleneck_error("{block: Bottleneck, with: {c: 1, strde: 2}}"), "did you mean \"stride\"?"));
  CHECK(contains(bottleneck_error("{block: Bottleneck, with: {c: 1, down: 1}}"),
                 "this parameter is true or false, not 1"));
  CHECK(contains(bottleneck_error("{block: Bottleneck, with: {c: 1, stride: true}}"), "expected an integer"));
  CHECK(contains(bottleneck_error("{block: Bottleneck, with: {c: 1, down: yes}}"), "write true or false"));
  CHECK(contains(bottleneck_error("{block: Bottleneck, with: {c: 1, down: 'true'}}"), "quoted text"));
  CHECK(contains(bottleneck_error("{block: Bottleneck, repeat: 2, first: {c: 1}}"), "repeat 2 of 2"));
  CHECK(contains(bottleneck_error("{block: BottleNeck, with: {c: 1}}"), "did you mean \"Bottleneck\"?"));
  CHECK(contains(bottleneck_error("{block: Bottleneck, first: {c: 1}}"), "\"first\" without repeat"));
}

TEST_CASE("a parameter may be a real number, passed on") {
  const std::string block = "blocks:\n  B: {params: {p: 0.1}, layers: [Dropout($p)]}\n";
  const Model model = read_spec(with_layers("  - {block: B, with: {p: 0.25}}\n  - {block: B}\n", block));
  CHECK(call_of(std::get<Block>(model.layers.at(0).what).body.at(0)).arguments.at(0).value == Value{0.25});
  CHECK(call_of(std::get<Block>(model.layers.at(1).what).body.at(0)).arguments.at(0).value == Value{0.1});
}

TEST_CASE("an if needs true or false") {
  CHECK(contains(error_of(with_layers("  - {op: A(), if: 1}\n")), "if is true or false, not 1"));
  CHECK(contains(error_of(with_layers("  - {op: A(), if: false}\n")), "every layer of the model is left out"));
}

TEST_CASE("blocks that contain themselves are an error that prints the chain") {
  const std::string mutual =
      "blocks:\n  Outer: {layers: [{block: Inner}]}\n  Inner: {layers: [A(), {residual: [{block: Outer}]}]}\n";
  const std::string text = error_of(with_layers("  - A()\n", mutual));
  CHECK(contains(text, "Outer -> Inner -> Outer"));
  CHECK(contains(text, "test.yaml:4:45"));
  CHECK(contains(error_of(with_layers("  - A()\n", "blocks:\n  B: {layers: [{block: B}]}\n")), "B -> B"));
}

TEST_CASE("an error within a block says in which call of it") {
  const std::string block = "blocks:\n  B: {params: {c: required}, layers: [\"Op(${10 // c})\"]}\n";
  const std::string text = error_of(with_layers("  - l: {block: B, repeat: 3, with: {c: 1}, last: {c: 0}}\n", block));
  CHECK(contains(text, "division by zero"));
  CHECK(contains(text, "test.yaml:3:48   in l.2 (block B, repeat 3 of 3)"));
}

TEST_CASE("the loss is a call or mean, CrossEntropyLoss() by default") {
  CHECK(read_spec(with_layers("  - A()\n")).loss.type == "CrossEntropyLoss");
  CHECK(read_spec(with_layers("  - A()\nloss: mean\n")).loss.type == "mean");
  CHECK(read_spec(with_layers("  - A()\nloss: CrossEntropyLoss(label_smoothing=0.1)\n")).loss.arguments.size() == 1);
  CHECK(contains(error_of(with_layers("  - A()\nloss: MSELoss\n")), "write MSELoss()"));
}

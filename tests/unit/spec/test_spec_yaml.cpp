// The YAML under a spec: strictness that yaml-cpp lacks, and files that are hostile or not YAML at all.
#include <doctest/doctest.h>

#include "estimator/spec/limits.h"
#include "tests/support/test_spec.h"

using namespace gpuplan;
using namespace gpuplan::testing;

namespace {

const std::string kSmall = "gpuplan: 1\ninput: {shape: [4]}\nlayers:\n  - Op()\n";

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

}  // namespace

TEST_CASE("a duplicate key is an error at the second one") {
  CHECK(error_of("gpuplan: 1\nname: a\nname: b\n") ==
        "error: the key \"name\" is given twice\n"
        "  --> test.yaml:3:1\n"
        "  3 | name: b\n"
        "    | ^^^^ first on line 2\n");
  CHECK(contains(error_of("vars: {a: 1, \"a\": 2}\n"), "given twice"));
  std::string many = "vars:\n";
  for (int i = 0; i < 40; ++i) many += "  v" + std::to_string(i) + ": 1\n";
  CHECK(contains(error_of(many + "  v3: 2\n"), "test.yaml:42:3"));
}

TEST_CASE("an unknown key is an error with the nearest spelling") {
  CHECK(contains(error_of("layer:\n  - Op()\n"), "did you mean \"layers\"?"));
  CHECK(contains(error_of("input: {shap: [4]}\nlayers:\n  - Op()\n"), "did you mean \"shape\"?"));
  CHECK(contains(error_of(with_layers("  - {op: Op(), form: a}\n")), "did you mean \"from\"?"));
  CHECK(contains(error_of(with_layers("  - l: {blok: B, repeat: 2}\n")), "did you mean \"block\"?"));
  CHECK(contains(error_of(with_layers("  - residual: {bdy: [Op()]}\n")), "did you mean \"body\"?"));
  CHECK(contains(error_of(with_layers("  - parallel: {branchs: []}\n")), "did you mean \"branches\"?"));
}

TEST_CASE("a part that is missing is named") {
  CHECK(contains(error_of("layers:\n  - Op()\n"), "needs input: or inputs:"));
  CHECK(contains(error_of("input: {shape: [4]}\n"), "needs layers:"));
  CHECK(contains(error_of("input: {}\nlayers:\n  - Op()\n"), "needs shape:"));
  CHECK(contains(error_of(with_layers("  - a:\n")), "says no layer"));
  CHECK(contains(error_of("gpuplan: 2\n"), "this gpuplan reads format 1, not \"2\""));
  CHECK(contains(error_of("input: {shape: [4]}\nlayers: []\n"), "a model without layers"));
}

TEST_CASE("merge keys, tags, second documents and keys that are not names are errors") {
  CHECK(contains(error_of("vars: &v {a: 1}\nblocks:\n  B:\n    <<: *v\n"), "test.yaml:4:5"));
  CHECK(contains(error_of("name: !!str 1\n"), "a YAML tag"));
  CHECK(contains(error_of("name: a\n---\nname: b\n"), "a second YAML document"));
  CHECK(contains(error_of("? [a]\n: 1\n"), "a key must be a name, not a list"));
}

TEST_CASE("anchors and aliases give the same value again") {
  const Model model = read_spec(with_layers("  - a: &fc Linear(4, 4)\n  - b: *fc\n"));
  CHECK(call_of(model.layers.at(1)).type == "Linear");
  CHECK(contains(error_of("name: *nowhere\n"), "anchor"));
  CHECK(contains(error_of("layers: &a [*a]\n"), "contains it"));
}

TEST_CASE("a tab in the indentation is an error at the tab") {
  CHECK(contains(error_of(with_layers("  - A()\n\t- B()\n")), "test.yaml:5:1"));
  CHECK(contains(error_of(with_layers("  - A()\n\t- B()\n")), "a tab in the indentation"));
  CHECK(error_of(with_layers("  - A()\t# a comment\n\t\n")).empty());
}

TEST_CASE("a byte order mark and CRLF line ends are fine") {
  std::string crlf = "\xEF\xBB\xBF";
  for (const char c : kSmall) crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
  CHECK(read_spec(crlf).layers.at(0).mark.line == 4);
  CHECK(read_spec(crlf).layers.at(0).mark.column == 5);
  CHECK(contains(error_of("\xEF\xBB\xBFname: [1]\n"), "test.yaml:1:7"));
}

TEST_CASE("an empty file, no YAML, other encodings and control characters are errors") {
  CHECK(contains(error_of(""), "test.yaml is empty"));
  CHECK(contains(error_of("# only a comment\n"), "is empty"));
  CHECK(contains(error_of("just words\n"), "a model spec must be a map"));
  CHECK(contains(error_of("{{{{\n"), "is a bracket or brace not closed?"));
  CHECK(contains(error_of("name: [a, b\ninput: 3\n"), "not valid YAML"));
  CHECK(contains(error_of("name: \"abc\nlayers: []\n"), "a quotation mark is not closed"));  // yaml-cpp takes it
  CHECK(contains(error_of("name: 'it''s\n"), "test.yaml:1:7"));
  CHECK(contains(error_of("name: caf\xE9\n"), "test.yaml:1:10"));
  CHECK(contains(error_of("name: caf\xE9\n"), "not UTF-8"));
  CHECK(contains(error_of("name: \xC0\xAF\n"), "not UTF-8"));      // overlong
  CHECK(contains(error_of("name: \xED\xA0\x80\n"), "not UTF-8"));  // surrogate
  CHECK(contains(error_of(std::string("name: a\0b\n", 10)), "NUL"));
  CHECK(contains(error_of("name: a\x04\nlayers: 1\n"), "control character"));  // yaml-cpp would stop here
  CHECK(contains(error_of("\x7F"
                          "ELF\x01\x01"),
                 "control character"));
}

TEST_CASE("100 MB of YAML is refused by its size") {
  std::string text;
  text.resize(100'000'000, 'a');
  CHECK(contains(error_of(std::move(text)), "at most 4194304"));
}

TEST_CASE("nesting 10,000 deep is refused, in brackets, braces, dashes and indentation") {
  CHECK(contains(error_of("name: " + std::string(10'000, '[') + std::string(10'000, ']')), "nested deeper"));
  CHECK(contains(error_of("name: " + repeated("{a: ", 10'000)), "nested deeper"));
  CHECK(contains(error_of("name:\n" + repeated("- ", 10'000) + "a"), "nested deeper"));
  std::string indented;
  for (std::size_t i = 0; i < 2'000; ++i) indented += std::string(i, ' ') + "a:\n";
  CHECK(contains(error_of(indented), "nested deeper"));
}

TEST_CASE("an anchor bomb is refused before it is followed") {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 30; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before + repeated(", " + before, 8) + "]\n";
  }
  CHECK(contains(error_of(bomb), "YAML nodes, aliases followed"));
}

TEST_CASE("long names and texts are refused") {
  CHECK(contains(error_of(with_layers("  - Op(" + std::string(1'000'000, '1') + ")\n")), "a text of"));
  CHECK(contains(error_of(with_layers("  - " + std::string(200, 'a') + ": Op()\n")), "a name of more than"));
  CHECK(contains(error_of(with_layers("  - Op(" + repeated("1,", 100) + ")\n")), "more than 64 arguments"));
}

TEST_CASE("repeats are bounded, nested ones together") {
  const std::string block = "blocks:\n  B: {layers: [Op()]}\n  C: {layers: [{block: B, repeat: 1000}]}\n";
  CHECK(contains(error_of(with_layers("  - {block: B, repeat: 1000000000}\n", block)), "more than 250000 layers"));
  CHECK(contains(error_of(with_layers("  - {block: C, repeat: 100000}\n", block)), "more than 250000 layers"));
  const std::string largest = "  - Op()\n  - {block: B, repeat: 9223372036854775807}\n";  // 2^63 - 1
  CHECK(contains(error_of(with_layers(largest, block)), "more than 250000 layers"));
  CHECK(contains(error_of(with_layers("  - {block: B, repeat: 0}\n", block)), "repeat is 0"));
  CHECK(contains(error_of(with_layers("  - {block: B, repeat: -1}\n", block)), "repeat is -1"));
  CHECK(contains(error_of(with_layers("  - {block: B, repeat: 2.5}\n", block)), "repeat is an integer, not 2.5"));
}

TEST_CASE("a chain of blocks as long as a file is an error, not a stack overflow") {
  std::string blocks = "blocks:\n";
  for (int i = 0; i < 20'000; ++i)
    blocks += "  B" + std::to_string(i) + ": {layers: [{block: B" + std::to_string(i + 1) + "}]}\n";
  blocks += "  B20000: {layers: [Op()]}\n";
  CHECK(contains(error_of(with_layers("  - {block: B0}\n", blocks)), "modules nested deeper"));
}

TEST_CASE("100,000 layers are read, written out or repeated") {
  const Model written = read_spec(with_layers(repeated("  - Linear(4, 4)\n", 100'000)));
  CHECK(written.layers.size() == 100'000);
  CHECK(written.layers.back().name == "99999");
  const std::string block = "blocks:\n  B: {layers: [\"Linear(4, 4)\", ReLU()]}\n";
  const Model repeats = read_spec(with_layers("  - h: {block: B, repeat: 50000}\n", block));
  CHECK(std::get<Repeat>(repeats.layers.at(0).what).items.size() == 50'000);
}

TEST_CASE("extends merges maps key by key and replaces lists") {
  SpecOptions options;
  options.open = [](std::string_view name, std::string_view relative_to) {
    CHECK(name == "base.yaml");
    CHECK(relative_to == "test.yaml");
    return spec_source(
        "gpuplan: 1\nname: base\nvars: {d: 8, classes: 10}\ninput: {shape: [$d]}\nlayers:\n  - A($d)\n  - B()\nloss: "
        "mean\n",
        "base.yaml");
  };
  const Model model = read_spec("extends: base.yaml\nname: over\nvars: {d: 16}\nlayers:\n  - C($classes)\n", options);
  CHECK(model.name == "over");
  CHECK(model.inputs.at(0).shape == std::vector<std::int64_t>{16});
  CHECK(model.layers.size() == 1);
  CHECK(call_of(model.layers[0]).arguments.at(0).value == Value{std::int64_t{10}});
  CHECK(model.loss.type == "mean");
  CHECK(model.sources.size() == 2);
  CHECK(model.inputs[0].mark.source->name == "base.yaml");
  CHECK(model.layers[0].mark.source->name == "test.yaml");
}

TEST_CASE("extends that cannot be opened, or comes back to itself, is an error at its line") {
  CHECK(contains(error_of("name: a\nextends: base.yaml\n"), "test.yaml:2:10"));
  SpecOptions options;
  options.open = [](std::string_view, std::string_view) { return spec_source("extends: test.yaml\n"); };
  CHECK(contains(error_of("extends: test.yaml\n", options), "extends itself"));
  options.open = [](std::string_view, std::string_view) -> std::shared_ptr<const Source> {
    throw Error("no such file");
  };
  CHECK(contains(error_of("extends: x.yaml\n", options), "no such file"));
}

TEST_CASE("a model without a name has its file's") {
  CHECK(read_model(spec_source("gpuplan: 1\ninput: {shape: [4]}\nlayers:\n  - Op()\n", "models/tiny.yaml")).name ==
        "tiny");
}

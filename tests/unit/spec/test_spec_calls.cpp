// Layer calls: Python's syntax for a constructor call with literal arguments.
#include <doctest/doctest.h>

#include "tests/support/test_spec.h"

using namespace gpuplan;
using namespace gpuplan::testing;

namespace {

Value tuple(std::vector<Value> items) { return Value{std::move(items)}; }
Value integer(std::int64_t i) { return Value{i}; }

Value value_of(const std::string& text) { return read_one("Op(" + text + ")").arguments.at(0).value; }

}  // namespace

TEST_CASE("a call has a type, positional and keyword arguments") {
  const LayerCall call = read_one("Conv2d(3, 64, kernel_size=7, bias=False)");
  CHECK(call.type == "Conv2d");
  REQUIRE(call.arguments.size() == 4);
  CHECK(call.arguments[1].name.empty());
  CHECK(call.arguments[1].value == integer(64));
  CHECK(call.arguments[2].name == "kernel_size");
  CHECK(call.arguments[2].value == integer(7));
  CHECK(call.arguments[3].value == Value{false});
}

TEST_CASE("a call pasted from source or print(model) reads as it is") {
  CHECK(read_one("nn.Linear(1, 2)").type == "Linear");
  CHECK(read_one("torch.nn.Linear(1, 2)").type == "Linear");
  const LayerCall call = read_one("MaxPool2d(kernel_size=(3, 3), padding=(1,), ceil_mode=False,)");
  CHECK(call.arguments.at(0).value == tuple({integer(3), integer(3)}));
  CHECK(call.arguments.at(1).value == tuple({integer(1)}));
  CHECK(call.arguments.size() == 3);
}

TEST_CASE("values: numbers, words, quoted text, None, _, tuples") {
  CHECK(value_of("-1") == integer(-1));
  CHECK(value_of("1e-5") == Value{1e-5});
  CHECK(value_of(".5") == Value{0.5});
  CHECK(value_of("None") == Value{None{}});
  CHECK(value_of("_") == Value{Inferred{}});
  CHECK(value_of("True") == Value{true});
  CHECK(value_of("'tanh'") == Value{std::string("tanh")});
  CHECK(value_of("\"a, b)\"") == Value{std::string("a, b)")});
  CHECK(value_of("torch.int64") == Value{std::string("torch.int64")});
  CHECK(value_of("(3)") == integer(3));
  CHECK(value_of("(3,)") == tuple({integer(3)}));
  CHECK(value_of("[2, (1, _)]") == tuple({integer(2), tuple({integer(1), Value{Inferred{}}})}));
  CHECK(value_of("()") == tuple({}));
}

TEST_CASE("the map form gives the same call") {
  const Model model =
      read_spec(with_layers("  - conv: {op: Conv2d, out_channels: 64, kernel_size: [3, 3], bias: false, "
                            "padding_mode: zeros, in_channels: _, dtype: null}\n"));
  const LayerCall& call = call_of(model.layers.at(0));
  CHECK(model.layers[0].name == "conv");
  CHECK(call.type == "Conv2d");
  REQUIRE(call.arguments.size() == 6);
  CHECK(call.arguments[0].name == "out_channels");
  CHECK(call.arguments[1].value == tuple({integer(3), integer(3)}));
  CHECK(call.arguments[2].value == Value{false});
  CHECK(call.arguments[3].value == Value{std::string("zeros")});
  CHECK(call.arguments[4].value == Value{Inferred{}});
  CHECK(call.arguments[5].value == Value{None{}});
}

TEST_CASE("in the map form, quoted text is text and yes is not a boolean") {
  const Model model = read_spec(with_layers("  - {op: Op, a: 'True', b: '3', c: \"(1, 2)\"}\n"));
  const LayerCall& call = call_of(model.layers.at(0));
  CHECK(call.arguments.at(0).value == Value{std::string("True")});
  CHECK(call.arguments.at(1).value == Value{std::string("3")});
  CHECK(call.arguments.at(2).value == tuple({integer(1), integer(2)}));
  CHECK(contains(error_of(with_layers("  - {op: Op, bias: no}\n")), "test.yaml:4:20"));
  CHECK(contains(error_of(with_layers("  - Op(bias=off)\n")), "\"off\" is not a boolean"));
}

TEST_CASE("a missing comma is shown where it belongs") {
  CHECK(error_of(with_layers("  - c: Conv2d(3, 64 kernel_size=3)\n")) ==
        "error: expected a comma or a closing parenthesis\n"
        "  --> test.yaml:4:20\n"
        "  4 |   - c: Conv2d(3, 64 kernel_size=3)\n"
        "    |                    ^ a comma is missing here\n");
}

TEST_CASE("each mistake in a call has its caret") {
  const auto at = [](const std::string& call) { return error_of(with_layers("  - " + call + "\n")); };
  CHECK(contains(at("Op(1, 2"), "test.yaml:4:7"));  // the open parenthesis
  CHECK(contains(at("Op(1, 2"), "a parenthesis is not closed"));
  CHECK(contains(at("Op(1))"), "test.yaml:4:10"));
  CHECK(contains(at("Op(a=1, 2)"), "test.yaml:4:13"));
  CHECK(contains(at("Op(a=1, 2)"), "a positional argument after the keyword \"a\""));
  CHECK(contains(at("Op(a=1, a=2)"), "test.yaml:4:13"));
  CHECK(contains(at("Op(a=1, a=2)"), "given twice"));
  CHECK(contains(at("Op(, 2)"), "test.yaml:4:8"));
  CHECK(contains(at("Op(a=)"), "test.yaml:4:10"));
  CHECK(contains(at("Op((1, 2]"), "test.yaml:4:13"));
  CHECK(contains(at("Op('abc)"), "a quotation mark is not closed"));
  CHECK(contains(at("Op(4*2)"), "arithmetic outside ${ }"));
  CHECK(contains(at("Op(GELU())"), "a call among the arguments"));
  CHECK(contains(at("Op(3x)"), "\"3x\" is not a number"));
  CHECK(contains(at("Op(007)"), "leading zeros"));
  CHECK(contains(at("Op(9223372036854775808)"), "does not fit in 64 bits"));
  CHECK(contains(at("Op(1e999)"), "does not fit in 64 bits"));
  CHECK(contains(at("ReLU"), "write ReLU()"));
  CHECK(contains(at("c:Conv2d(3)"), "no space after the colon"));
  CHECK(contains(at("Op(a: 1)"), "written keyword=value"));
  CHECK(contains(at("Op(1) Op(2)"), "test.yaml:4:11"));
}

TEST_CASE("a caret in a call over several lines is on its own line") {
  const std::string text = error_of(with_layers("  - c: Conv2d(3,\n      64 kernel_size=3)\n"));
  CHECK(contains(text, "test.yaml:5:9"));
  CHECK(contains(text, "  5 |       64 kernel_size=3)\n    |         ^ a comma is missing here"));
}

TEST_CASE("a caret in a quoted or anchored call counts the quote and the anchor") {
  CHECK(contains(error_of(with_layers("  - c: \"Op(1 2)\"\n")), "test.yaml:4:13"));
  CHECK(contains(error_of(with_layers("  - c: &x Op(1 2)\n")), "test.yaml:4:15"));
  CHECK(contains(error_of(with_layers("  - c: 'Op(1 2)'\n")), "test.yaml:4:13"));
}

TEST_CASE("a flow list splits a call, which is said") {
  CHECK(contains(error_of(with_layers("  - {conv: Conv2d(3, 64)}\n")), "quote the call, or write one layer per line"));
  CHECK(contains(error_of(with_layers("  - {op: Conv2d(3, 64)}\n")), "quote the call, or write one layer per line"));
  CHECK(contains(error_of("input: {shape: [4]}\nlayers: [Conv2d(3, 64), ReLU()]\n"), "one layer per line"));
}

TEST_CASE("marks of a call point at its type, its keywords and its values") {
  const Model model = read_spec(with_layers("  - c: nn.Conv2d(3, kernel_size=(3, 5))\n"));
  const LayerCall& call = call_of(model.layers.at(0));
  CHECK(call.mark.line == 4);
  CHECK(call.mark.column == 11);
  CHECK(call.mark.length == 6);
  CHECK(call.arguments.at(1).name_mark.column == 21);
  CHECK(call.arguments.at(1).name_mark.length == 11);
  CHECK(call.arguments.at(1).mark.column == 33);
  CHECK(call.arguments.at(1).mark.length == 6);
  CHECK(model.layers[0].mark.column == 5);
}

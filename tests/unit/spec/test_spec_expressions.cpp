// $x and ${...}. Expected values are Python's.
#include <doctest/doctest.h>

#include <limits>

#include "tests/support/test_spec.h"

using namespace gpuplan;
using namespace gpuplan::testing;

namespace {

const std::string kVars = "vars: {a: 7, b: -3, zero: 0, big: 9223372036854775807, yes_: true}\n";

std::string spec_with(const std::string& expression) { return with_layers("  - Op(" + expression + ")\n", kVars); }

std::int64_t integer_of(const std::string& expression) {
  return std::get<std::int64_t>(call_of(read_spec(spec_with(expression)).layers.at(0)).arguments.at(0).value.as);
}

bool boolean_of(const std::string& expression) {
  return std::get<bool>(call_of(read_spec(spec_with(expression)).layers.at(0)).arguments.at(0).value.as);
}

}  // namespace

TEST_CASE("arithmetic and precedence are Python's") {
  CHECK(integer_of("$a") == 7);
  CHECK(integer_of("${a}") == 7);
  CHECK(integer_of("${1 + 2*3}") == 7);
  CHECK(integer_of("${(1 + 2)*3}") == 9);
  CHECK(integer_of("${10 - 3 - 2}") == 5);
  CHECK(integer_of("${a-1}") == 6);
  CHECK(integer_of("${-a}") == -7);
  CHECK(integer_of("${- -a}") == 7);
  CHECK(integer_of("${a // 2}") == 3);
  CHECK(integer_of("${-7 // 2}") == -4);  // floor
  CHECK(integer_of("${7 // -2}") == -4);
  CHECK(integer_of("${-7 % 3}") == 2);  // the divisor's sign
  CHECK(integer_of("${7 % -3}") == -2);
  CHECK(integer_of("${6 % -3}") == 0);
  CHECK(integer_of("${min(a, b, 2)}") == -3);
  CHECK(integer_of("${max(a, 2*a, b)}") == 14);
}

TEST_CASE("comparisons and logic are Python's") {
  CHECK(boolean_of("${a > b and not a == 8}"));
  CHECK(boolean_of("${a < b or a >= 7}"));
  CHECK_FALSE(boolean_of("${a != 7}"));
  CHECK(boolean_of("${not a < b and True}"));
  CHECK(boolean_of("${yes_ == true}"));
  CHECK(boolean_of("$yes_"));
}

TEST_CASE("and, or do not look at what they do not need") {
  CHECK_FALSE(boolean_of("${zero > 0 and 10 // zero > 1}"));
  CHECK(boolean_of("${zero == 0 or 10 // zero > 1}"));
}

TEST_CASE("overflow and division by zero are errors at their operator") {
  CHECK(contains(error_of(spec_with("${big + 1}")), "does not fit in 64 bits"));
  CHECK(contains(error_of(spec_with("${big + 1}")), "test.yaml:5:14"));
  CHECK(contains(error_of(spec_with("${big * 2}")), "does not fit in 64 bits"));
  CHECK(contains(error_of(spec_with("${-big - 2}")), "does not fit in 64 bits"));
  CHECK(contains(error_of(spec_with("${(-big - 1) // -1}")), "does not fit in 64 bits"));
  CHECK(integer_of("${(-big - 1) % -1}") == 0);
  CHECK(integer_of("${-1 - (-big - 1)}") == std::numeric_limits<std::int64_t>::max());
  CHECK(contains(error_of(spec_with("${a // zero}")), "division by zero"));
  CHECK(contains(error_of(spec_with("${a % zero}")), "division by zero"));
}

TEST_CASE("an unknown variable is named with the nearest one") {
  CHECK(error_of(with_layers("  - Linear(4, $clases)\n", "vars: {classes: 10}\n")) ==
        "error: unknown variable \"clases\" — did you mean \"classes\"?\n"
        "  --> test.yaml:5:16\n"
        "  5 |   - Linear(4, $clases)\n"
        "    |                ^^^^^^ not in vars: or in this block's params:\n"
        "  help: known here: classes\n");
}

TEST_CASE("each mistake in an expression has its caret") {
  CHECK(contains(error_of(spec_with("${a / 2}")), "integer division is //"));
  CHECK(contains(error_of(spec_with("${a / 2}")), "test.yaml:5:12"));
  CHECK(contains(error_of(spec_with("${4*$a}")), "inside ${ } a name has no $"));
  CHECK(contains(error_of(spec_with("${a = 2}")), "equality is =="));
  CHECK(contains(error_of(spec_with("${1.5*a}")), "a real number in an expression"));
  CHECK(contains(error_of(spec_with("${a +}")), "ends where a value is expected"));
  CHECK(contains(error_of(spec_with("${(a}")), "unexpected '}'"));
  CHECK(contains(error_of(spec_with("${a and 1}")), "\"and\" needs true or false, not 7"));
  CHECK(contains(error_of(spec_with("${yes_ + 1}")), "\"+\" needs integers, not true"));
  CHECK(contains(error_of(spec_with("${yes_ == 1}")), "compares true or false with an integer"));
  CHECK(contains(error_of(spec_with("${min a}")), "takes its values in parentheses"));
  CHECK(contains(error_of(spec_with("$")), "a $ without a name"));
}

TEST_CASE("an expression in a flow map must be quoted, which is said") {
  const std::string block = "blocks:\n  B: {params: {c: required}, layers: [Op()]}\n";
  CHECK(contains(error_of(with_layers("  - {block: B, with: {c: ${4*2}}}\n", block)), "quoted"));
  CHECK(error_of(with_layers("  - {block: B, with: {c: \"${4*2}\"}}\n", block)).empty());
}

TEST_CASE("deep and long expressions are errors, not stack overflows") {
  CHECK(contains(error_of(spec_with("${" + std::string(3000, '(') + "1")), "more than 64 operators"));
  CHECK(contains(error_of(spec_with("${" + std::string(3000, '-') + "a}")), "more than 64 operators"));
  CHECK(contains(error_of(spec_with(std::string(3000, '('))), "nested deeper"));
}

TEST_CASE("variables may use those before them; --set replaces a value before that") {
  const std::string text = with_layers("  - Op($ff)\n", "vars:\n  d: 768\n  ff: ${4*d}\n");
  SpecOptions options;
  CHECK(call_of(read_spec(text).layers[0]).arguments[0].value == Value{std::int64_t{3072}});
  options.set = {{"d", 100}};
  const Model model = read_spec(text, options);
  CHECK(call_of(model.layers[0]).arguments[0].value == Value{std::int64_t{400}});
  CHECK(model.vars.at(0).value == 100);
  CHECK(model.vars.at(1).value == 400);
  CHECK(contains(error_of(with_layers("  - Op()\n", "vars:\n  ff: ${4*d}\n  d: 1\n")), "unknown variable \"d\""));
}

TEST_CASE("--set of a variable that the model lacks is a usage error with the nearest name") {
  SpecOptions options;
  options.set = {{"clases", 10}};
  try {
    (void)read_spec(with_layers("  - Op()\n", "vars: {classes: 1000}\n"), options);
    FAIL("taken");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::usage);
    CHECK(contains(error.message(), "did you mean \"classes\"?"));
  }
}

TEST_CASE("variables stand in shapes, and a size is at least 1") {
  const std::string text = "gpuplan: 1\nvars: {n: 8}\ninput: {shape: [$n, \"${2*n}\"]}\nlayers:\n  - Op()\n";
  CHECK(read_spec(text).inputs.at(0).shape == std::vector<std::int64_t>{8, 16});
  CHECK(error_of("input: {shape: [3, 0, 32]}\nlayers:\n  - Op()\n") ==
        "error: a size is 0\n"
        "  --> test.yaml:1:20\n"
        "  1 | input: {shape: [3, 0, 32]}\n"
        "    |                    ^ expected at least 1\n");
  CHECK(contains(error_of("input: {shape: [-4]}\nlayers:\n  - Op()\n"), "a size is -4"));
  CHECK(contains(error_of("input: {shape: [true]}\nlayers:\n  - Op()\n"), "a size is an integer, not true"));
  CHECK(contains(error_of("input: {shape: [3000000000, 4000000000]}\nlayers:\n  - Op()\n"), "does not fit"));
}

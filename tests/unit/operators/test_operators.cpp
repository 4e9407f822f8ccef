// The table of operators, and what layers make of it.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/operators/operators.h"
#include "layers/catalog.h"
#include "tests/support/lower_calls.h"
#include "tests/support/operator_arguments.h"

namespace gpuplan {
namespace {

constexpr std::size_t kAnyNumber = 1000;

/// How many operands "x, [y], z..." stands for.
struct Counts {
  std::size_t least = 0, most = 0;
  bool holds(Range r) const {
    const auto n = static_cast<std::size_t>(r.end - r.begin);
    return n >= least && n <= most;
  }
};

Counts counted(std::string_view list) {
  Counts counts;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view name = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    while (name.starts_with(' ')) name.remove_prefix(1);
    if (name.empty() || name == "[]") continue;
    const bool many = name.find("...") != std::string_view::npos;
    counts.least += name.starts_with('[') ? 0 : 1;
    counts.most += many ? kAnyNumber : 1;
  }
  return counts;
}

struct Signature {
  Counts reads, extra, writes;
};

Signature signature_of(Operator op) {
  std::string_view left = row_of(op).operands;
  Signature s{.reads = {}, .extra = {}, .writes = {0, 1}};  // where nothing is said a result, none in place
  if (const std::size_t arrow = left.find("->"); arrow != std::string_view::npos) {
    s.writes = counted(left.substr(arrow + 2));
    left = left.substr(0, arrow);
  }
  while (left.ends_with(' ')) left.remove_suffix(1);
  const std::size_t semicolon = left.find(';');
  s.reads = counted(left.substr(0, semicolon));
  if (semicolon != std::string_view::npos) s.extra = counted(left.substr(semicolon + 1));
  return s;
}

TEST_CASE("each operator has one name, and a name one operator") {
  std::map<std::string_view, int> names;
  for (std::size_t i = 0; i < kOperators; ++i) ++names[name_of(static_cast<Operator>(i))];
  for (const auto& known : names) {
    CAPTURE(known.first);
    CHECK(known.second == (known.first == "aten::to" ? 2 : 1));  // of a tensor, and of numbers that the host has
  }
  CHECK(name_of(Operator::add_) == "aten::add_");
  CHECK(name_of(Operator::_softmax) == "aten::_softmax");
  CHECK(operator_named("aten::to") == Operator::to);
}

TEST_CASE("an argument that the operator has not is refused where it is given") {
  Graph graph;
  Op op{.kind = Operator::leaky_relu, .what = Elementwise{1}, .reads = {}, .writes = {}};
  const AttributeValue slope{Attribute::negative_slope, 0.1}, other{Attribute::other, 1};
  graph.append_attributes(op, {&slope, 1});
  CHECK(graph.attributes == std::vector<AttributeValue>{slope});
  CHECK_THROWS_WITH(graph.append_attributes(op, {&other, 1}), "an argument that aten::leaky_relu has not");
}

TEST_CASE("layers give operators as many tensors as their rows say") {
  RunConfig run;
  for (const LayerDef* def : make_catalog()) {
    if (def->example.call.empty()) continue;
    CAPTURE(def->name);
    std::vector<Shape> inputs;
    for (const auto& sizes : def->example.input_shapes) inputs.emplace_back(std::span<const std::int64_t>(sizes));
    const Lowered lowered =
        lower_calls({std::string(def->example.call)}, inputs, def->example.input_dtype, run, assumed_gpu());
    for (const auto& ops : {lowered.graph.forward_ops, lowered.graph.backward_ops})
      for (const Op& op : ops) {
        CAPTURE(name_of(op.kind));
        const Signature s = signature_of(op.kind);
        CHECK(s.reads.holds(op.reads));
        CHECK(s.writes.holds(op.writes));
        CHECK((op.extra.begin == op.extra.end || s.extra.holds(op.extra)));
      }
  }
}

}  // namespace
}  // namespace gpuplan

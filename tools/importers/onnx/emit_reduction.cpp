// Operators that fold dimensions away.
#include "tools/importers/onnx/spec_writer.h"

namespace gpuplan::onnx_import {
namespace {

EmitRule reduction(const char* layer) {
  return [layer](Emission& e) {
    std::vector<std::int64_t> dims;
    for (const std::int64_t a : e.numbers("axes", 1))
      dims.push_back(static_cast<std::int64_t>(e.axis(a, e.shape().size())));
    if (dims.empty() && e.integer("noop_with_empty_axes", 0) != 0) return e.pass();
    const std::string keep = e.integer("keepdims", 1) != 0 ? "keepdim=True" : "";
    const std::string call = std::string(layer) + "(";
    if (dims.empty()) return e.layer(call + keep + ")");
    e.layer(call + "dim=" + list_text(dims) + (keep.empty() ? ")" : ", " + keep + ")"));
  };
}

// Tensor.max of a dimension (fuse.cpp): the values, and where they are.
void emit_max_and_index(Emission& e) {
  const std::string keep = e.integer("keepdims", 1) != 0 ? ", keepdim=True)" : ")";
  const std::string name = e.writer().add(e.wish(), "Max(" + std::to_string(e.integer("axis", 0)) + keep, {e.input(0)});
  e.writer().give_parts(e.node().outputs, name);
}

void emit_cumsum(Emission& e) {
  const std::optional<std::int64_t> axis = integer_of(e.in(1));
  if (!axis) e.fail("its axis is not a known integer");
  if (e.integer("exclusive", 0) != 0 || e.integer("reverse", 0) != 0) e.fail("no layer sums exclusively or backwards");
  e.layer("Cumsum(" + std::to_string(e.axis(*axis, e.shape().size())) + ")");
}

void emit_arg(Emission& e) {
  const std::string keep = e.integer("keepdims", 1) != 0 ? ", keepdim=True)" : ")";
  const std::size_t axis = e.axis(e.integer("axis", 0), e.shape().size());
  e.layer((e.node().op == "ArgMax" ? "ArgMax(" : "ArgMin(") + std::to_string(axis) + keep);
}

void emit_top_k(Emission& e) {
  const std::size_t axis = e.axis(e.integer("axis", -1), e.shape().size());
  const std::string k = std::to_string(e.fixed(e.content(1, "how many it takes").front(), "how many it takes"));
  const std::string name = e.writer().add(e.wish(), "TopK(" + k + ", dim=" + std::to_string(axis) + ")", {e.input(0)});
  e.writer().give_parts(e.node().outputs, name);
}

// x / |x|, without the least length that F.normalize has.
void emit_lp_normalization(Emission& e) {
  if (e.integer("p", 2) != 2) e.fail("no layer normalises by a norm of order " + std::to_string(e.integer("p", 2)));
  e.layer("Normalize(dim=" + std::to_string(e.axis(e.integer("axis", -1), e.shape().size())) + ")");
}

}  // namespace

std::vector<NamedEmitRule> reduction_emitters() {
  return {{"ReduceMean", reduction("Mean")},
          {"ReduceSum", reduction("Sum")},
          {"ReduceMax", reduction("AMax")},
          {"ReduceMin", reduction("AMin")},
          {"ReduceL2", reduction("VectorNorm")},
          {"MaxAndIndex", emit_max_and_index},
          {"ArgMax", emit_arg},
          {"ArgMin", emit_arg},
          {"TopK", emit_top_k},
          {"CumSum", emit_cumsum},
          {"LpNormalization", emit_lp_normalization}};
}

}  // namespace gpuplan::onnx_import

// Look-ups, and numbers written into a tensor.
#include "tools/importers/onnx/spec_writer.h"

namespace gpuplan::onnx_import {
namespace {

void emit_embedding(Emission& e) {
  const Extents& table = e.shape(0);
  // Tied weights are called by one of their modules.
  std::string module = module_of_weight(e.graph().value(e.in(0).initializer).name);
  if (const std::string own = module_of_node(e.node()); !own.empty() && (!e.node().module.empty() || e.is_tied(0)))
    module = own;
  const std::string from = e.input(1);
  e.give(e.writer().add_with_weight(e.value(0), module.empty() ? e.wish() : module,
                                    "Embedding(" + to_string(table[0]) + ", " + to_string(table[1]) + ")", {from}));
}

bool is_embedding(const Emission& e, std::size_t axis) {
  const Value& table = e.in(0);
  if (table.kind != ValueKind::weight || table.shape.size() != 2 || axis != 0) return false;
  return is_embedding_table(e.node(), e.graph().value(table.initializer));
}

void emit_gather(Emission& e) {
  const std::size_t axis = e.axis(e.integer("axis", 0), e.shape(0).size());
  const Value& index = e.in(1);
  if (takes_all_in_order(e.graph(), e.in(0), index)) return e.layer("Reshape(" + e.sizes(e.result().shape) + ")");
  if (index.shape.empty()) {
    const std::optional<std::int64_t> at = integer_of(index);
    if (!at) e.fail("its index is not a known integer, and no layer supports a computed one");
    return e.layer("Select(" + std::to_string(axis) + ", " + std::to_string(*at) + ")");
  }
  if (is_embedding(e, axis)) return emit_embedding(e);
  const bool selects = index.shape.size() == 1 && !e.node().call.starts_with("aten.index.");
  const std::string call = selects     ? "IndexSelect(" + std::to_string(axis) + ")"
                           : axis == 0 ? "Index()"
                                       : "Index(dim=" + std::to_string(axis) + ")";
  e.give(e.writer().add(e.wish(), call, {e.input(0), e.input(1)}));
}

// F.one_hot, whose numbers are integers; a model that goes on with them casts.
void emit_one_hot(Emission& e) {
  const std::optional<Content>& values = e.in(2).content;
  const auto value = [&](std::size_t i) {
    return values->real ? values->reals[i][0] : static_cast<double>(values->integers[i].at[0]);
  };
  if (!values || values->size() != 2 || value(0) != 0 || value(1) != 1) e.fail("its values are not 0 and 1");
  if (e.axis(e.integer("axis", -1), e.result().shape.size()) + 1 != e.result().shape.size())
    e.fail("its classes are not the last dimension");
  const std::string classes = to_string(e.result().shape.back());
  const bool floats = is_floating(e.result().type);
  const std::string name =
      e.writer().add(floats ? e.wish() + "_classes" : e.wish(), "OneHot(" + classes + ")", {e.input(0)});
  e.give(floats ? e.writer().add(e.wish(), "To(float32)", {name}) : name);
}

void emit_gather_elements(Emission& e) {
  const std::size_t axis = e.axis(e.integer("axis", 0), e.shape(0).size());
  e.give(e.writer().add(e.wish(), "Gather(" + std::to_string(axis) + ")", {e.input(0), e.input(1)}));
}

// x[i, j]: torch's index with a tensor for each of the first dimensions, which lie side by side in ONNX's.
void emit_gather_nd(Emission& e) {
  const Extents& index = e.shape(1);
  if (e.integer("batch_dims", 0) != 0) e.fail("an index per sample, which no layer supports");
  const Extents places(index.begin(), index.end() - 1);
  const std::int64_t dimensions = e.fixed(index.back(), "how many dimensions it indexes");
  const std::string last = std::to_string(index.size() - 1);
  std::vector<std::string> from = {e.input(0)};
  for (std::int64_t i = 0; i < dimensions; ++i) {
    const std::string name = e.wish() + "_index";
    from.push_back(e.in(1).kind == ValueKind::constant
                       ? e.writer().add(name, "Buffer(" + e.sizes(places) + ", dtype=int64)", {})
                       : e.writer().add(name, "Select(" + last + ", " + std::to_string(i) + ")", {e.input(1)}));
  }
  e.give(e.writer().add(e.wish(), "Index()", from));
}

// Numbers written into a copy of a tensor. Code that writes into the tensor itself allocates nothing; which of the two
// it was, a file does not say.
void emit_scatter_nd(Emission& e) {
  if (e.in(2).kind == ValueKind::data || e.in(1).kind == ValueKind::data) e.fail("writes what is computed");
  e.layer("Clone()");
}

}  // namespace

std::vector<NamedEmitRule> lookup_emitters() {
  return {{"Gather", emit_gather},
          {"OneHot", emit_one_hot},
          {"GatherElements", emit_gather_elements},
          {"GatherND", emit_gather_nd},
          {"ScatterND", emit_scatter_nd}};
}

}  // namespace gpuplan::onnx_import

#include "tools/importers/onnx/node_view.h"

#include <array>

namespace gpuplan::onnx_import {
namespace {

// The words of ONNX's own AttributeProto.AttributeType, in the order of Attribute's alternatives.
constexpr std::array<std::string_view, std::variant_size_v<Attribute>> kTypes = {
    "", "an int", "a float", "a string", "ints", "floats", "strings", "a tensor"};

std::string_view word_of(const Attribute& attribute) {
  if (const auto* other = std::get_if<UnreadAttribute>(&attribute)) return other->type;
  return kTypes[attribute.index()];
}

}  // namespace

int NodeView::value(std::size_t i) const {
  if (!has(i)) fail("input " + std::to_string(i) + " is missing");
  return node().inputs[i];
}

template <class T>
const T* NodeView::find(std::string_view name) const {
  const auto found = node().attributes.find(name);
  if (found == node().attributes.end()) return nullptr;
  if (const T* const value = std::get_if<T>(&found->second)) return value;
  fail("the attribute \"" + printable(name) + "\" is " + std::string(word_of(found->second)) + ", expected " +
       std::string(word_of(Attribute(T{}))));
}

std::int64_t NodeView::integer(std::string_view name, std::int64_t otherwise) const {
  const auto* const a = find<std::int64_t>(name);
  return a == nullptr ? otherwise : *a;
}

double NodeView::real(std::string_view name, double otherwise) const {
  const auto* const a = find<double>(name);
  return a == nullptr ? otherwise : *a;
}

std::string_view NodeView::text(std::string_view name, std::string_view otherwise) const {
  const auto* const a = find<std::string>(name);
  return a == nullptr ? otherwise : std::string_view(*a);
}

std::vector<std::int64_t> NodeView::integers(std::string_view name) const {
  const auto* const a = find<std::vector<std::int64_t>>(name);
  return a == nullptr ? std::vector<std::int64_t>() : *a;
}

std::vector<double> NodeView::reals(std::string_view name) const {
  const auto* const a = find<std::vector<double>>(name);
  return a == nullptr ? std::vector<double>() : *a;
}

std::vector<std::string> NodeView::texts(std::string_view name) const {
  const auto* const a = find<std::vector<std::string>>(name);
  return a == nullptr ? std::vector<std::string>() : *a;
}

const Value* NodeView::tensor(std::string_view name) const { return find<Value>(name); }

void NodeView::fail(const std::string& what) const { throw Error(graph_.file + ": " + describe(node()) + ": " + what); }

}  // namespace gpuplan::onnx_import

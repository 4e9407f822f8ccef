// Reading specs from text, for the tests of the spec reader.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/spec/read.h"

namespace gpuplan::testing {

inline std::shared_ptr<const Source> spec_source(std::string text, std::string name = "test.yaml") {
  return std::make_shared<const Source>(Source{std::move(name), std::move(text)});
}

inline Model read_spec(std::string text, const SpecOptions& options = {}) {
  return read_model(spec_source(std::move(text)), options);
}

/// A model of one input [4] and the given `layers:` block, indented by two.
inline std::string with_layers(const std::string& layers, const std::string& before = "") {
  return "gpuplan: 1\n" + before + "input: {shape: [4]}\nlayers:\n" + layers;
}

/// What read_model says of a bad spec; empty when it takes it.
inline std::string error_of(std::string text, const SpecOptions& options = {}) {
  try {
    (void)read_spec(std::move(text), options);
    return "";
  } catch (const Error& error) {
    return error.render();
  }
}

inline bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

inline const LayerCall& call_of(const Node& node) { return std::get<LayerCall>(node.what); }

/// The only layer's call, arguments and all, of a spec whose one entry is `call`.
inline LayerCall read_one(const std::string& call) {
  return call_of(read_spec(with_layers("  - " + call + "\n")).layers.at(0));
}

/// Paths of the layers, in order, as named_modules() gives them.
inline void append_paths(const Body& body, const std::string& prefix, std::vector<std::string>& out) {
  for (const Node& node : body) {
    const std::string path = prefix + node.name;
    const std::string inner = node.name.empty() ? prefix : path + ".";
    if (std::holds_alternative<LayerCall>(node.what)) out.push_back(path);
    if (const auto* block = std::get_if<Block>(&node.what)) append_paths(block->body, inner, out);
    if (const auto* repeat = std::get_if<Repeat>(&node.what)) append_paths(repeat->items, inner, out);
    if (const auto* residual = std::get_if<Residual>(&node.what)) {
      append_paths(residual->body, inner, out);
      append_paths(residual->shortcut, inner, out);
    }
    if (const auto* parallel = std::get_if<Parallel>(&node.what))
      for (const Parallel::Branch& branch : parallel->branches)
        append_paths(branch.body, branch.name.empty() ? inner : inner + branch.name + ".", out);
  }
}

inline std::vector<std::string> paths_of(const Model& model) {
  std::vector<std::string> out;
  append_paths(model.layers, "", out);
  return out;
}

}  // namespace gpuplan::testing

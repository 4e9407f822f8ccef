// What stands before the layers of a spec: where it comes from, and its inputs.
#include <algorithm>
#include <utility>

#include "tools/importers/onnx/spec_writer.h"

namespace gpuplan::onnx_import {

// Matrices that the exporter turned and named anew, of an embedding's sizes: heads that are tied, by their elements,
// and those that may be, whose elements are not known.
std::string SpecWriter::tied_notes() const {
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> embeddings;  // by the sizes of such a head
  for (const int table : embeddings_) {
    const Extents& sizes = graph_.value(table).shape;
    if (sizes.size() == 2 && !(sizes[0] == sizes[1]))
      embeddings.try_emplace({sizes[1].at[0], sizes[0].at[0]}, layer_of_.at(table));
  }
  std::string text;
  for (const auto& [copy, of] : graph_.turned)
    if (of.found == TurnedCopy::Found::equal) {
      const Extents& sizes = graph_.value(copy).shape;
      const bool all = product(sizes) == Extent(of.compared);
      text += "# tied: " + printable(graph_.value(copy).name) + " " + to_string(sizes) + " is the transpose of " +
              printable(graph_.value(of.table).name) + " and counted once: " + (all ? "all " : "") +
              std::to_string(of.compared) + (all ? " elements" : " elements, spread over both,") + " are equal.\n";
    }
  for (const auto& [turned, head] : layer_of_) {
    const Value& weight = graph_.value(turned);
    const auto compared = graph_.turned.find(turned);
    if (compared != graph_.turned.end() && compared->second.found == TurnedCopy::Found::different) continue;
    if (weight.shape.size() != 2 || !is_generated(weight.name)) continue;
    const auto embedding = embeddings.find({weight.shape[0].at[0], weight.shape[1].at[0]});
    if (embedding == embeddings.end()) continue;
    text += "# " + head + " has a weight of the sizes of " + embedding->second +
            "'s, turned. If they are one weight in PyTorch,\n"
            "# parameters count it twice: the elements that would tell are not there. torch.onnx's older exporter "
            "keeps one\n"
            "# with do_constant_folding=False.\n";
  }
  return text;
}

std::string SpecWriter::comment() const {
  std::string text =
      "# Imported from " + printable(graph_.file) +
      (graph_.producer == " " ? "" : ", which " + graph_.producer + " wrote") + " (ONNX, opset " +
      std::to_string(graph_.opset) +
      ").\n"
      "# It is the graph of an inference: what its exporter left out or folded is not here, such as dropout and batch\n"
      "# norms in evaluation. Training is modelled on what is left.\n";
  if (graph_.quantized)
    text +=
        "# The file quantizes weights and results (QDQ). Planned is the model in floating point that it was made of: "
        "as\n"
        "# it stands there it takes less memory, by kernels that are not PyTorch's.\n";
  for (const Variable& v : graph_.dimensions)
    text += "# Sizes are for " + printable(v.name) + " = " + std::to_string(v.value) +
            "; another one needs an import with --set " + printable(v.name) + "=N.\n";
  return text + tied_notes();
}

std::string SpecWriter::header() {
  std::string name = as_module_name(graph_.name);
  std::replace(name.begin(), name.end(), '.', '_');
  const std::size_t slash = graph_.file.rfind('/');
  if (name.empty() || name == "main_graph" || name == "torch_jit" || name == "torch_jit_export" || name == "graph") {
    name = as_module_name(graph_.file.substr(slash == std::string::npos ? 0 : slash + 1));
    if (name.ends_with(".onnx")) name.resize(name.size() - 5);
    std::replace(name.begin(), name.end(), '.', '_');
  }
  if (name.empty() || is_number(name)) name = "model_" + name;
  return "gpuplan: 1\nname: " + name + "\n" + inputs_text_ + "layers:\n";
}

}  // namespace gpuplan::onnx_import

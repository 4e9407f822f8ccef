#include "tools/importers/onnx/import_onnx.h"

#include <algorithm>

#include "tools/importers/onnx/graph.h"
#include "tools/importers/onnx/infer.h"
#include "tools/importers/onnx/passes.h"
#include "tools/importers/onnx/spec_writer.h"
#include "tools/importers/onnx/strip.h"

namespace gpuplan {

std::string import_onnx(const std::string& path, std::vector<Variable>& set, const std::string& called) {
  const std::string& name = called.empty() ? path : called;
  onnx_import::Graph graph = onnx_import::read_graph(onnx_import::read_without_weights(path, name), name, set);
  onnx_import::drop_quantization(graph);
  onnx_import::decompose(graph);
  onnx_import::tie_turned_copies(graph, path);
  onnx_import::infer(graph);
  onnx_import::fuse(graph);
  const auto is_used = [&](const Variable& v) {
    return std::any_of(graph.dimensions.begin(), graph.dimensions.end(),
                       [&](const Variable& used) { return used.name == v.name; });
  };
  set.erase(std::remove_if(set.begin(), set.end(), is_used), set.end());
  return onnx_import::write_spec(graph);
}

}  // namespace gpuplan

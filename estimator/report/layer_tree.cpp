#include <algorithm>
#include <map>
#include <memory>

#include "estimator/base/integers.h"
#include "estimator/report/layer_table.h"

namespace gpuplan {

namespace {

// A module while the tree is put together; children in order of first execution.
struct Module {
  LayerTreeRow row;
  std::vector<std::unique_ptr<Module>> children;
};

void add(LayerTreeRow& to, const LayerRow& layer) {
  if (to.first == nullptr) to.first = &layer;
  to.last = &layer;
  ++to.leaves;
  to.parameters = checked_add(to.parameters, layer.parameters);
  to.saved_bytes = checked_add(to.saved_bytes, layer.saved_bytes);
  to.output_bytes = checked_add(to.output_bytes, layer.output_bytes);
  to.forward_macs = checked_add(to.forward_macs, layer.forward_macs);
  to.backward_flops = checked_add(to.backward_flops, layer.backward_flops);
  to.elementwise_flops = checked_add(to.elementwise_flops, layer.elementwise_flops);
  to.forward_ns = checked_add(to.forward_ns, layer.forward_ns);
  to.backward_ns = checked_add(to.backward_ns, layer.backward_ns);
  to.busy_ns = checked_add(to.busy_ns, layer.busy_ns);
  to.work_flops = checked_add(to.work_flops, layer.work_flops);
  to.work_bytes = checked_add(to.work_bytes, layer.work_bytes);
  to.bound_ns[static_cast<std::size_t>(layer.bound)] += layer.forward_ns + layer.backward_ns;
}

// Modules by full path, so that inserting a layer is a few look-ups.
class TreeBuilder {
 public:
  explicit TreeBuilder(int depth) : depth_(depth) {}

  void insert(const LayerRow& layer) {
    add(root_.row, layer);
    Module* at = &root_;
    std::size_t from = 0;
    for (int level = 1; depth_ == 0 || level <= depth_; ++level) {
      const std::size_t dot = layer.name.find('.', from);
      const std::string path = layer.name.substr(0, dot);
      at = child(*at, path, layer.name.substr(from, dot == std::string::npos ? dot : dot - from), level);
      add(at->row, layer);
      if (dot == std::string::npos) return;
      from = dot + 1;
    }
  }

  Module take() { return std::move(root_); }

 private:
  Module* child(Module& parent, const std::string& path, const std::string& name, int level) {
    Module*& known = modules_[path];
    if (known != nullptr) return known;
    parent.children.push_back(std::make_unique<Module>());
    known = parent.children.back().get();
    known->row = {.name = name, .depth = level, .leaves = 0};
    return known;
  }

  int depth_;
  Module root_{.row = {.name = "total", .depth = 0, .leaves = 0}, .children = {}};
  std::map<std::string, Module*> modules_;
};

// Inference saves nothing: what a layer costs is then its output.

void sort_modules(std::vector<std::unique_ptr<Module>>& modules, LayerSort sort, bool training) {
  const auto by = [&](auto key) {
    std::stable_sort(modules.begin(), modules.end(),
                     [&](const auto& a, const auto& b) { return key(a->row) > key(b->row); });
  };
  switch (sort) {
    case LayerSort::model: break;
    case LayerSort::memory: by([&](const LayerTreeRow& r) { return memory_of(r, training); }); break;
    case LayerSort::parameters: by([](const LayerTreeRow& r) { return r.parameters; }); break;
    case LayerSort::flops: by([](const LayerTreeRow& r) { return r.forward_macs; }); break;
    case LayerSort::time: by([](const LayerTreeRow& r) { return r.ns(); }); break;
    case LayerSort::name:
      std::stable_sort(modules.begin(), modules.end(),
                       [](const auto& a, const auto& b) { return a->row.name < b->row.name; });
      break;
  }
  for (const auto& module : modules) sort_modules(module->children, sort, training);
}

void flatten(const std::vector<std::unique_ptr<Module>>& modules, std::vector<LayerTreeRow>& out) {
  for (const auto& module : modules) {
    out.push_back(module->row);
    flatten(module->children, out);
  }
}

}  // namespace

std::vector<LayerTreeRow> layer_tree(const Report& report, const LayerTableOptions& options) {
  TreeBuilder builder(options.depth);
  for (const LayerRow& layer : report.layers) builder.insert(layer);
  Module root = builder.take();
  sort_modules(root.children, options.sort, report.run.mode == Mode::train);
  std::vector<LayerTreeRow> rows;
  flatten(root.children, rows);
  return rows;
}

}  // namespace gpuplan

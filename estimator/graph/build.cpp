#include "estimator/graph/build.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <unordered_map>
#include <utility>

#include "estimator/error.h"
#include "estimator/graph/parameter_order.h"
#include "estimator/graph/scope.h"

namespace gpuplan {
namespace {

constexpr std::size_t kMaxInputsOfEntry = 10'000;

class Walker {
 public:
  Walker(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu)
      : model_(model), catalog_(catalog), builder_(graph_, run, gpu), run_(run) {
    graph_.model = model.name;
  }

  Graph walk() {
    Scope scope;
    add_inputs(scope);
    const TensorId first = scope.given().empty() ? kNone : scope.given().front();
    graph_.output = latest(body(model_.layers, "", first, scope, false));
    if (graph_.output == kNone) throw Error("the model has no layers").at(model_.loss.mark);
    graph_.loss_begin = static_cast<std::int32_t>(graph_.forward_ops.size());
    if (run_.mode == Mode::train) add_loss();
    graph_.parameters = in_module_order(std::move(graph_.parameters), graph_.layers);
    // The inputs of the model are allocated before the loss's targets, and both after the model.
    return std::move(graph_);
  }

 private:
  void add_inputs(Scope& scope) {
    if (run_.batch < 1)
      throw Error("the batch must be at least 1, got " + std::to_string(run_.batch), ErrorKind::usage);
    for (const Input& in : model_.inputs) {
      Shape shape{run_.batch};
      for (const std::int64_t s : in.shape) shape.push_back(s);
      const DType dtype = is_floating(in.dtype) ? run_.precision : in.dtype;
      const TensorId t = new_input(in, shape, dtype);
      tensor(t).requires_grad = in.requires_grad && run_.mode == Mode::train;
      graph_.inputs.push_back(t);
      scope.give(in.name, t);
    }
  }

  TensorId new_input(const Input& in, const Shape& shape, DType dtype) {
    try {
      return builder_.new_tensor(shape, dtype, Category::inputs);
    } catch (Error& e) {
      e.at(in.mark);
      throw;
    }
  }

  void add_loss() {
    const std::size_t layer = add_layer("loss", model_.loss.type, model_.loss.mark);
    graph_.layers[layer].module = false;
    const LayerDef* def = find_layer(catalog_, model_.loss.type);
    if (def == nullptr || !def->loss) unknown_layer(model_.loss, true);
    LayerBuilder::Call call;
    call.def = def;
    call.written = &model_.loss;
    call.layer = static_cast<LayerId>(layer);
    const TensorId out = graph_.output;
    if (!is_floating(tensor(out).dtype))
      throw Error("the loss needs a floating-point output, the model's is " + std::string(name_of(tensor(out).dtype)))
          .at(model_.loss.mark);
    graph_.loss = builder_.lower(call, {&out, 1}).front();
    finish_layer(layer, {&out, 1}, graph_.loss);
  }

  Tensor& tensor(TensorId t) { return graph_.tensor(t); }

  // The object that a Python name refers to now: in-place operations made new tensors of it. Each walk halves the way
  // for the next one, so that changing a tensor in place over and over costs the same each time.
  TensorId latest(TensorId t) {
    while (t != kNone && tensor(t).replaced_by != kNone) {
      TensorId& next = tensor(t).replaced_by;
      if (const TensorId further = tensor(next).replaced_by; further != kNone) next = further;
      t = next;
    }
    return t;
  }

  // --- names ------------------------------------------------------------------------------------------------------

  static std::string join(const std::string& path, const std::string& name) {
    return path.empty() ? name : name.empty() ? path : path + "." + name;
  }

  // "inputs" is all that the block was given, unless an entry is called so.
  void resolve(Scope& scope, const Node& node, std::size_t i, std::vector<TensorId>& out) {
    if (node.from[i] != "inputs" || scope.find(node.from[i]) != nullptr) return out.push_back(resolve(scope, node, i));
    for (const TensorId t : scope.given()) out.push_back(latest(t));
    if (out.size() > kMaxInputsOfEntry)
      throw Error("an entry takes more than " + std::to_string(kMaxInputsOfEntry) + " inputs")
          .at(node.mark)
          .context(node.where);
  }

  TensorId resolve(Scope& scope, const Node& node, std::size_t i) {
    const std::string& name = node.from[i];
    if (const auto* n = scope.find(name)) return latest(n->tensor);
    if (name == "input" && !scope.given().empty()) return latest(scope.given().front());
    if (const TensorId t = part(scope, name); t != kNone) return latest(t);
    throw Error("there is no earlier entry \"" + name + "\" in this block" + did_you_mean(name, scope.names()))
        .at(i < node.from_marks.size() ? node.from_marks[i] : node.mark)
        .context(node.where);
  }

  // NAME.K: output K of an entry with several; kNone when it is not that.
  static TensorId part(Scope& scope, const std::string& name) {
    const auto dot = name.rfind('.');
    if (dot == std::string::npos) return kNone;
    const auto* n = scope.find(name.substr(0, dot));
    if (n == nullptr || n->many == nullptr) return kNone;
    std::size_t k = 0;
    const auto [end, error] = std::from_chars(name.data() + dot + 1, name.data() + name.size(), k);
    if (error != std::errc{} || end != name.data() + name.size() || k >= n->many->size()) return kNone;
    return (*n->many)[k];
  }

  // --- structure --------------------------------------------------------------------------------------------------

  // Runs the entries of a list one after the other: `x = entry(x)`. Returns the last value.
  TensorId body(const Body& entries, const std::string& path, TensorId x, Scope& scope, bool frozen) {
    for (const Node& node : entries) x = entry(node, path, x, scope, frozen);
    return x;
  }

  TensorId entry(const Node& node, const std::string& path, TensorId x, Scope& scope, bool frozen) {
    std::vector<TensorId> inputs;
    if (node.from.empty()) {
      if (x != kNone) inputs.push_back(latest(x));
    } else {
      for (std::size_t i = 0; i < node.from.size(); ++i) resolve(scope, node, i, inputs);
    }
    const bool keeps = node.frozen || frozen;
    const std::string here = join(path, node.name);
    many_ = nullptr;
    const TensorId y =
        std::visit([&](const auto& what) { return run(what, node, here, inputs, scope, keeps); }, node.what);
    if (!node.name.empty()) scope.name(here, y, many_);
    many_ = nullptr;
    return y;
  }

  // The caller's frame keeps what it gave to a function until that returns.
  void frame_returns(std::span<const TensorId> held) {
    if (held.empty()) return;
    Op op{"return", Marker{}, kNone, {}, {}};
    op.reads = graph_.append_operands(held);
    op.writes = {op.reads.end, op.reads.end};
    op.layer = graph_.layers.empty() ? kNone : static_cast<LayerId>(graph_.layers.size() - 1);
    graph_.forward_ops.push_back(op);
  }

  // A layer of several operations: the call holds its inputs while the later ones allocate.
  void hold_inputs(std::size_t layer, std::span<const TensorId> inputs) {
    const std::vector<Op>& ops = graph_.forward_ops;
    const auto begin = static_cast<std::size_t>(graph_.layers[layer].ops.begin);
    if (ops.size() < begin + 2) return;
    const auto reads_input = [&](TensorId t) {
      return std::ranges::any_of(inputs, [&](TensorId x) { return tensor(x).buffer == tensor(t).buffer; });
    };
    const std::span<const Op> own(ops.data() + begin, ops.size() - begin);
    for (std::size_t i = own.size(); i-- > 0;) {
      if (std::ranges::any_of(graph_.at(own[i].reads), reads_input)) return;
      if (own[i].writes.begin != own[i].writes.end) return frame_returns(inputs);
    }
  }

  TensorId run(const LayerCall& call, const Node& node, const std::string& path, std::span<const TensorId> inputs,
               Scope&, bool frozen) {
    const LayerDef* def = find_layer(catalog_, call.type);
    if (def == nullptr || def->loss) unknown_layer(call, false);
    const std::size_t layer = add_layer(path, def->name, call.mark);
    LayerBuilder::Call c;
    c.def = def;
    c.written = &call;
    c.frozen = frozen;
    c.layer = static_cast<LayerId>(layer);
    if (!node.tie.empty()) c.tied = tied_layer(node, path);
    try {
      const std::span<const TensorId> used = def->max_inputs == 0 ? std::span<const TensorId>{} : inputs;
      const std::vector<TensorId>& outputs = builder_.lower(c, used);
      hold_inputs(layer, used);
      if (outputs.size() > 1) {
        several_.push_back(std::make_unique<std::vector<TensorId>>(outputs));
        many_ = several_.back().get();
      }
      finish_layer(layer, used, outputs.front());
      return outputs.front();
    } catch (Error& e) {
      e.at(call.mark).context(node.where.empty() ? "in " + path : node.where);
      throw;
    }
  }

  TensorId run(const Block& block, const Node&, const std::string& path, std::span<const TensorId> inputs, Scope&,
               bool frozen) {
    Scope scope(path, inputs);
    const TensorId y = body(block.body, path, inputs.empty() ? kNone : inputs.front(), scope, frozen);
    frame_returns(inputs);
    return y;
  }

  TensorId run(const Repeat& sequence, const Node&, const std::string& path, std::span<const TensorId> inputs,
               Scope& scope, bool frozen) {
    const TensorId y = body(sequence.items, path, inputs.empty() ? kNone : inputs.front(), scope, frozen);
    frame_returns(inputs);
    return y;
  }

  TensorId run(const Residual& residual, const Node& node, const std::string& path, std::span<const TensorId> inputs,
               Scope& scope, bool frozen) {
    if (inputs.empty()) throw Error("a residual needs an input").at(node.mark).context(node.where);
    const TensorId x = inputs.front();
    const auto first_weight = static_cast<std::ptrdiff_t>(graph_.model_storage.size());
    const TensorId out = latest(body(residual.body, path, x, scope, frozen));
    const auto first_of_shortcut = static_cast<std::ptrdiff_t>(graph_.model_storage.size());
    const TensorId shortcut =
        latest(residual.shortcut.empty() ? x : body(residual.shortcut, path, latest(x), scope, frozen));
    if (residual.shortcut_first) {
      const auto begin = graph_.model_storage.begin();
      std::rotate(begin + first_weight, begin + first_of_shortcut, graph_.model_storage.end());
    }
    return join_call("Add", node, path, std::array{out, shortcut}, residual.inplace);
  }

  TensorId run(const Parallel& parallel, const Node& node, const std::string& path, std::span<const TensorId> inputs,
               Scope& scope, bool frozen) {
    if (inputs.empty()) throw Error("a parallel needs an input").at(node.mark).context(node.where);
    std::vector<TensorId> results;
    for (const auto& branch : parallel.branches)
      results.push_back(body(branch.body, join(path, branch.name), latest(inputs.front()), scope, frozen));
    for (TensorId& r : results) r = latest(r);
    const char* const op = parallel.join == Join::cat ? "Cat" : parallel.join == Join::add ? "Add" : "Mul";
    TensorId y = results.front();
    if (results.size() == 1) {
      // One branch: nothing to join; its input is held while it runs, as a name in the caller's frame would.
    } else if (parallel.join == Join::cat) {
      y = join_call(op, node, path, results, false, parallel.dim);
    } else {
      for (std::size_t i = 1; i < results.size(); ++i) y = join_call(op, node, path, std::array{y, results[i]}, false);
    }
    frame_returns(inputs);
    return y;
  }

  // The functional op that joins a residual or parallel, as if it were written in the spec.
  TensorId join_call(const char* type, const Node& node, const std::string& path, std::span<const TensorId> inputs,
                     bool in_place, std::int64_t dim = 1) {
    LayerCall call;
    call.type = type;
    call.mark = node.mark;
    if (in_place) call.arguments.push_back({"inplace", {true}, node.mark, node.mark});
    if (call.type == "Cat") call.arguments.push_back({"dim", {dim}, node.mark, node.mark});
    const LayerDef* def = find_layer(catalog_, call.type);
    const std::size_t layer = add_layer(path, def->name, node.mark);
    graph_.layers[layer].module = false;
    LayerBuilder::Call c;
    c.def = def;
    c.written = &call;
    c.layer = static_cast<LayerId>(layer);
    try {
      const TensorId y = builder_.lower(c, inputs).front();
      finish_layer(layer, inputs, y);
      return y;
    } catch (Error& e) {
      e.at(node.mark).context(node.where);
      throw;
    }
  }

  // --- layers -----------------------------------------------------------------------------------------------------

  std::size_t add_layer(const std::string& path, std::string_view type, const SourceMark& mark) {
    Layer layer;
    layer.name = path;
    layer.type = type;
    layer.mark = mark;
    layer.ops.begin = static_cast<std::int32_t>(graph_.forward_ops.size());
    graph_.layers.push_back(std::move(layer));
    return graph_.layers.size() - 1;
  }

  void finish_layer(std::size_t index, std::span<const TensorId> inputs, TensorId output) {
    Layer& layer = graph_.layers[index];
    layer.ops.end = static_cast<std::int32_t>(graph_.forward_ops.size());
    layer.inputs = graph_.append_operands(inputs);
    layer.output = output;
  }

  LayerId tied_layer(const Node& node, const std::string& path) {
    for (; listed_ < graph_.layers.size(); ++listed_)
      if (graph_.layers[listed_].parameters > 0)
        with_weights_[graph_.layers[listed_].name] = static_cast<LayerId>(listed_);
    const auto dot = path.rfind('.');
    const std::string sibling = dot == std::string::npos ? node.tie : path.substr(0, dot + 1) + node.tie;
    for (const std::string& candidate : {sibling, node.tie})
      if (const auto it = with_weights_.find(candidate); it != with_weights_.end()) return it->second;
    std::vector<std::string> names;
    for (const Layer& l : graph_.layers)
      if (l.parameters > 0) names.push_back(l.name);
    throw Error("there is no earlier layer \"" + node.tie + "\" with weights to share" + did_you_mean(node.tie, names))
        .at(node.tie_mark.line > 0 ? node.tie_mark : node.mark)
        .context(node.where);
  }

  [[noreturn]] void unknown_layer(const LayerCall& call, bool loss) {
    std::vector<std::string> names;
    for (const LayerDef* d : catalog_)
      if (d->loss == loss) names.emplace_back(d->name);
    throw Error((loss ? "unknown loss \"" : "unknown layer \"") + call.type + "\"" + did_you_mean(call.type, names))
        .at(call.mark)
        .help(loss ? "the losses: CrossEntropyLoss, MSELoss, BCEWithLogitsLoss, NLLLoss, L1Loss, mean"
                   : "the supported layers: gpuplan explain layers");
  }

  const Model& model_;
  Catalog catalog_;
  Graph graph_;
  LayerBuilder builder_;
  const RunConfig& run_;
  const std::vector<TensorId>* many_ = nullptr;  // outputs of the entry just run, when there are several
  std::vector<std::unique_ptr<std::vector<TensorId>>> several_;
  std::unordered_map<std::string, LayerId> with_weights_;  // by path, of the first `listed_` layers
  std::size_t listed_ = 0;
};

}  // namespace

Graph build_graph(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu) {
  return Walker(model, catalog, run, gpu).walk();
}

}  // namespace gpuplan

#include "estimator/distributed/module_calls.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

using Kind = ModuleCall::Kind;

// Modules without parameters, as torch.nn and transformers call them; all other layers without any are operations.
bool is_module_type(std::string_view type) {
  constexpr std::array<std::string_view, 9> kEndings = {"LU",      "Activation", "Dropout", "RotaryEmbedding", "Pool2d",
                                                        "Sigmoid", "Tanh",       "Norm",    "Identity"};
  return std::ranges::any_of(kEndings, [&](std::string_view e) { return type.ends_with(e); });
}

// Of two matrices, each a module; what the second one is given needs a gradient in any case.
bool is_adapter(const Layer& layer) { return layer.type.ends_with("Adapter"); }

bool is_number(std::string_view word) {
  return !word.empty() && std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
}

class Modules {
 public:
  explicit Modules(const Graph& graph) : graph_(graph), parameters_of_(graph.layers.size()) {
    std::unordered_map<BufferId, std::int32_t> number;
    for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
      number.emplace(buffer_of(graph, graph.parameters[i].tensor), static_cast<std::int32_t>(i));
      parameters_of_[index(graph.parameters[i].layer)].push_back(static_cast<std::int32_t>(i));
    }
    for (const Op& op : graph.forward_ops)  // weights that are tied
      if (op.layer != kNone)
        for (const Range& range : {op.reads, op.extra})
          for (const Operand o : graph.at(range))
            if (o >= 0 && number.contains(buffer_of(graph, o)))
              parameters_of_[index(op.layer)].push_back(number.at(buffer_of(graph, o)));
    for (const Layer& l : graph.layers)  // peft puts an adapter and the layer beside it into one module
      if (is_adapter(l)) wrapped_.insert(l.name.substr(0, l.name.rfind('.')));
    for (std::vector<std::int32_t>& own : parameters_of_) {
      std::ranges::sort(own);
      own.erase(std::unique(own.begin(), own.end()), own.end());
    }
  }

  /// The modules that the layer is in, from the model to its own.
  const std::vector<std::int32_t>& around(LayerId layer) {
    std::vector<std::int32_t>& stack = around_.try_emplace(layer).first->second;
    if (!stack.empty()) return stack;
    const Layer& l = graph_.layers[index(layer)];
    const std::vector<std::int32_t>& own = parameters_of_[index(layer)];
    const bool parameter = l.type == "Parameter", module = !parameter && (!own.empty() || is_module_type(l.type));
    stack.push_back(module_of("", {}));
    for (std::size_t dot = l.name.find('.'); dot != std::string::npos; dot = l.name.find('.', dot + 1)) {
      const std::string_view next = std::string_view(l.name).substr(dot + 1);
      if (is_number(next.substr(0, next.find('.'))) && next.find('.') != std::string_view::npos) continue;  // a list
      stack.push_back(module_of(l.name.substr(0, dot), {}));
    }
    if (is_adapter(l)) {
      stack.push_back(module_of(l.name + "_A", {own.begin(), own.begin() + 1}));
      stack.push_back(module_of(l.name + "_B", {own.begin() + 1, own.end()}));
      return stack;
    }
    if (module && wrapped_.contains(l.name)) stack.push_back(module_of(l.name, {}));
    if (module)
      stack.push_back(module_of(wrapped_.contains(l.name) ? l.name + ".base_layer" : l.name, own));
    else
      for (const std::int32_t p : own) modules_[index(stack.back())].parameters.push_back(p);
    return stack;
  }

  std::vector<CalledModule> take() { return std::move(modules_); }
  const CalledModule& module(std::int32_t number) const { return modules_[index(number)]; }

 private:
  std::int32_t module_of(const std::string& path, const std::vector<std::int32_t>& parameters) {
    const auto [found, is_new] = number_.try_emplace(path, static_cast<std::int32_t>(modules_.size()));
    if (is_new) modules_.push_back({path, parameters});
    return found->second;
  }

  const Graph& graph_;
  std::vector<std::vector<std::int32_t>> parameters_of_;  // by layer
  std::vector<CalledModule> modules_;
  std::unordered_map<std::string, std::int32_t> number_;
  std::unordered_set<std::string> wrapped_;  // paths
  std::unordered_map<LayerId, std::vector<std::int32_t>> around_;
};

class Caller {
 public:
  Caller(const Graph& graph, const Schedule& schedule) : graph_(graph), schedule_(schedule), modules_(graph) {}

  ModuleCalls follow() {
    for (const Layer& l : graph_.layers)
      if (l.module) modules_.around(static_cast<LayerId>(&l - graph_.layers.data()));
    for (std::size_t i = 0; i < schedule_.ops.size(); ++i) {
      const ScheduledOp& op = schedule_.ops[i];
      at_ = static_cast<std::int32_t>(i);
      if (op.phase != Phase::forward && !stack_.empty() && !recomputes_) end_forward();
      if (op.layer == kNone) continue;
      if (!graph_.layers[index(op.layer)].module) {  // a loss that the model computes when all else has been left
        if (op.phase == Phase::forward && !stack_.empty()) leave_down_to(1, op.phase, at_);
        continue;
      }
      if (op.phase == Phase::backward && !op.recompute)
        backward(op.layer);
      else
        forward(op);
    }
    at_ = static_cast<std::int32_t>(schedule_.ops.size());
    if (!stack_.empty() && !recomputes_) end_forward();
    return finish();
  }

 private:
  void call(Kind kind, std::int32_t module, Phase phase, std::int32_t step) {
    result_.calls.push_back({kind, module, phase, step});
  }

  void leave_down_to(std::size_t depth, Phase phase, std::int32_t step) {
    for (; stack_.size() > depth; stack_.pop_back()) call(Kind::leave, stack_.back(), phase, step);
  }
  void end_forward() {
    std::int32_t end = at_;
    while (end > 0 && schedule_.ops[index(end - 1)].phase != Phase::forward) --end;
    leave_down_to(0, Phase::forward, end);
  }

  // The backward that wants what a checkpoint has not saved has begun by then; a reentrant one runs forward first.
  void begin_what_recomputes() {
    const bool reentrant = std::ranges::any_of(graph_.checkpoints, &Checkpoint::reentrant);
    for (std::size_t i = index(at_); i < schedule_.ops.size() && !reentrant; ++i) {
      const ScheduledOp& op = schedule_.ops[i];
      if (op.recompute || op.layer == kNone || !graph_.layers[index(op.layer)].module) continue;
      return backward(op.layer);
    }
  }

  void forward(const ScheduledOp& op) {
    if (op.recompute && !recomputes_) begin_what_recomputes();
    recomputes_ = op.recompute;
    const std::vector<std::int32_t>& to = modules_.around(op.layer);
    if (op.recompute && stack_.empty()) stack_.assign(to.begin(), to.begin() + outside_block(to));
    const auto common = std::ranges::mismatch(stack_, to).in1 - stack_.begin();
    leave_down_to(static_cast<std::size_t>(common), op.phase, at_);
    for (std::size_t i = stack_.size(); i < to.size(); ++i) {
      call(Kind::enter, to[i], op.phase, at_);
      stack_.push_back(to[i]);
    }
  }

  // A checkpoint runs a block of a list, which it enters, too.
  std::ptrdiff_t outside_block(const std::vector<std::int32_t>& stack) const {
    for (std::size_t i = stack.size(); i-- > 0;) {
      const std::string& path = modules_.module(stack[i]).path;
      if (is_number(std::string_view(path).substr(path.rfind('.') + 1))) return static_cast<std::ptrdiff_t>(i);
    }
    return static_cast<std::ptrdiff_t>(stack.size()) - 1;
  }

  // A checkpoint stops where the last saved tensor is there again (_StopRecomputationError), and nothing is left then.
  void backward(LayerId layer) {
    if (recomputes_) stack_.clear();
    recomputes_ = false;
    for (const std::int32_t module : modules_.around(layer)) {
      const auto [begun, is_new] = last_.try_emplace(module, at_);
      begun->second = at_;
      if (!is_new) continue;
      call(Kind::before_backward, module, Phase::backward, at_);
      order_.push_back(module);
    }
  }

  // Where all of the module has run backward, and AccumulateGrad has what it has of gradients.
  ModuleCalls finish() {
    std::unordered_map<std::int32_t, char> has_gradient;  // by module: of its input
    for (std::size_t l = 0; l < graph_.layers.size(); ++l) {
      if (!graph_.layers[l].module) continue;
      const std::vector<std::int32_t>& stack = modules_.around(static_cast<LayerId>(l));
      const bool adapter = is_adapter(graph_.layers[l]);
      if (adapter) has_gradient[stack.back()] = 1;
      for (const TensorId t : graph_.at(graph_.layers[l].inputs))
        if (graph_.tensor(t).requires_grad) has_gradient[stack[stack.size() - (adapter ? 2 : 1)]] = 1;
    }
    std::vector<ModuleCall> after;
    for (const std::int32_t m : order_) {
      const CalledModule& module = modules_.module(m);
      if (module.parameters.empty()) continue;
      if (!has_gradient.contains(m)) {
        result_.without_after.push_back(m);
        continue;
      }
      std::int32_t step = last_.at(m) + 1;
      for (const std::int32_t p : module.parameters)
        if (const std::int32_t place = gradient_place(schedule_, p); place != kNone && module.path == owner_of(p))
          step = std::max(step, schedule_.gradient_arrives[index(place)]);
      after.push_back({Kind::after_backward, m, Phase::backward, step});
    }
    begin_embedding();
    const auto before = [](const ModuleCall& a, const ModuleCall& b) {
      return a.phase != b.phase ? a.phase < b.phase : a.step < b.step;
    };
    std::ranges::stable_sort(after, before);
    std::vector<ModuleCall> all;
    std::ranges::merge(after, result_.calls, std::back_inserter(all), before);
    result_.calls = std::move(all);
    result_.modules = modules_.take();
    return std::move(result_);
  }

  // enable_input_require_grads(), of adapters with checkpoints: what the embedding of the tokens returns says that it
  // requires a gradient, so that its backward begins, last of all, and never ends.
  void begin_embedding() {
    if (graph_.checkpoints.empty() || std::ranges::none_of(graph_.layers, is_adapter)) return;
    const auto embedding = std::ranges::find(graph_.layers, "Embedding", &Layer::type);
    if (embedding == graph_.layers.end()) return;
    const std::int32_t module = modules_.around(static_cast<LayerId>(embedding - graph_.layers.begin())).back();
    call(Kind::before_backward, module, Phase::backward, at_);
    result_.without_after.push_back(module);
  }

  const std::string& owner_of(std::int32_t parameter) const {
    return graph_.layers[index(graph_.parameters[index(parameter)].layer)].name;
  }

  const Graph& graph_;
  const Schedule& schedule_;
  Modules modules_;
  ModuleCalls result_;
  std::vector<std::int32_t> stack_;
  bool recomputes_ = false;
  std::int32_t at_ = 0;
  std::unordered_map<std::int32_t, std::int32_t> last_;  // step of backward, by module
  std::vector<std::int32_t> order_;                      // modules as backward begins them
};

}  // namespace

ModuleCalls module_calls(const Graph& graph, const Schedule& schedule) { return Caller(graph, schedule).follow(); }

}  // namespace gpuplan

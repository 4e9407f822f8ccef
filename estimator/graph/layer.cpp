#include "estimator/graph/layer.h"

#include <algorithm>

#include "estimator/error.h"
#include "estimator/integers.h"

namespace gpuplan {
namespace {

template <class T>
std::int32_t size_of_vector(const std::vector<T>& v) {
  return static_cast<std::int32_t>(v.size());
}

template <class Ids>
Range append_operands(Graph& g, const Ids& ids) {
  Range r{size_of_vector(g.operands), 0};
  g.operands.insert(g.operands.end(), ids.begin(), ids.end());
  r.end = size_of_vector(g.operands);
  return r;
}

Tensor& tensor(Graph& g, TensorId t) { return g.tensors[static_cast<std::size_t>(t)]; }

}  // namespace

const LayerDef* find_layer(Catalog catalog, std::string_view name) {
  const auto it = std::ranges::lower_bound(catalog, name, {}, [](const LayerDef* d) { return d->name; });
  return it != catalog.end() && (*it)->name == name ? *it : nullptr;
}

// --- autograd nodes ---------------------------------------------------------------------------------------------

bool NodeBuilder::needs(TensorId input) const {
  return graph_ != nullptr && input != kNone && tensor(*graph_, input).requires_grad;
}

Operand NodeBuilder::add_local(const Local& value) {
  AutogradNode& n = graph_->nodes[static_cast<std::size_t>(node_)];
  graph_->locals.push_back(value);
  n.locals.end = size_of_vector(graph_->locals);
  return local(n.locals.end - n.locals.begin - 1);
}

Op& NodeBuilder::append(std::string_view name, const Primitive& what, std::span<const Operand> reads) {
  AutogradNode& n = graph_->nodes[static_cast<std::size_t>(node_)];
  Op op{name, what, n.layer, append_operands(*graph_, reads), {}};
  op.writes = {op.reads.end, op.reads.end};
  for (const Operand r : reads)
    if (r >= 0) save(r);
  graph_->backward_ops.push_back(op);
  n.ops.end = size_of_vector(graph_->backward_ops);
  return graph_->backward_ops.back();
}

Operand NodeBuilder::run(std::string_view name, const Primitive& what, std::span<const Operand> reads,
                         const Shape& shape, DType dtype) {
  Op& op = append(name, what, reads);
  const Operand result = add_local({checked_mul(shape.elements(), size_of(dtype)), kNone, true, false});
  graph_->operands.push_back(result);
  op.writes.end = size_of_vector(graph_->operands);
  return result;
}

Operand NodeBuilder::run(std::string_view name, const Primitive& what, std::initializer_list<Operand> reads,
                         const Shape& shape, DType dtype) {
  return run(name, what, std::span<const Operand>(reads.begin(), reads.size()), shape, dtype);
}

std::vector<Operand> NodeBuilder::run_many(std::string_view name, const Primitive& what,
                                           std::initializer_list<Operand> reads, std::span<const OutputSpec> outputs) {
  Op& op = append(name, what, {reads.begin(), reads.size()});
  std::vector<Operand> results;
  for (const OutputSpec& o : outputs) {
    results.push_back(add_local({checked_mul(o.shape.elements(), size_of(o.dtype)), kNone, true, false}));
    graph_->operands.push_back(results.back());
  }
  op.writes.end = size_of_vector(graph_->operands);
  return results;
}

void NodeBuilder::run_in_place(std::string_view name, const Primitive& what, std::initializer_list<Operand> reads) {
  append(name, what, {reads.begin(), reads.size()});
}

Operand NodeBuilder::view(Operand value, bool dense) {
  const Local& of =
      graph_->locals[static_cast<std::size_t>(graph_->nodes[static_cast<std::size_t>(node_)].locals.begin + ~value)];
  return add_local({of.bytes, ~value, dense && of.dense, true});
}

void NodeBuilder::give(TensorId input, Operand value) {
  graph_->edges.push_back({input, ~value});
  graph_->nodes[static_cast<std::size_t>(node_)].edges.end = size_of_vector(graph_->edges);
}

void NodeBuilder::save(TensorId t) {
  graph_->saved.push_back(t);
  graph_->nodes[static_cast<std::size_t>(node_)].saved.end = size_of_vector(graph_->saved);
}

// --- arguments --------------------------------------------------------------------------------------------------

void LayerBuilder::fail(std::string_view argument, std::string message, std::string label) const {
  Error error(std::string(call_.def->name) + ": " + message);
  const int i = argument.empty() ? -1 : index_of(argument);
  if (i >= 0 && bound_[static_cast<std::size_t>(i)].value != nullptr)
    error.at(bound_[static_cast<std::size_t>(i)].mark);
  error.at(call_.written->mark);
  if (!label.empty()) error.label(std::move(label));
  throw error;
}

int LayerBuilder::index_of(std::string_view name) const {
  const auto& ps = call_.def->parameters;
  for (std::size_t i = 0; i < ps.size(); ++i)
    if (ps[i].name == name) return static_cast<int>(i);
  return -1;
}

namespace {

std::string join_names(const std::vector<ParameterDef>& ps) {
  std::string out;
  for (const ParameterDef& p : ps) out += (out.empty() ? "" : ", ") + std::string(p.name);
  return out;
}

[[noreturn]] void unknown_keyword(const LayerDef& def, const Argument& a) {
  std::vector<std::string> names;
  for (const ParameterDef& p : def.parameters) names.emplace_back(p.name);
  throw Error(std::string(def.name) + " has no parameter \"" + a.name + "\"" + did_you_mean(a.name, names))
      .at(a.name_mark.line > 0 ? a.name_mark : a.mark)
      .help(def.parameters.empty() ? std::string(def.name) + " takes no parameters"
                                   : "its parameters are: " + join_names(def.parameters));
}

}  // namespace

void LayerBuilder::bind() {
  const LayerDef& def = *call_.def;
  bound_.assign(def.parameters.size(), {});
  std::size_t position = 0;
  const auto& arguments = call_.written->arguments;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Argument& a = arguments[i];
    std::size_t index = position;
    if (a.name.empty()) {
      if (position >= def.parameters.size())
        throw Error(std::string(def.name) + " takes at most " + std::to_string(def.parameters.size()) +
                    " positional arguments")
            .at(a.mark)
            .help("its parameters are: " + join_names(def.parameters));
      Bound& b = bound_[index];
      if (def.parameters[index].variadic) {
        if (b.value == nullptr) b.first_positional = static_cast<std::int32_t>(i);
        ++b.positionals;
      } else {
        ++position;
      }
    } else {
      const int named = index_of(a.name);
      if (named < 0) unknown_keyword(def, a);
      index = static_cast<std::size_t>(named);
      if (bound_[index].value != nullptr)
        throw Error(std::string(def.name) + ": \"" + a.name + "\" is given twice")
            .at(a.name_mark.line > 0 ? a.name_mark : a.mark);
    }
    if (bound_[index].value == nullptr) {
      bound_[index].value = &a.value;
      bound_[index].mark = a.mark;
    }
  }
  for (std::size_t i = 0; i < def.parameters.size(); ++i)
    if (bound_[i].value == nullptr && def.parameters[i].default_value.empty())
      throw Error(std::string(def.name) + " needs \"" + std::string(def.parameters[i].name) + "\" (" +
                  std::string(def.parameters[i].doc) + ")")
          .at(call_.written->mark);
}

namespace {

// Defaults are written as Python writes them; only these forms occur.
Value default_value(std::string_view text) {
  if (text == "None") return {None{}};
  if (text == "True") return {true};
  if (text == "False") return {false};
  const bool number = text.find_first_not_of("-0123456789.e") == std::string_view::npos;
  if (!number) return {std::string(text)};
  if (text.find_first_of(".e") == std::string_view::npos)
    return {static_cast<std::int64_t>(std::stoll(std::string(text)))};
  return {std::stod(std::string(text))};
}

}  // namespace

const Value* LayerBuilder::argument(std::string_view name, SourceMark* mark) const {
  const int i = index_of(name);
  if (i < 0)
    throw std::logic_error(std::string(call_.def->name) + " reads an undeclared parameter " + std::string(name));
  const Bound& b = bound_[static_cast<std::size_t>(i)];
  if (mark != nullptr) *mark = b.mark;
  return b.value;
}

bool LayerBuilder::given(std::string_view name) const {
  const Value* v = argument(name);
  return v != nullptr && !std::holds_alternative<None>(v->as);
}

bool LayerBuilder::is_none(std::string_view name) const {
  const Value* v = argument(name);
  if (v != nullptr) return std::holds_alternative<None>(v->as);
  return call_.def->parameters[static_cast<std::size_t>(index_of(name))].default_value == "None";
}

std::int64_t LayerBuilder::integer(std::string_view name) const {
  const Value* v = argument(name);
  const Value standard =
      v == nullptr ? default_value(call_.def->parameters[static_cast<std::size_t>(index_of(name))].default_value)
                   : Value{};
  if (v == nullptr) v = &standard;
  if (const auto* i = std::get_if<std::int64_t>(&v->as)) return *i;
  fail(name, "\"" + std::string(name) + "\" is not an integer", "expected an integer");
}

std::int64_t LayerBuilder::size(std::string_view name) const {
  const Value* v = argument(name);
  if (v != nullptr && std::holds_alternative<Inferred>(v->as))
    fail(name, "\"" + std::string(name) + "\" cannot be inferred", "write a number");
  const std::int64_t n = integer(name);
  if (n < 1)
    fail(name, "\"" + std::string(name) + "\" must be at least 1, got " + std::to_string(n), "expected a size >= 1");
  return n;
}

std::int64_t LayerBuilder::size(std::string_view name, std::int64_t inferred, std::string_view what) const {
  const Value* v = argument(name);
  if (v != nullptr && std::holds_alternative<Inferred>(v->as)) return inferred;
  const std::int64_t n = size(name);
  if (n != inferred)
    fail(name,
         "expects " + std::to_string(n) + " " + std::string(what) + ", its input has " + std::to_string(inferred) +
             (inputs_.empty() ? "" : " (input shape " + to_string(shape(inputs_[0])) + ")"),
         "write _ to take it from the input, or " + std::to_string(inferred));
  return n;
}

std::vector<std::int64_t> LayerBuilder::integers(std::string_view name) const {
  const int index = index_of(name);
  if (index < 0)
    throw std::logic_error(std::string(call_.def->name) + " reads an undeclared parameter " + std::string(name));
  const Bound& b = bound_[static_cast<std::size_t>(index)];
  std::vector<std::int64_t> out;
  const auto add = [&](const Value& v) {
    if (const auto* i = std::get_if<std::int64_t>(&v.as))
      out.push_back(*i);
    else
      fail(name, "\"" + std::string(name) + "\" is not a list of integers", "expected integers");
  };
  if (b.positionals > 1) {
    for (std::int32_t i = 0; i < b.positionals; ++i)
      add(call_.written->arguments[static_cast<std::size_t>(b.first_positional + i)].value);
    return out;
  }
  if (b.value == nullptr) {
    const Value standard = default_value(call_.def->parameters[static_cast<std::size_t>(index)].default_value);
    add(standard);
  } else if (const auto* list = std::get_if<std::vector<Value>>(&b.value->as)) {
    for (const Value& v : *list) add(v);
  } else {
    add(*b.value);
  }
  return out;
}

Pair LayerBuilder::pair(std::string_view name) const {
  const std::vector<std::int64_t> v = integers(name);
  if (v.size() != 1 && v.size() != 2)
    fail(name, "\"" + std::string(name) + "\" has " + std::to_string(v.size()) + " values",
         "expected one or two integers");
  return {v[0], v.back()};
}

double LayerBuilder::real(std::string_view name) const {
  const Value* v = argument(name);
  const Value standard =
      v == nullptr ? default_value(call_.def->parameters[static_cast<std::size_t>(index_of(name))].default_value)
                   : Value{};
  if (v == nullptr) v = &standard;
  if (const auto* i = std::get_if<std::int64_t>(&v->as)) return static_cast<double>(*i);
  if (const auto* d = std::get_if<double>(&v->as)) return *d;
  fail(name, "\"" + std::string(name) + "\" is not a number", "expected a number");
}

bool LayerBuilder::boolean(std::string_view name) const {
  const Value* v = argument(name);
  if (v == nullptr) return call_.def->parameters[static_cast<std::size_t>(index_of(name))].default_value == "True";
  if (const auto* b = std::get_if<bool>(&v->as)) return *b;
  fail(name, "\"" + std::string(name) + "\" is not a boolean", "expected True or False");
}

std::string_view LayerBuilder::word(std::string_view name) const {
  const Value* v = argument(name);
  if (v == nullptr) return call_.def->parameters[static_cast<std::size_t>(index_of(name))].default_value;
  if (const auto* s = std::get_if<std::string>(&v->as)) return *s;
  fail(name, "\"" + std::string(name) + "\" is not a word", "expected a word");
}

void LayerBuilder::expect_rank(int rank, std::string_view layout) const {
  if (shape(input()).rank() != rank)
    fail("expects an input " + std::string(layout) + ", got " + to_string(shape(input())));
}

// --- tensors ----------------------------------------------------------------------------------------------------

TensorId LayerBuilder::new_tensor(const Shape& shape, DType dtype, Category category) {
  graph_.buffers.push_back({checked_mul(shape.elements(), size_of(dtype)), category, call_.layer});
  Tensor t;
  t.shape = shape;
  t.dtype = dtype;
  t.buffer = size_of_vector(graph_.buffers) - 1;
  graph_.tensors.push_back(t);
  return size_of_vector(graph_.tensors) - 1;
}

TensorId LayerBuilder::parameter(std::string_view name, const Shape& shape) {
  const auto below = [&](const std::string& path) {
    return path.empty() || name.empty() ? path + std::string(name) : path + "." + std::string(name);
  };
  const std::string path = below(call_.path);
  if (call_.tied != nullptr)
    for (const ParameterTensor& p : *call_.tied)
      if (p.name == below(call_.tied_path)) {
        if (!(tensor(graph_, p.tensor).shape == shape))
          fail("its " + std::string(name) + " is " + to_string(shape) + ", but the one it is tied to is " +
               to_string(tensor(graph_, p.tensor).shape));
        return p.tensor;
      }
  const TensorId t = new_tensor(shape, run_.precision, Category::parameters);
  const bool trainable = !call_.frozen;
  tensor(graph_, t).requires_grad = trainable && training();
  graph_.parameters.push_back({t, path, call_.layer, trainable});
  graph_.model_storage.push_back(t);
  Layer& layer = graph_.layers[static_cast<std::size_t>(call_.layer)];
  layer.parameters = checked_add(layer.parameters, shape.elements());
  return t;
}

TensorId LayerBuilder::buffer(std::string_view, const Shape& shape, DType dtype) {
  const TensorId t = new_tensor(shape, dtype, Category::buffers);
  graph_.model_storage.push_back(t);
  return t;
}

void LayerBuilder::replace_buffer(TensorId t) {
  const Tensor old = tensor(graph_, t);
  const TensorId fresh = emit("aten::add", Elementwise{old.shape.elements()}, {t}, old.shape, old.dtype);
  graph_.buffers[static_cast<std::size_t>(tensor(graph_, fresh).buffer)].category = Category::buffers;
  graph_.replaced_buffers.emplace_back(old.buffer, tensor(graph_, fresh).buffer);
}

TensorId LayerBuilder::target(const Shape& shape, DType dtype) {
  const TensorId t = new_tensor(shape, dtype, Category::inputs);
  graph_.inputs.push_back(t);
  return t;
}

// --- forward ----------------------------------------------------------------------------------------------------

TensorId LayerBuilder::emit(std::string_view name, const Primitive& what, std::span<const TensorId> reads,
                            const Shape& shape, DType dtype) {
  Op op{name, what, call_.layer, append_operands(graph_, reads), {}};
  const TensorId result = new_tensor(shape, dtype, Category::activations);
  graph_.operands.push_back(result);
  op.writes = {op.reads.end, size_of_vector(graph_.operands)};
  graph_.forward_ops.push_back(op);
  return result;
}

TensorId LayerBuilder::emit(std::string_view name, const Primitive& what, std::initializer_list<TensorId> reads,
                            const Shape& shape, DType dtype) {
  return emit(name, what, std::span<const TensorId>(reads.begin(), reads.size()), shape, dtype);
}

std::vector<TensorId> LayerBuilder::emit_many(std::string_view name, const Primitive& what,
                                              std::initializer_list<TensorId> reads,
                                              std::span<const OutputSpec> outputs) {
  Op op{name, what, call_.layer, append_operands(graph_, reads), {}};
  std::vector<TensorId> results;
  for (const OutputSpec& o : outputs) results.push_back(new_tensor(o.shape, o.dtype, Category::activations));
  op.writes = append_operands(graph_, results);
  graph_.forward_ops.push_back(op);
  return results;
}

TensorId LayerBuilder::alias(TensorId t, const Shape& shape, bool contiguous) {
  Tensor copy = tensor(graph_, t);
  copy.shape = shape;
  copy.contiguous = contiguous;
  copy.requires_grad = false;
  copy.producer = kNone;
  copy.replaced_by = kNone;
  graph_.tensors.push_back(copy);
  return size_of_vector(graph_.tensors) - 1;
}

TensorId LayerBuilder::emit_in_place(std::string_view name, const Primitive& what,
                                     std::initializer_list<TensorId> reads) {
  Op op{name, what, call_.layer, append_operands(graph_, reads), {}};
  op.writes = {op.reads.end, op.reads.end};
  graph_.forward_ops.push_back(op);
  const TensorId before = *reads.begin();
  const TensorId after = alias(before, tensor(graph_, before).shape, tensor(graph_, before).contiguous);
  tensor(graph_, before).replaced_by = after;
  return after;
}

TensorId LayerBuilder::view(TensorId t, const Shape& shape, std::string_view name, bool contiguous) {
  const TensorId v = alias(t, shape, contiguous);
  if (NodeBuilder n = node(name, v, {t})) n.give(t, n.view(n.grad()));
  return v;
}

NodeBuilder LayerBuilder::node(std::string_view name, std::span<const TensorId> outputs,
                               std::span<const TensorId> inputs) {
  NodeBuilder builder;
  const bool wanted = std::ranges::any_of(inputs, [&](TensorId t) { return t != kNone && requires_grad(t); });
  if (!wanted) return builder;
  AutogradNode n;
  n.name = name;
  n.layer = call_.layer;
  n.outputs = append_operands(graph_, outputs);
  n.saved = {size_of_vector(graph_.saved), size_of_vector(graph_.saved)};
  n.ops = {size_of_vector(graph_.backward_ops), size_of_vector(graph_.backward_ops)};
  n.locals = {size_of_vector(graph_.locals), size_of_vector(graph_.locals)};
  n.edges = {size_of_vector(graph_.edges), size_of_vector(graph_.edges)};
  const NodeId id = size_of_vector(graph_.nodes);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Tensor& t = tensor(graph_, outputs[i]);
    t.requires_grad = true;
    t.producer = id;
    t.output_index = static_cast<std::int32_t>(i);
    graph_.locals.push_back({checked_mul(t.shape.elements(), size_of(t.dtype)), kNone, true, false});
  }
  n.locals.end = size_of_vector(graph_.locals);
  graph_.nodes.push_back(n);
  builder.graph_ = &graph_;
  builder.node_ = id;
  return builder;
}

NodeBuilder LayerBuilder::node(std::string_view name, TensorId output, std::initializer_list<TensorId> inputs) {
  return node(name, std::span<const TensorId>(&output, 1), std::span<const TensorId>(inputs.begin(), inputs.size()));
}

const std::vector<TensorId>& LayerBuilder::lower(const Call& call, std::span<const TensorId> inputs) {
  call_ = call;
  inputs_.assign(inputs.begin(), inputs.end());
  outputs_.clear();
  bind();
  const auto count = static_cast<int>(inputs.size());
  if (count < call.def->min_inputs || count > call.def->max_inputs)
    fail("takes " +
         (call.def->min_inputs == call.def->max_inputs ? std::to_string(call.def->min_inputs)
                                                       : "at least " + std::to_string(call.def->min_inputs)) +
         " input" + (call.def->min_inputs == 1 && call.def->max_inputs == 1 ? "" : "s") + ", got " +
         std::to_string(count));
  call.def->lower(*this);
  return outputs_;
}

}  // namespace gpuplan

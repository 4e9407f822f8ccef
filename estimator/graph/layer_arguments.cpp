// The arguments of a layer call, bound to the parameters of its definition as Python binds them.
#include <charconv>
#include <optional>
#include <stdexcept>

#include "estimator/base/error.h"
#include "estimator/graph/layer.h"

namespace gpuplan {
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

// The whole of a text; nothing where it is no such number.
template <class Number>
std::optional<Number> number(std::string_view text) {
  Number n = 0;
  const auto r = std::from_chars(text.data(), text.data() + text.size(), n);
  if (r.ec != std::errc{} || r.ptr != text.data() + text.size()) return std::nullopt;
  return n;
}

// Defaults are written as Python writes them; only these forms occur.
Value default_value(std::string_view text) {
  if (text == "None") return {None{}};
  if (text == "True") return {true};
  if (text == "False") return {false};
  if (const std::optional<std::int64_t> integer = number<std::int64_t>(text)) return {*integer};
  if (const std::optional<double> real = number<double>(text)) return {*real};
  return {std::string(text)};
}

}  // namespace

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
  // Most ask by the literal that the definition has, too, or by a name of another length.
  for (std::size_t i = 0; i < ps.size(); ++i)
    if (ps[i].name.size() == name.size() && (ps[i].name.data() == name.data() || ps[i].name == name))
      return static_cast<int>(i);
  return -1;
}

LayerBuilder::Bound& LayerBuilder::place_of(const Argument& a, std::size_t& position) {
  const LayerDef& def = *call_.def;
  if (a.name.empty()) {
    if (position >= def.parameters.size())
      throw Error(std::string(def.name) + " takes at most " + std::to_string(def.parameters.size()) +
                  " positional arguments")
          .at(a.mark)
          .help("its parameters are: " + join_names(def.parameters));
    return bound_[def.parameters[position].variadic ? position : position++];
  }
  const int named = index_of(a.name);
  if (named < 0) unknown_keyword(def, a);
  Bound& b = bound_[static_cast<std::size_t>(named)];
  if (b.value != nullptr)
    throw Error(std::string(def.name) + ": \"" + a.name + "\" is given twice")
        .at(a.name_mark.line > 0 ? a.name_mark : a.mark);
  return b;
}

void LayerBuilder::bind() {
  const LayerDef& def = *call_.def;
  bound_.assign(def.parameters.size(), {});
  std::size_t position = 0;
  const auto& arguments = call_.written->arguments;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Argument& a = arguments[i];
    Bound& b = place_of(a, position);
    if (a.name.empty()) ++b.positionals;
    if (b.value != nullptr) continue;
    b.value = &a.value;
    b.mark = a.mark;
    b.first_positional = static_cast<std::int32_t>(i);
  }
  for (std::size_t i = 0; i < def.parameters.size(); ++i)
    if (bound_[i].value == nullptr && def.parameters[i].default_value.empty())
      throw Error(std::string(def.name) + " needs \"" + std::string(def.parameters[i].name) + "\" (" +
                  std::string(def.parameters[i].doc) + ")")
          .at(call_.written->mark);
}

std::size_t LayerBuilder::declared(std::string_view name) const {
  const int i = index_of(name);
  if (i < 0)
    throw std::logic_error(std::string(call_.def->name) + " reads an undeclared parameter " + std::string(name));
  return static_cast<std::size_t>(i);
}

Value LayerBuilder::value_of(std::string_view name) const {
  const std::size_t i = declared(name);
  return bound_[i].value != nullptr ? *bound_[i].value : default_value(call_.def->parameters[i].default_value);
}

bool LayerBuilder::given(std::string_view name) const {
  const Value* v = argument(name);
  return v != nullptr && !std::holds_alternative<None>(v->as);
}

// What follows reads a number or a word where it is, given or default, without a Value made of it: a plan asks for
// thousands.

bool LayerBuilder::is_none(std::string_view name) const {
  const std::size_t i = declared(name);
  if (const Value* v = bound_[i].value) return std::holds_alternative<None>(v->as);
  return call_.def->parameters[i].default_value == "None";
}

std::int64_t LayerBuilder::integer(std::string_view name) const {
  const std::size_t at = declared(name);
  if (const Value* v = bound_[at].value) {
    if (const auto* i = std::get_if<std::int64_t>(&v->as)) return *i;
  } else if (const auto n = number<std::int64_t>(call_.def->parameters[at].default_value)) {
    return *n;
  }
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
  const bool inferable = call_.def->parameters[declared(name)].type == ParameterType::size;
  return listed(name, inferable ? std::optional<std::int64_t>(-1) : std::nullopt);
}

std::vector<std::int64_t> LayerBuilder::sizes(std::string_view name) const { return listed(name, batch()); }

std::int64_t LayerBuilder::batch() const {
  const Shape of = graph_.inputs.empty() ? Shape{} : shape(graph_.inputs.front());
  return of.rank() > 0 ? of[0] : run_.batch;
}

std::vector<std::int64_t> LayerBuilder::listed(std::string_view name, std::optional<std::int64_t> inferred) const {
  const Bound& b = bound_[declared(name)];
  std::vector<std::int64_t> out;
  const auto add = [&](const Value& v) {
    if (const auto* i = std::get_if<std::int64_t>(&v.as))
      out.push_back(*i);
    else if (inferred && std::holds_alternative<Inferred>(v.as))
      out.push_back(*inferred);
    else
      fail(name, "\"" + std::string(name) + "\" is not a list of integers", "expected integers");
  };
  if (b.positionals > 1) {
    for (std::int32_t i = 0; i < b.positionals; ++i)
      add(call_.written->arguments[static_cast<std::size_t>(b.first_positional + i)].value);
    return out;
  }
  const Value value = value_of(name);
  if (const auto* list = std::get_if<std::vector<Value>>(&value.as)) {
    for (const Value& v : *list) add(v);
  } else {
    add(value);
  }
  return out;
}

Pair LayerBuilder::pair(std::string_view name) const {
  const std::size_t at = declared(name);
  const Value* const given = bound_[at].value;
  Pair p;
  if (const auto* i = given != nullptr ? std::get_if<std::int64_t>(&given->as) : nullptr) {
    p = {*i, *i};
  } else if (const auto n = given == nullptr ? number<std::int64_t>(call_.def->parameters[at].default_value)
                                             : std::optional<std::int64_t>()) {
    p = {*n, *n};
  } else {
    const std::vector<std::int64_t> v = integers(name);
    if (v.size() != 1 && v.size() != 2)
      fail(name, "\"" + std::string(name) + "\" has " + std::to_string(v.size()) + " values",
           "expected one or two integers");
    p = {v[0], v.back()};
  }
  for (const std::int64_t n : {p.h, p.w})
    if (n != static_cast<std::int32_t>(n))
      fail(name, "\"" + std::string(name) + "\" is out of range", "expected integers within 32 bits");
  return p;
}

double LayerBuilder::real(std::string_view name) const {
  const std::size_t at = declared(name);
  if (const Value* v = bound_[at].value) {
    if (const auto* i = std::get_if<std::int64_t>(&v->as)) return static_cast<double>(*i);
    if (const auto* d = std::get_if<double>(&v->as)) return *d;
  } else if (const auto n = number<double>(call_.def->parameters[at].default_value)) {
    return *n;
  }
  fail(name, "\"" + std::string(name) + "\" is not a number", "expected a number");
}

bool LayerBuilder::is_integer(std::string_view name) const {
  const Value* v = bound_[declared(name)].value;
  return v != nullptr && std::holds_alternative<std::int64_t>(v->as);
}

bool LayerBuilder::boolean(std::string_view name) const {
  const std::size_t at = declared(name);
  if (const Value* v = bound_[at].value) {
    if (const auto* b = std::get_if<bool>(&v->as)) return *b;
  } else if (const std::string_view text = call_.def->parameters[at].default_value; text == "True" || text == "False") {
    return text == "True";
  }
  fail(name, "\"" + std::string(name) + "\" is not a boolean", "expected True or False");
}

bool LayerBuilder::is_word(std::string_view name) const {
  const Value* v = argument(name);
  return v != nullptr && std::holds_alternative<std::string>(v->as);
}

std::string_view LayerBuilder::word(std::string_view name) const {
  const Value* v = argument(name);
  if (v == nullptr) return call_.def->parameters[declared(name)].default_value;
  if (const auto* s = std::get_if<std::string>(&v->as)) return *s;
  fail(name, "\"" + std::string(name) + "\" is not a word", "expected a word");
}

void LayerBuilder::expect_rank(int rank, std::string_view layout) const {
  if (shape(input()).rank() != rank)
    fail("expects an input " + std::string(layout) + ", got " + to_string(shape(input())));
}

}  // namespace gpuplan

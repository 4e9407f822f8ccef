#include "estimator/compare/mixed_spec.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "estimator/compare/align.h"
#include "estimator/spec/expand.h"
#include "estimator/spec/extends.h"
#include "estimator/spec/syntax.h"

namespace gpuplan {
namespace {

using Kind = YamlNode::Kind;

bool same(const YamlNode& a, const YamlNode& b) {
  if (a.kind != b.kind || a.text != b.text || a.quoted != b.quoted || a.children.size() != b.children.size())
    return false;
  for (std::size_t i = 0; i < a.children.size(); ++i)
    if (!same(*a.children[i], *b.children[i])) return false;
  return true;
}

std::string type_of(std::string_view call) { return std::string(call.substr(0, call.find('('))); }

// [3, 224, 224], [a, b]: one value. A list of layers has calls and maps.
bool is_plain_list(const YamlNode& list) {
  return std::ranges::all_of(list.children, [](const YamlNode* item) {
    return item->kind == Kind::scalar && item->text.find('(') == std::string::npos;
  });
}

// An entry of a list as align() takes it: its name, its type, and all of it.
SpecPart entry_of(const YamlNode& node) {
  SpecPart part;
  if (node.kind == Kind::scalar) {
    part.value = type_of(node.text);
    SpecPart rest;
    rest.key = "arguments";
    rest.value = node.text;
    part.parts.push_back(std::move(rest));
    return part;
  }
  const YamlNode* const name = node.kind == Kind::map ? node.find("name") : nullptr;
  if (node.kind == Kind::map && name == nullptr && node.children.size() == 2) {
    part = entry_of(*node.children[1]);
    part.key = node.children[0]->text;
    return part;
  }
  if (name != nullptr) part.key = name->text;
  part.list = node.kind == Kind::list;
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    if (node.kind == Kind::list) {
      part.entries.push_back(entry_of(*node.children[i]));
      continue;
    }
    SpecPart one = entry_of(*node.children[i + 1]);
    one.key = node.children[i++]->text;
    part.parts.push_back(std::move(one));
  }
  return part;
}

std::vector<SpecPart> entries_of(const YamlNode& list) {
  std::vector<SpecPart> entries;
  entries.reserve(list.children.size());
  for (const YamlNode* item : list.children) entries.push_back(entry_of(*item));
  return entries;
}

struct Argument {
  std::size_t from = 0, length = 0;
};

// Those of "Conv2d(3, ${min(a, b)}, (7, 7))", without the blanks around them; nothing where that is no call.
std::optional<std::vector<Argument>> arguments_of(std::string_view text) {
  const std::size_t open = text.find('(');
  if (open == std::string_view::npos || open == 0 || !text.ends_with(')')) return std::nullopt;
  std::vector<Argument> arguments;
  int depth = 0;
  std::size_t from = open + 1;
  const auto add = [&](std::size_t end) {
    while (from < end && text[from] == ' ') ++from;
    std::size_t last = end;
    while (last > from && text[last - 1] == ' ') --last;
    if (last > from) arguments.push_back({from, last - from});
    from = end + 1;
  };
  for (std::size_t i = open + 1; i + 1 < text.size(); ++i) {
    const char c = text[i];
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    if (depth < 0 || c == '\'' || c == '"') return std::nullopt;
    if (c == ',' && depth == 0) add(i);
  }
  add(text.size() - 1);
  return arguments;
}

using Position = std::tuple<int, int>;  // line, column

// From where to where a node stands; false where it stands in another file.
bool contains(const YamlNode* node, const Place& place) {
  if (node == nullptr || node->mark.source == nullptr || node->mark.source->name != place.file) return false;
  const Position at(place.line, place.column);
  const Position from(node->mark.line, node->mark.column);
  Position last = from;
  const auto reach = [&](const auto& self, const YamlNode& part) -> void {
    const SourceMark end =
        part.kind == Kind::scalar && !part.text.empty() ? part.mark_at(part.text.size() - 1, 1) : part.mark;
    last = std::max({last, Position(end.line, end.column),
                     Position(part.mark.line, part.mark.column + std::max(part.mark.length, 1) - 1)});
    for (const YamlNode* child : part.children) self(self, *child);
  };
  reach(reach, *node);
  return from <= at && at <= last;
}

bool contains(const YamlNode* key, const YamlNode* node, const Place& place) {
  return place.line > 0 && (contains(key, place) || contains(node, place));
}

}  // namespace

MixedSpec::MixedSpec(const WrittenModel& base, const WrittenModel& now) {
  const YamlNode& before = read_document(base.source, base.options, arena_, sources_);
  const YamlNode& after = read_document(now.source, now.options, arena_, sources_);
  root_ = compare(before, after);
}

void MixedSpec::add_edit(Part& part) {
  part.edit = edits_.size();
  edits_.push_back(part);
}

// A call as a map of its arguments, by name or position, whose text is the type; null for any other scalar.
const YamlNode* MixedSpec::opened_call(const YamlNode& scalar) {
  const auto arguments = arguments_of(scalar.text);
  if (!arguments) return nullptr;
  YamlNode call;
  call.kind = Kind::map;
  call.quoted = true;  // its text is no longer that of the source: marks are of the whole
  call.mark = scalar.mark;
  call.text = type_of(scalar.text);
  const auto piece = [&](std::size_t from, std::size_t length, std::string text) {
    YamlNode node;
    node.kind = Kind::scalar;
    node.quoted = true;
    node.mark = scalar.mark_at(from, length);
    node.text = std::move(text);
    return &arena_.emplace_back(std::move(node));
  };
  for (std::size_t i = 0; i < arguments->size(); ++i) {
    const auto [from, length] = (*arguments)[i];
    const std::string text = scalar.text.substr(from, length);
    const std::size_t equals = text.find('=');
    const bool named = equals != std::string::npos && text.find_first_of("([{$") > equals;
    std::string key = named ? text.substr(0, equals) : std::to_string(i);
    while (key.ends_with(' ')) key.pop_back();
    call.children.push_back(piece(from, length, std::move(key)));
    call.children.push_back(piece(from, length, text));
  }
  return &arena_.emplace_back(std::move(call));
}

MixedSpec::Part MixedSpec::compare(const YamlNode& base, const YamlNode& now) {
  Part part;
  part.base = &base;
  part.now = &now;
  if (same(base, now)) return part;
  if (base.kind == Kind::map && now.kind == Kind::map) {
    compare_maps(base, now, part);
  } else if (base.kind == Kind::list && now.kind == Kind::list && !is_plain_list(base) && !is_plain_list(now)) {
    compare_lists(base, now, part);
  } else {
    const bool scalars = base.kind == Kind::scalar && now.kind == Kind::scalar;
    const YamlNode* const before = scalars ? opened_call(base) : nullptr;
    const YamlNode* const after = scalars ? opened_call(now) : nullptr;
    if (before == nullptr || after == nullptr || before->text != after->text) {
      add_edit(part);
      return part;
    }
    part.base = before;
    part.now = after;
    compare_maps(*before, *after, part);
  }
  if (part.parts.empty()) add_edit(part);  // other blanks in a call, another order of keys
  return part;
}

// In the order of the base, what is new where it stands now.
void MixedSpec::compare_maps(const YamlNode& base, const YamlNode& now, Part& part) {
  const auto keys_of = [](const YamlNode& map) {
    std::unordered_map<std::string_view, std::size_t> keys;
    for (std::size_t i = 0; i + 1 < map.children.size(); i += 2) keys.emplace(map.children[i]->text, i);
    return keys;
  };
  const auto befores = keys_of(base), afters = keys_of(now);
  bool differ = false;
  const auto add_new = [&](std::size_t& k) {
    for (; k < now.children.size() && !befores.contains(now.children[k]->text); k += 2) {
      Part& came = part.parts.emplace_back();
      came.now_key = now.children[k];
      came.now = now.children[k + 1];
      add_edit(came);
      differ = true;
    }
  };
  std::size_t k = 0;
  add_new(k);
  for (std::size_t i = 0; i + 1 < base.children.size(); i += 2) {
    const auto after = afters.find(base.children[i]->text);
    if (after == afters.end()) {
      Part& went = part.parts.emplace_back();
      went.base_key = base.children[i];
      went.base = base.children[i + 1];
      add_edit(went);
      differ = true;
      continue;
    }
    Part both = compare(*base.children[i + 1], *now.children[after->second + 1]);
    both.base_key = base.children[i];
    both.now_key = now.children[after->second];
    if (both.edit) edits_[*both.edit] = both;
    differ = differ || both.edit || !both.parts.empty();
    part.parts.push_back(std::move(both));
    k = after->second + 2;
    add_new(k);
  }
  while (k < now.children.size()) {
    add_new(k);
    k += 2;
  }
  if (!differ) part.parts.clear();
}

void MixedSpec::compare_lists(const YamlNode& base, const YamlNode& now, Part& part) {
  for (const Pairing& pair : align(entries_of(base), entries_of(now))) {
    if (pair.base && pair.now) {
      part.parts.push_back(compare(*base.children[*pair.base], *now.children[*pair.now]));
      continue;
    }
    Part& one = part.parts.emplace_back();
    (pair.base ? one.base : one.now) = pair.base ? base.children[*pair.base] : now.children[*pair.now];
    add_edit(one);
  }
}

std::vector<std::size_t> MixedSpec::edits_of(const Cause& cause) const {
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < edits_.size(); ++i) {
    const Part& edit = edits_[i];
    const bool now = cause.kind != Cause::Kind::removed && contains(edit.now_key, edit.now, cause.at);
    const bool before = cause.kind != Cause::Kind::added && contains(edit.base_key, edit.base, cause.was);
    if (now || before) numbers.push_back(i);
  }
  return numbers;
}

// The value of one part, and its key in a map; null where the mix has nothing there.
const YamlNode* MixedSpec::chosen(const Part& part, const std::vector<bool>& made, const YamlNode*& key,
                                  YamlArena& arena) {
  const bool now = part.edit && made[*part.edit];
  key = now ? part.now_key : part.base_key;
  if (part.edit) return now ? part.now : part.base;
  return &mixed(part, made, arena);
}

const YamlNode& MixedSpec::mixed(const Part& part, const std::vector<bool>& made, YamlArena& arena) {
  if (part.edit) return made[*part.edit] ? *part.now : *part.base;
  if (part.parts.empty()) return *part.base;
  YamlNode node = *part.base;
  node.children.clear();
  std::string arguments;
  for (const Part& one : part.parts) {
    const YamlNode* key = nullptr;
    const YamlNode* const value = chosen(one, made, key, arena);
    if (value == nullptr) continue;
    arguments += (arguments.empty() ? "" : ", ") + value->text;
    if (node.kind == Kind::map) node.children.push_back(key);
    node.children.push_back(value);
  }
  if (node.kind == Kind::map && !node.text.empty()) {  // a call
    node.kind = Kind::scalar;
    node.text += "(" + arguments + ")";
    node.children.clear();
  }
  return arena.emplace_back(std::move(node));
}

Model MixedSpec::with(const std::vector<bool>& made, const std::vector<Variable>& set) const {
  YamlArena arena;
  Model model = expand(parse_spec(mixed(root_, made, arena), "model"), set);
  model.sources = sources_;
  return model;
}

}  // namespace gpuplan

#include "estimator/graph/same_body.h"

#include <algorithm>
#include <variant>

namespace gpuplan {
namespace {

bool same_place(const SourceMark& a, const SourceMark& b) {
  return a.line == b.line && a.column == b.column && a.source == b.source;
}

// Most arguments are integers.
bool same_value(const Value& a, const Value& b) {
  const auto* n = std::get_if<std::int64_t>(&a.as);
  const auto* m = std::get_if<std::int64_t>(&b.as);
  return n != nullptr && m != nullptr ? *n == *m : a == b;
}

bool same_argument(const Argument& a, const Argument& b) { return same_value(a.value, b.value) && a.name == b.name; }

bool same(const LayerCall& a, const LayerCall& b) {
  return same_place(a.mark, b.mark) && a.type == b.type && std::ranges::equal(a.arguments, b.arguments, same_argument);
}
bool same(const Block& a, const Block& b) { return same_block(a, b); }
bool same(const Repeat& a, const Repeat& b) { return a.loop == b.loop && same_body(a.items, b.items); }
bool same(const Residual& a, const Residual& b) {
  return a.inplace == b.inplace && a.shortcut_first == b.shortcut_first && same_body(a.body, b.body) &&
         same_body(a.shortcut, b.shortcut);
}
bool same(const Parallel& a, const Parallel& b) {
  const auto same_branch = [](const Parallel::Branch& x, const Parallel::Branch& y) {
    return x.name == y.name && same_body(x.body, y.body);
  };
  return a.join == b.join && a.dim == b.dim && std::ranges::equal(a.branches, b.branches, same_branch);
}

bool same_node(const Node& a, const Node& b) {
  if (!same_place(a.mark, b.mark) || a.name != b.name || a.from != b.from || a.tie != b.tie || a.frozen != b.frozen ||
      a.checkpoint != b.checkpoint || a.reentrant != b.reentrant || a.keep != b.keep || a.when != b.when ||
      a.what.index() != b.what.index())
    return false;
  return std::visit([&](const auto& what) { return same(what, std::get<std::remove_cvref_t<decltype(what)>>(b.what)); },
                    a.what);
}

struct GoesByMore {
  bool operator()(const LayerCall&) const { return false; }
  bool operator()(const Block& b) const { return goes_by_more(b.body); }
  bool operator()(const Repeat& r) const { return goes_by_more(r.items); }
  bool operator()(const Residual& r) const { return goes_by_more(r.body) || goes_by_more(r.shortcut); }
  bool operator()(const Parallel& p) const {
    return std::ranges::any_of(p.branches, [](const Parallel::Branch& b) { return goes_by_more(b.body); });
  }
};

}  // namespace

bool goes_by_more(const Body& body) {
  return std::ranges::any_of(body, [](const Node& node) {
    return !node.tie.empty() || node.when.has_value() || std::visit(GoesByMore{}, node.what);
  });
}

bool same_body(const Body& a, const Body& b) { return std::ranges::equal(a, b, same_node); }

bool same_block(const Block& a, const Block& b) {
  return a.block == b.block && a.order.made == b.order.made && a.order.registered == b.order.registered &&
         same_body(a.body, b.body);
}

}  // namespace gpuplan

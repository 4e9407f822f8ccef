#include "estimator/distributed/block_sequence.h"

#include <algorithm>
#include <string_view>
#include <variant>

namespace gpuplan {
namespace {

bool is_numbered_block(const Node& node) {
  const std::string_view last = std::string_view(node.name).substr(node.name.rfind('.') + 1);
  return std::holds_alternative<Block>(node.what) && !last.empty() && last.find_first_not_of("0123456789") == last.npos;
}

class SequenceFinder {
 public:
  /// `like`: the one at that place, however long it is.
  explicit SequenceFinder(Body& layers, const BlockSequence* like = nullptr) : like_(like) { visit(layers, ""); }
  BlockSequence take() { return std::move(longest_); }

 private:
  void visit(Body& body, const std::string& path) {
    for (std::size_t i = 0; i < body.size();) {
      if (const auto* repeat = std::get_if<Repeat>(&body[i].what)) {
        offer(body, path, i, i + 1, std::ssize(repeat->items));
      } else if (is_numbered_block(body[i])) {
        std::size_t end = i;
        while (end < body.size() && is_numbered_block(body[end])) ++end;
        offer(body, path, i, end, static_cast<std::int64_t>(end - i));
        i = end;
        continue;
      } else if (auto* block = std::get_if<Block>(&body[i].what)) {
        around_.emplace_back(&body, i);
        visit(block->body, path.empty() ? body[i].name : path + "." + body[i].name);
        around_.pop_back();
      }
      ++i;
    }
  }

  void offer(Body& body, const std::string& path, std::size_t begin, std::size_t end, std::int64_t blocks) {
    if (like_ != nullptr && (path != like_->path || begin != like_->begin)) return;
    if (blocks > longest_.blocks) longest_ = {&body, begin, end, blocks, path, around_};
  }

  const BlockSequence* like_;
  BlockSequence longest_;
  std::vector<std::pair<Body*, std::size_t>> around_;
};

// Whether an entry behind numbered blocks names one that is not among the first `few`.
bool is_named_behind(const BlockSequence& s, std::int64_t few) {
  if (std::holds_alternative<Repeat>((*s.body)[s.begin].what)) return false;
  for (std::size_t i = s.end; i < s.body->size(); ++i)
    for (const std::string& from : (*s.body)[i].from)
      for (std::size_t b = s.begin + static_cast<std::size_t>(few); b < s.end; ++b)
        if (entry_of(*s.body, from) == (*s.body)[b].name) return true;
  return false;
}

}  // namespace

BlockSequence longest_sequence(Body& layers) { return SequenceFinder(layers).take(); }

BlockSequence sequence_like(Body& layers, const BlockSequence& other) { return SequenceFinder(layers, &other).take(); }

std::string entry_of(const Body& body, const std::string& reference) {
  std::string name = reference;
  while (std::ranges::find(body, name, &Node::name) == body.end()) {
    const std::size_t dot = name.rfind('.');
    if (dot == name.npos) return "";
    name.resize(dot);
  }
  return name;
}

void keep_blocks(BlockSequence& s, std::int64_t first, std::int64_t count) {
  const auto begin = static_cast<std::ptrdiff_t>(first), end = static_cast<std::ptrdiff_t>(first + count);
  if (auto* repeat = std::get_if<Repeat>(&(*s.body)[s.begin].what)) {
    repeat->items = Body(repeat->items.begin() + begin, repeat->items.begin() + end);
    return;
  }
  const std::vector<std::string> from = (*s.body)[s.begin].from;
  const std::vector<SourceMark> marks = (*s.body)[s.begin].from_marks;
  const auto blocks = s.body->begin() + static_cast<std::ptrdiff_t>(s.begin);
  s.body->erase(blocks + end, blocks + static_cast<std::ptrdiff_t>(s.blocks));
  s.body->erase(blocks, blocks + begin);
  s.end = s.begin + static_cast<std::size_t>(count);
  Node& given = (*s.body)[s.begin];  // the first one is given what the first of all was
  if (!from.empty()) given.from = from;
  if (!from.empty()) given.from_marks = marks;
}

Model first_blocks(Model model) {
  constexpr std::int64_t kFew = 2;  // the second one is given what the first one returns
  BlockSequence s = longest_sequence(model.layers);
  if (s.blocks <= kFew || is_named_behind(s, kFew)) return model;
  keep_blocks(s, 0, kFew);
  return model;
}

}  // namespace gpuplan

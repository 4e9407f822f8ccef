#include "estimator/spec/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <unordered_map>

#include "estimator/spec/limits.h"
#include "estimator/spec/yaml_text.h"

namespace gpuplan {
namespace {

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const Source& source, YamlArena& arena)
      : source_(source), arena_(arena), bom_(byte_order_mark_bytes(source.text)) {}

  const YamlNode* root() const { return root_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1)
      throw Error("a second YAML document in the file").at(mark_of(mark)).label("expected one document");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    YamlNode& node = make(YamlNode::Kind::null, mark);
    // yaml-cpp puts an absent value at the next token; the caret belongs where the value is missing.
    if (!is_written_null(node.begin)) node.mark = place_of_absent(node.mark);
    add(node);
    remember(anchor, node, nodes_ - 1);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end())
      throw Error("an alias to an anchor that contains it").at(mark_of(mark)).label("would never end");
    if (expects_key()) throw Error("an alias as a key").at(mark_of(mark)).label("write the key out");
    count(found->second.nodes, mark);
    add(*found->second.node);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode& node = make(YamlNode::Kind::scalar, mark);
    refuse_tag(node, tag);
    node.quoted = tag == "!";
    node.in_flow = flow_depth_ > 0;
    place_text(node, value);
    if (value.size() > kMaxScalarBytes)
      throw Error("a text of " + std::to_string(value.size()) + " bytes; at most " + std::to_string(kMaxScalarBytes))
          .at(node.mark);
    add(node);
    remember(anchor, node, nodes_ - 1);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    open(YamlNode::Kind::list, mark, tag, anchor, style);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    open(YamlNode::Kind::map, mark, tag, anchor, style);
  }
  void OnMapEnd() override {
    refuse_duplicate_keys(*open_.back().node);
    close();
  }

 private:
  struct Open {
    YamlNode* node;
    YAML::anchor_t anchor;
    std::int64_t nodes_before;
    bool flow;
  };
  struct Anchored {
    const YamlNode* node;
    std::int64_t nodes;  // the anchor's subtree, aliases within it counted in full
  };

  SourceMark mark_of(const YAML::Mark& mark) const {
    SourceMark out;
    out.source = &source_;
    out.line = std::max(mark.line, 0) + 1;
    out.column = std::max(mark.column, 0) + 1;
    return out;
  }

  YamlNode& make(YamlNode::Kind kind, const YAML::Mark& mark) {
    count(1, mark);
    YamlNode& node = arena_.emplace_back();
    node.kind = kind;
    node.mark = mark_of(mark);
    node.begin = std::min(static_cast<std::size_t>(std::max(mark.pos, 0)) + bom_, source_.text.size());
    return node;
  }

  void count(std::int64_t nodes, const YAML::Mark& mark) {
    nodes_ += nodes;
    if (nodes_ > kMaxYamlNodes)
      throw Error("more than " + std::to_string(kMaxYamlNodes) + " YAML nodes, aliases followed").at(mark_of(mark));
  }

  bool is_written_null(std::size_t at) const {
    const std::string_view rest = std::string_view(source_.text).substr(at);
    return rest.starts_with("~") || rest.starts_with("null") || rest.starts_with("Null") || rest.starts_with("NULL");
  }

  // The key whose value is absent, or the dash of an empty list item.
  SourceMark place_of_absent(const SourceMark& otherwise) const {
    if (open_.empty()) return otherwise;
    const YamlNode& parent = *open_.back().node;
    if (parent.kind == YamlNode::Kind::map && parent.children.size() % 2 == 1) return parent.children.back()->mark;
    return parent.children.empty() ? parent.mark : parent.children.back()->mark;
  }

  void refuse_tag(const YamlNode& node, const std::string& tag) const {
    const bool written = node.begin < source_.text.size() && source_.text[node.begin] == '!';
    const bool known = tag.empty() || tag == "?" || (tag == "!" && node.kind == YamlNode::Kind::scalar);
    if (written || !known) throw Error("a YAML tag").at(node.mark).label("tags are not part of the format");
  }

  // yaml-cpp's mark of a scalar is its opening quote, or the anchor before it.
  void place_text(YamlNode& node, const std::string& value) const {
    const std::string_view text = source_.text;
    if (node.begin < text.size() && text[node.begin] == '&') {
      const std::size_t blank = std::min(text.find_first_of(" \t\r\n", node.begin), text.size());
      const std::size_t content = std::min(text.find_first_not_of(" \t", blank), text.size());
      node.mark.column += static_cast<int>(content - node.begin);
      node.begin = content;
    }
    node.text = value;
    const bool opening =
        node.quoted && node.begin < text.size() && (text[node.begin] == '"' || text[node.begin] == '\'');
    if (opening) refuse_unclosed(node);
    const std::size_t first = node.begin + (opening ? 1 : 0);
    node.verbatim =
        text.substr(std::min(first, text.size()), value.size()) == value && value.find('\n') == std::string::npos;
    if (node.verbatim) node.begin = first;
    node.mark.length = node.verbatim ? static_cast<int>(value.size()) + (opening ? 2 : 0) : 1;
  }

  // yaml-cpp takes a quotation mark that is never closed as closed by the end of the file.
  void refuse_unclosed(const YamlNode& node) const {
    const std::string_view text = source_.text;
    const char quote = text[node.begin];
    for (std::size_t i = node.begin + 1; i < text.size(); ++i) {
      const bool escape = text[i] == '\\' && quote == '"';
      const bool doubled = text[i] == quote && quote == '\'' && i + 1 < text.size() && text[i + 1] == quote;
      if (escape || doubled)
        ++i;
      else if (text[i] == quote)
        return;
    }
    throw Error("a quotation mark is not closed").at(node.mark).label("opened here");
  }

  bool expects_key() const {
    return !open_.empty() && open_.back().node->kind == YamlNode::Kind::map &&
           open_.back().node->children.size() % 2 == 0;
  }

  void add(const YamlNode& node) {
    if (open_.empty()) {
      root_ = &node;
      return;
    }
    if (expects_key()) {
      if (node.kind != YamlNode::Kind::scalar) {
        Error error("a key must be a name, not " + describe(node));
        error.help("is a bracket or brace not closed?");
        throw error.at(node.mark);
      }
      if (node.text == "<<" && !node.quoted)
        throw Error("merge keys are not part of the format")
            .at(node.mark)
            .help("use a block's params, vars: or extends: for what is shared");
    }
    open_.back().node->children.push_back(&node);
  }

  void open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            YAML::EmitterStyle::value style) {
    const std::int64_t before = nodes_;
    YamlNode& node = make(kind, mark);
    refuse_tag(node, tag);
    if (open_.size() >= static_cast<std::size_t>(kMaxYamlDepth))
      throw Error("nested deeper than " + std::to_string(kMaxYamlDepth) + " levels").at(node.mark);
    node.in_flow = flow_depth_ > 0;
    add(node);
    const bool flow = style == YAML::EmitterStyle::Flow;
    flow_depth_ += flow ? 1 : 0;
    open_.push_back({&node, anchor, before, flow});
  }

  void close() {
    const Open& closed = open_.back();
    flow_depth_ -= closed.flow ? 1 : 0;
    remember(closed.anchor, *closed.node, closed.nodes_before);
    open_.pop_back();
  }

  void remember(YAML::anchor_t anchor, const YamlNode& node, std::int64_t nodes_before) {
    if (anchor != YAML::NullAnchor) anchors_[anchor] = {&node, nodes_ - nodes_before};
  }

  static void refuse_duplicate_keys(const YamlNode& map) {
    constexpr std::size_t kFewKeys = 16;
    const auto& kids = map.children;
    const auto refuse = [](const YamlNode& first, const YamlNode& again) {
      throw Error("the key \"" + again.text + "\" is given twice")
          .at(again.mark)
          .label("first on line " + std::to_string(first.mark.line));
    };
    if (kids.size() <= 2 * kFewKeys) {
      for (std::size_t i = 2; i < kids.size(); i += 2)
        for (std::size_t j = 0; j < i; j += 2)
          if (kids[i]->text == kids[j]->text) refuse(*kids[j], *kids[i]);
      return;
    }
    std::unordered_map<std::string_view, const YamlNode*> seen;
    for (std::size_t i = 0; i < kids.size(); i += 2) {
      const auto [first, fresh] = seen.emplace(kids[i]->text, kids[i]);
      if (!fresh) refuse(*first->second, *kids[i]);
    }
  }

  const Source& source_;
  YamlArena& arena_;
  std::size_t bom_;
  const YamlNode* root_ = nullptr;
  std::vector<Open> open_;
  std::unordered_map<YAML::anchor_t, Anchored> anchors_;
  std::int64_t nodes_ = 0;
  int flow_depth_ = 0;
  int documents_ = 0;
};

// yaml-cpp's own complaints, which are terse, with what usually causes them.
Error syntax_error(const Source& source, const YAML::Exception& e) {
  SourceMark mark;
  mark.source = &source;
  mark.line = std::max(e.mark.line, 0) + 1;
  mark.column = std::max(e.mark.column, 0) + 1;
  Error error("not valid YAML: " + e.msg);
  error.at(mark);
  const std::string_view line = source.line(mark.line);
  const auto dollar = line.find("${");
  const auto brace = line.find_first_of("{[");
  if (dollar != std::string_view::npos && brace < dollar)
    error.help("inside { } and [ ] an expression is quoted: \"${...}\"");
  else if (e.msg.find("anchor is not defined") != std::string::npos)
    error.help("an anchor &name comes before its alias *name");
  else if (e.msg == "illegal map value")
    error.help("text that contains a colon and a space is quoted as a whole");
  return error;
}

}  // namespace

const YamlNode& parse_yaml(const Source& source, YamlArena& arena, const DocumentWords& words) {
  check_yaml_text(source);
  TreeBuilder builder(source, arena);
  try {
    std::istringstream stream(source.text);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& e) {
    throw syntax_error(source, e);
  }
  const YamlNode* root = builder.root();
  if (root == nullptr || root->kind == YamlNode::Kind::null)
    throw Error(source.name + " is empty").help(std::string(words.help));
  if (root->kind != YamlNode::Kind::map)
    throw Error(std::string(words.name) + " must be a map, not " + describe(*root))
        .at(root->mark)
        .help(std::string(words.help));
  return *root;
}

}  // namespace gpuplan

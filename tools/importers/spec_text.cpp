#include "tools/importers/spec_text.h"

#include <algorithm>
#include <stdexcept>

#include "configs/embedded.h"
#include "estimator/base/error.h"

namespace gpuplan {

namespace {

// The first line of `rest` with its end, taken off it.
std::string_view take_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  const std::string_view line = rest.substr(0, end == std::string_view::npos ? rest.size() : end + 1);
  rest.remove_prefix(line.size());
  return line;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t from = text.find_first_not_of(" \n");
  return from == std::string_view::npos ? "" : text.substr(from, text.find_last_not_of(" \n") - from + 1);
}

// What a line has behind its colon, without a comment.
std::string_view value_of(std::string_view line) {
  line.remove_prefix(std::min(line.find(':') + 1, line.size()));
  return trimmed(line.substr(0, line.find(" #")));
}

}  // namespace

std::vector<SpecText::Part> SpecText::parts(std::string_view text, std::size_t indent) {
  std::vector<Part> list;
  std::string comment;  // belongs to what follows it
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const std::size_t depth = std::min(line.find_first_not_of(' '), line.size());
    const bool starts = depth == indent && line[depth] != '#' && line[depth] != '-' && line[depth] != '\n';
    if (starts) {
      list.push_back({std::string(line.substr(indent, line.find(':') - indent)), comment + std::string(line)});
      comment.clear();
    } else if (depth == indent && line[depth] == '#') {
      comment += line;
    } else if (!list.empty()) {
      list.back().text.append(comment).append(line);
      comment.clear();
    }
  }
  if (!list.empty()) list.back().text += comment;
  return list;
}

std::vector<SpecText::Part> SpecText::variables(std::string_view section) {
  const std::string_view flow = value_of(section.substr(0, section.find('\n')));
  if (!flow.starts_with("{")) {
    take_line(section);
    return parts(section, 2);
  }
  std::vector<Part> list;
  std::string_view rest = flow.substr(1, flow.size() - 2);
  while (!trimmed(rest).empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view pair = trimmed(rest.substr(0, comma));
    list.push_back({std::string(pair.substr(0, pair.find(':'))), "  " + std::string(pair) + "\n"});
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return list;
}

SpecText::SpecText(std::string_view text) {
  while (text.starts_with("#") || text.starts_with("\n")) comment_ += take_line(text);
  sections_ = parts(text, 0);
  if (Part* const vars = find("vars")) {
    vars_ = variables(vars->text);
    vars->text = "vars:\n";
  }
  if (Part* const blocks = find("blocks")) {
    std::string_view rest = blocks->text;
    take_line(rest);
    blocks_ = parts(rest, 2);
    blocks->text = "blocks:\n";
  }
}

SpecText::Part* SpecText::find(std::string_view key) {
  const auto at = std::find_if(sections_.begin(), sections_.end(), [&](const Part& p) { return p.key == key; });
  return at == sections_.end() ? nullptr : &*at;
}

void SpecText::put(std::vector<Part>& list, Part part) {
  const auto at = std::find_if(list.begin(), list.end(), [&](const Part& p) { return p.key == part.key; });
  if (at == list.end())
    list.push_back(std::move(part));
  else
    *at = std::move(part);
}

std::string SpecText::extends() const {
  for (const Part& part : sections_)
    if (part.key == "extends") return std::string(value_of(part.text));
  return "";
}

void SpecText::merge_into(SpecText base) {
  std::vector<Part> over = std::move(sections_);
  sections_ = std::move(base.sections_);
  for (Part& part : over)
    if (part.key != "extends") put(sections_, std::move(part));
  for (Part& var : vars_) put(base.vars_, std::move(var));
  vars_ = std::move(base.vars_);
  for (Part& block : blocks_) put(base.blocks_, std::move(block));
  blocks_ = std::move(base.blocks_);
}

void SpecText::set_comment(const std::string& lines) {
  comment_.clear();
  add_comment(lines);
}

void SpecText::add_comment(const std::string& lines) {
  std::string_view rest = lines;
  while (!rest.empty()) {
    const std::string_view line = trimmed(take_line(rest));
    comment_.append(line.empty() ? "#" : "# ").append(line).append("\n");
  }
}

void SpecText::set_name(const std::string& name) { put(sections_, {"name", "name: " + name + "\n"}); }

void SpecText::set(std::string_view variable, std::int64_t value, const std::string& comment) {
  if (find("vars") == nullptr) sections_.insert(sections_.begin() + 2, {"vars", "vars:\n"});
  const std::string name(variable);
  put(vars_, {name, "  " + name + ": " + std::to_string(value) + (comment.empty() ? "" : "  # " + comment) + "\n"});
}

void SpecText::remove_variable(std::string_view variable) {
  std::erase_if(vars_, [&](const Part& part) { return part.key == variable; });
}

void SpecText::remove_block(std::string_view block) {
  std::erase_if(blocks_, [&](const Part& part) { return part.key == block; });
}

void SpecText::unfold(std::string_view block) {
  constexpr std::size_t kIndent = 4;  // of a block's keys
  const auto at = std::find_if(blocks_.begin(), blocks_.end(), [&](const Part& part) { return part.key == block; });
  if (at == blocks_.end()) throw std::logic_error("no block \"" + std::string(block) + "\" in the template");
  std::string_view text = at->text;
  while (take_line(text).starts_with("  #")) continue;
  set_section("layers", "");
  for (const Part& part : parts(text, kIndent)) {
    std::string lines;
    for (std::string_view rest = part.text; !rest.empty();) {
      const std::string_view line = take_line(rest);
      lines += line.substr(std::min(kIndent, line.find_first_not_of(' ')));
    }
    set_section(part.key, lines);
  }
  blocks_.erase(at);
}

void SpecText::replace(std::string_view from, std::string_view to) {
  bool found = false;
  const auto within = [&](std::string& text) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
      text.replace(at, from.size(), to);
      found = true;
    }
  };
  for (Part& section : sections_) within(section.text);
  for (Part& block : blocks_) within(block.text);
  if (!found) throw std::logic_error("no \"" + std::string(from) + "\" in the template");
}

void SpecText::set_section(const std::string& key, const std::string& text) {
  if (text.empty())
    std::erase_if(sections_, [&](const Part& part) { return part.key == key; });
  else
    put(sections_, {key, text});
}

std::string SpecText::section(std::string_view key) const {
  for (const Part& part : sections_)
    if (part.key == key) return part.text;
  return "";
}

std::string SpecText::text() const {
  std::string out = comment_;
  const auto append = [&](const std::vector<Part>& list) {
    for (const Part& part : list) out += part.text;
  };
  for (const Part& section : sections_) {
    out += section.text;
    if (section.key == "vars") append(vars_);
    if (section.key == "blocks") append(blocks_);
  }
  return out;
}

SpecText template_text(std::string_view name) {
  constexpr std::string_view kZoo = "zoo:", kYaml = ".yaml";
  if (name.starts_with(kZoo)) name.remove_prefix(kZoo.size());
  if (const std::size_t slash = name.rfind('/'); slash != std::string_view::npos) name.remove_prefix(slash + 1);
  if (name.ends_with(kYaml)) name.remove_suffix(kYaml.size());
  for (const auto& files : {embedded_huggingface(), embedded_models()})
    for (const EmbeddedFile& file : files) {
      if (file.name != name) continue;
      SpecText text(file.text);
      if (const std::string base = text.extends(); !base.empty()) text.merge_into(template_text(base));
      return text;
    }
  throw Error("there is no embedded model \"" + std::string(name) + "\"");
}

}  // namespace gpuplan

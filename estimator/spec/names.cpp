#include "estimator/spec/names.h"

#include <algorithm>

#include "estimator/spec/cursor.h"

namespace gpuplan {
namespace {

constexpr std::size_t kMaxCandidates = 2000;  // that a misspelt name is compared with

// The names written in a frame, relative to it.
void collect_names(const ListSyntax& list, const std::string& prefix, std::vector<std::string>& out) {
  for (const EntrySyntax& entry : list.entries) {
    if (out.size() >= kMaxCandidates) return;
    if (!entry.name.empty()) out.push_back(prefix + entry.name);
    const std::string inner = entry.name.empty() ? prefix : prefix + entry.name + ".";
    if (const auto* sequential = std::get_if<SequentialSyntax>(&entry.what); sequential && !entry.name.empty()) {
      collect_names(sequential->layers, inner, out);
    } else if (const auto* residual = std::get_if<ResidualSyntax>(&entry.what)) {
      collect_names(residual->body, inner, out);
      collect_names(residual->shortcut, inner, out);
    } else if (const auto* parallel = std::get_if<ParallelSyntax>(&entry.what)) {
      for (const ParallelSyntax::Branch& branch : parallel->branches)
        collect_names(branch.layers, branch.name.empty() ? inner : inner + branch.name + ".", out);
    }
  }
}

// "halves.1" -> "halves"; empty when the name does not end in a number.
std::string without_output(const std::string& name) {
  const auto dot = name.rfind('.');
  if (dot == std::string::npos || dot + 1 == name.size()) return "";
  return std::all_of(name.begin() + static_cast<std::ptrdiff_t>(dot) + 1, name.end(), is_digit) ? name.substr(0, dot)
                                                                                                : "";
}

}  // namespace

NameTable::Entry& NameTable::declare(const std::string& path, const SourceMark& mark, Named kind) {
  const auto [entry, fresh] = entries_.try_emplace(path);
  if (!fresh) {
    const SourceMark& first = entry->second.mark;
    Error error("two layers are named \"" + path + "\"");
    error.at(mark).label(first.line > 0 ? "first on line " + std::to_string(first.line) : "given twice");
    if (entry->second.kind == Named::input) error.help("the model has an input of this name");
    throw error;
  }
  entry->second = {mark, kind, kind == Named::input};
  return entry->second;
}

const NameTable::Entry* NameTable::find(const std::string& path) const {
  const auto found = entries_.find(path);
  return found == entries_.end() ? nullptr : &found->second;
}

std::string NameTable::find_in_frame(const std::string& name, const Namespace& space) const {
  const std::string base = without_output(name);
  for (const Namespace* s = &space; s != nullptr; s = s->parent) {
    std::string relative = s->prefix + name;
    const Entry* entry = find(s->frame->path + relative);
    if (entry != nullptr && entry->finished && entry->kind != Named::branch) return relative;
    if (base.empty()) continue;
    entry = find(s->frame->path + s->prefix + base);
    if (entry != nullptr && entry->finished && (entry->kind == Named::layer || entry->kind == Named::block))
      return relative;
  }
  return "";
}

std::string NameTable::resolve_from(const std::string& name, const SourceMark& mark, const Namespace& space) const {
  if (name == "input" || name == "inputs" || without_output(name) == "input") return name;
  std::string found = find_in_frame(name, space);
  if (found.empty()) refuse(name, mark, space);
  return found;
}

std::string NameTable::resolve_tie(const std::string& name, const SourceMark& mark, const Namespace& space) const {
  const auto is_layer = [&](const std::string& path) {
    const Entry* entry = find(path);
    return entry != nullptr && entry->finished && entry->kind == Named::layer;
  };
  for (const Namespace* s = &space; s != nullptr; s = s->parent)
    if (std::string path = s->frame->path + s->prefix + name; is_layer(path)) return path;
  if (is_layer(name)) return name;
  refuse(name, mark, space);
}

void NameTable::refuse(const std::string& name, const SourceMark& mark, const Namespace& space) const {
  std::vector<std::string> known;
  collect_names(*space.frame->layers, "", known);
  for (const Namespace* s = &space; s != nullptr; s = s->parent)
    if (std::find(known.begin(), known.end(), s->prefix + name) != known.end())
      throw Error("\"" + name + "\" does not come before this entry")
          .at(mark)
          .label("an entry uses what is computed before it")
          .help("an entry that its `if` leaves out does not exist");
  for (const auto& [path, entry] : entries_)
    if (entry.kind == Named::input && space.frame->path.empty()) known.push_back(path);
  known.push_back("input");
  known.push_back("inputs");
  std::sort(known.begin(), known.end());
  throw Error("unknown name \"" + name + "\"" + did_you_mean(name, known))
      .at(mark)
      .label(space.frame->path.empty() ? "no entry before this one has it"
                                       : "no entry before this one in the block has it");
}

}  // namespace gpuplan

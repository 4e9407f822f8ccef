#include "tools/git/objects.h"

#include <charconv>
#include <deque>
#include <limits>

#include "estimator/error.h"
#include "tools/git/commit.h"
#include "tools/git/run.h"

namespace gpuplan::git {

namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{4} << 20;  // as of files that are read from disk
constexpr std::size_t kAnySize = std::numeric_limits<std::size_t>::max();
constexpr int kMaxLinks = 40;  // as Linux follows at most: path_resolution(7)

std::deque<std::string> parts_of(const std::string& path) {
  std::deque<std::string> parts;
  for (std::size_t from = 0; from <= path.size();) {
    const std::size_t end = std::min(path.find('/', from), path.size());
    if (end > from) parts.push_back(path.substr(from, end - from));
    from = end + 1;
  }
  return parts;
}

std::string in_hexadecimal(std::string_view bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text;
}

Error leads_out(const std::string& path) {
  return Error(path + " leads out of the repository").help("another commit has only what its repository has");
}

}  // namespace

Objects::Objects(std::filesystem::path repository) : repository_(std::move(repository)) {}

// https://git-scm.com/docs/git-cat-file#_batch_output: "<oid> <type> <size>\n<contents>\n", or "<name> missing\n".
// Only ids that git gave us are asked for, so that no name of a file, which may have a newline, is part of the talk.
std::optional<std::string> Objects::object(const std::string& name, std::size_t limit) {
  if (!git_) git_ = start(repository_, {"cat-file", "--batch"});
  if (!git_->write(name + "\n")) throw Error("git cat-file has ended", ErrorKind::environment);
  const std::string head = git_->read_line();
  const std::size_t space = head.rfind(' ');
  std::size_t size = 0;
  const char* const end = head.data() + head.size();
  if (space == std::string::npos || std::from_chars(head.data() + space + 1, end, size).ptr != end) {
    if (head.ends_with(" missing")) return std::nullopt;
    const Child::Rest rest = git_->read_all();
    const int status = git_->wait();
    git_.reset();
    throw failure({.status = status, .output = {}, .errors = rest.errors});
  }
  if (size > limit) {
    git_.reset();  // rather than reading all of it
    throw Error("it is larger than 4 MiB, which no model is");
  }
  std::string text = git_->read(size);
  git_->read(1);
  return text;
}

std::string Objects::require_object(const std::string& name, std::size_t limit) {
  if (std::optional<std::string> text = object(name, limit)) return std::move(*text);
  throw Error("git has no object " + name + ": the clone leaves out what it has not needed yet", ErrorKind::environment)
      .help("clone without --filter, or read it once: git cat-file -e " + name);
}

// A tree is "<mode> <name>\0<id>" again and again, the id in as many bytes as half its hexadecimal digits.
const Objects::Tree& Objects::tree(const std::string& name) {
  const auto known = trees_.find(name);
  if (known != trees_.end()) return known->second;
  const std::string text = require_object(name, kAnySize);
  const std::size_t id_bytes = name.find('^') == std::string::npos ? name.size() / 2 : name.find('^') / 2;
  Tree tree;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t space = text.find(' ', at), zero = text.find('\0', at);
    if (space > zero || zero == std::string::npos || zero + id_bytes >= text.size()) break;
    tree[text.substr(space + 1, zero - space - 1)] = {
        .mode = text.substr(at, space - at), .id = in_hexadecimal(std::string_view(text).substr(zero + 1, id_bytes))};
    at = zero + 1 + id_bytes;
  }
  return trees_[name] = std::move(tree);
}

// As a file system resolves a path, part by part, with the commit's tree for its root.
std::string Objects::find(const std::string& commit, const std::string& path) {
  if (path.starts_with('/')) throw leads_out(path);
  std::deque<std::string> left = parts_of(path);
  std::vector<std::string> trees = {commit + "^{tree}"};  // those that are entered, the root first
  for (int links = 0; !left.empty();) {
    const std::string name = left.front();
    left.pop_front();
    if (name == ".") continue;
    if (name == "..") {
      trees.pop_back();
      if (trees.empty()) throw leads_out(path);
      continue;
    }
    const Tree& here = tree(trees.back());
    const auto entry = here.find(name);
    if (entry == here.end()) return "";
    const std::string& mode = entry->second.mode;
    if (mode == "120000") {
      if (++links > kMaxLinks) throw Error(path + " is a symbolic link that leads back to itself");
      const std::string target = require_object(entry->second.id, kMaxFileBytes);
      if (target.starts_with('/')) throw leads_out(path);
      const std::deque<std::string> parts = parts_of(target);
      left.insert(left.begin(), parts.begin(), parts.end());
    } else if (mode == "40000") {
      trees.push_back(entry->second.id);
    } else {
      // Else a file where a folder should be, or a submodule.
      return mode.starts_with("100") && left.empty() ? entry->second.id : "";
    }
  }
  return "";  // a folder
}

std::optional<std::string> Objects::file_at(const std::string& commit, const std::string& path) {
  const std::string id = find(commit, path);
  if (id.empty()) return std::nullopt;
  try {
    return require_object(id, kMaxFileBytes);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::input) throw;
    throw Error(short_id(commit) + ":" + path + ": " + error.message());
  }
}

}  // namespace gpuplan::git

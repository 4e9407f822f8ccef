#include "tools/git/objects.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <deque>
#include <limits>
#include <system_error>

#include "estimator/base/error.h"
#include "tools/git/commit.h"
#include "tools/git/run.h"

namespace gpuplan::git {

namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{4} << 20;   // as of files that are read from disk
constexpr std::size_t kMaxLargeBytes = std::size_t{1} << 31;  // of an ONNX model: protobuf's limit
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

std::string joined(const auto& parts) {
  std::string path;
  for (const std::string& part : parts) path += (path.empty() ? "" : "/") + part;
  return path;
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

Error cannot_write(int problem) {
  return Error("cannot write a temporary file: " + std::generic_category().message(problem), ErrorKind::environment)
      .help("TMPDIR names another folder for them");
}

Error leads_out(const std::string& path) {
  return Error(path + " leads out of the repository").help("a commit contains only files of its own repository");
}

}  // namespace

Spool::Spool() {
  std::error_code error;
  std::string name = (std::filesystem::temp_directory_path(error) / "gpuplan-XXXXXX").string();
  file_ = ::mkstemp(name.data());
  if (file_ < 0) throw cannot_write(errno);
  ::unlink(name.c_str());
  ::fcntl(file_, F_SETFD, FD_CLOEXEC);
}

Spool::~Spool() { ::close(file_); }

void Spool::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(file_, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw cannot_write(errno);
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

Objects::Objects(std::filesystem::path repository) : repository_(std::move(repository)) {}

// https://git-scm.com/docs/git-cat-file#_batch_output: "<oid> <type> <size>\n<contents>\n", or "<name> missing\n".
// Only ids that git gave us are asked for, so that no name of a file, which may have a newline, is part of the talk.
std::optional<std::string> Objects::object(const std::string& name, std::size_t limit, std::shared_ptr<Spool>* large) {
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
  const bool is_large = size > limit;
  if (is_large && (large == nullptr || size > kMaxLargeBytes)) {
    git_.reset();  // rather than reading all of it
    throw Error(large == nullptr ? "it is larger than 4 MiB, the limit for a model in text form"
                                 : "it is larger than 2 GiB, the limit for a model");
  }
  std::string text = git_->read(is_large ? limit : size);
  if (is_large) {
    *large = std::make_shared<Spool>();
    spool(text, size - text.size(), **large);
  }
  git_->read(1);
  return text;
}

// What has been read of a large object, and then the rest of it.
void Objects::spool(std::string& start, std::size_t rest, Spool& into) {
  constexpr std::size_t kChunk = std::size_t{1} << 20;
  into.write(start);
  while (rest > 0) {
    const std::string chunk = git_->read(std::min(kChunk, rest));
    if (chunk.empty()) throw Error("git cat-file has ended", ErrorKind::environment);
    into.write(chunk);
    rest -= chunk.size();
  }
}

std::string Objects::require_object(const std::string& name, std::size_t limit, std::shared_ptr<Spool>* large) {
  if (std::optional<std::string> text = object(name, limit, large)) return std::move(*text);
  if (const Result result = run(repository_, {"cat-file", "-t", name}); met_damage(result)) throw failure(result);
  throw Error("git has no object " + name + ": this is a partial clone", ErrorKind::environment)
      .help("clone without --filter, or fetch the object: git cat-file -e " + name);
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
    if (space > zero || zero == std::string::npos || zero + id_bytes >= text.size())
      throw Error("git has a damaged tree " + name, ErrorKind::environment).help("git fsck names what is lost");
    tree[text.substr(space + 1, zero - space - 1)] = {
        .mode = text.substr(at, space - at), .id = in_hexadecimal(std::string_view(text).substr(zero + 1, id_bytes))};
    at = zero + 1 + id_bytes;
  }
  return trees_[name] = std::move(tree);
}

// As a file system resolves a path, part by part, with the commit's tree for its root.
Objects::Found Objects::find(const std::string& commit, const std::string& path) {
  if (path.starts_with('/')) throw leads_out(path);
  std::deque<std::string> left = parts_of(path);
  std::vector<std::string> trees = {commit + "^{tree}"};  // those that are entered, the root first
  std::vector<std::string> folders;                       // their names but for the root's
  for (int links = 0; !left.empty();) {
    const std::string name = left.front();
    left.pop_front();
    if (name == ".") continue;
    if (name == "..") {
      if (folders.empty()) throw leads_out(path);
      trees.pop_back();
      folders.pop_back();
      continue;
    }
    const Tree& here = tree(trees.back());
    const auto entry = here.find(name);
    if (entry == here.end()) return {};
    const std::string& mode = entry->second.mode;
    if (mode == "120000") {
      if (++links > kMaxLinks) throw Error(path + " is a symbolic link that leads back to itself");
      const std::string target = require_object(entry->second.id, kMaxFileBytes);
      if (target.starts_with('/')) throw leads_out(path);
      const std::deque<std::string> parts = parts_of(target);
      left.insert(left.begin(), parts.begin(), parts.end());
    } else if (mode == "40000") {
      trees.push_back(entry->second.id);
      folders.push_back(name);
    } else if (mode == "160000") {
      folders.push_back(name);
      return {.id = entry->second.id, .submodule = joined(folders), .path = joined(left)};
    } else {
      // Else a file where a folder should be.
      return {.id = mode.starts_with("100") && left.empty() ? entry->second.id : "", .submodule = {}, .path = {}};
    }
  }
  return {};  // a folder
}

std::optional<std::string> Objects::file_at(const std::string& commit, const std::string& path,
                                            std::shared_ptr<Spool>* large) {
  const Found found = find(commit, path);
  if (found.id.empty()) return std::nullopt;
  if (!found.submodule.empty()) return file_of_submodule(found, large);
  try {
    return require_object(found.id, kMaxFileBytes, large);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::input) throw;
    throw Error(short_id(commit) + ":" + path + ": " + error.message());
  }
}

// In the commit that the repository has its submodule at.
std::optional<std::string> Objects::file_of_submodule(const Found& found, std::shared_ptr<Spool>* large) {
  if (found.path.empty()) return std::nullopt;
  const std::filesystem::path folder = repository_ / found.submodule;
  std::error_code ignored;
  // Else git would look into the repository around it.
  if (!std::filesystem::exists(folder / ".git", ignored))
    throw Error(found.submodule + " is a submodule that is not checked out", ErrorKind::environment)
        .help("git submodule update --init " + found.submodule);
  std::unique_ptr<Objects>& objects = submodules_[found.submodule];
  if (!objects) objects = std::make_unique<Objects>(folder);
  if (!commit_called(folder, found.id))
    throw Error("the submodule " + found.submodule + " lacks its commit " + short_id(found.id), ErrorKind::environment)
        .help("git -C " + found.submodule + " fetch origin " + found.id);
  return objects->file_at(found.id, found.path, large);
}

}  // namespace gpuplan::git

#include "tools/git/commit_files.h"

#include <algorithm>
#include <fstream>

#include "tools/git/commit.h"
#include "tools/git/repository.h"
#include "tools/git/run.h"

namespace gpuplan::git {

namespace fs = std::filesystem;

namespace {

constexpr std::uintmax_t kMaxTextBytes = std::uintmax_t{4} << 20;  // as of files that are read from disk

// The SHA-256 that a pointer of Git LFS names, in hexadecimal digits; nothing of any other text.
// https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md: the version first, the other keys by their names.
std::optional<std::string> lfs_pointer(std::string_view text) {
  constexpr std::string_view kVersion = "version https://git-lfs.github.com/spec/v1\n", kKey = "\noid sha256:";
  constexpr std::size_t kDigits = 64, kMostBytes = 1024;
  if (!text.starts_with(kVersion) || text.size() > kMostBytes) return std::nullopt;
  const std::size_t at = text.find(kKey);
  if (at == std::string_view::npos) return std::nullopt;
  std::string digits(text.substr(at + kKey.size(), kDigits));
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (digits.size() != kDigits || !std::ranges::all_of(digits, is_digit)) return std::nullopt;
  return digits;
}

// Where this clone has the content, which need not be there.
fs::path lfs_content(const fs::path& repository, const std::string& sha256) {
  const Result result = run(repository, {"rev-parse", "--git-common-dir"});
  if (result.status != 0) throw failure(result);
  return repository / result.line() / "lfs" / "objects" / sha256.substr(0, 2) / sha256.substr(2, 2) / sha256;
}

}  // namespace

std::map<std::string, std::string> renames_since(const fs::path& repository, const std::string& base,
                                                 const std::string& commit) {
  // The similarity and the limit are git's defaults, named so that no one's configuration changes what is found.
  std::vector<std::string> arguments = {"diff",
                                        "--no-ext-diff",
                                        "--no-textconv",
                                        "--ignore-submodules=all",
                                        "--name-status",
                                        "--diff-filter=R",
                                        "-z",
                                        "--find-renames=50%",
                                        "-l1000",
                                        base};
  if (!commit.empty()) arguments.push_back(commit);
  arguments.emplace_back("--");
  const Result result = run(repository, arguments);
  if (result.status != 0) throw failure(result);
  std::vector<std::string> fields;  // "R100", the name before, the name now, and so on
  for (std::size_t from = 0; from < result.output.size();) {
    const std::size_t end = std::min(result.output.find('\0', from), result.output.size());
    fields.push_back(result.output.substr(from, end - from));
    from = end + 1;
  }
  std::map<std::string, std::string> before;
  for (std::size_t i = 0; i + 2 < fields.size(); i += 3) before[fields[i + 2]] = fields[i + 1];
  return before;
}

CommitFiles::CommitFiles(fs::path repository, std::string commit, std::string compared_with)
    : repository_(std::move(repository)),
      commit_(std::move(commit)),
      compared_with_(std::move(compared_with)),
      objects_(repository_) {}

std::optional<CommitFiles::File> CommitFiles::read(const std::string& path) {
  File file{path, nullptr, "", nullptr};
  std::optional<std::string> text = objects_.file_at(commit_, path, &file.spool);
  if (!text) return std::nullopt;
  const std::optional<std::string> elsewhere = lfs_pointer(*text);
  file.source = std::make_shared<const Source>(Source{short_id(commit_) + ":" + path, std::move(*text)});
  if (file.spool) file.whole = file.spool->path();
  if (elsewhere) read_lfs_content(*elsewhere, file);
  return file;
}

void CommitFiles::read_lfs_content(const std::string& sha256, File& file) const {
  const fs::path content = lfs_content(repository_, sha256);
  std::ifstream stream(content, std::ios::binary);
  std::error_code error;
  const std::uintmax_t size = fs::file_size(content, error);
  if (!stream || error)
    throw Error(file.source->name + " is stored in Git LFS, and this clone lacks its content", ErrorKind::environment)
        .help("git lfs fetch origin " + commit_);
  std::string text(static_cast<std::size_t>(std::min<std::uintmax_t>(size, kMaxTextBytes)), '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (size > kMaxTextBytes) file.whole = content.string();
  file.source = std::make_shared<const Source>(Source{file.source->name, std::move(text)});
}

std::optional<CommitFiles::File> CommitFiles::find(const std::string& path) {
  if (auto file = read(path)) return file;
  if (!renames_) renames_ = renames_since(repository_, commit_, compared_with_);
  const auto renamed = renames_->find(path);
  return renamed == renames_->end() ? std::nullopt : read(renamed->second);
}

std::shared_ptr<const Source> CommitFiles::open(std::string_view name, std::string_view relative_to) {
  const std::string prefix = short_id(commit_) + ":";
  if (relative_to.starts_with(prefix)) relative_to.remove_prefix(prefix.size());
  // A path that has an absolute name means the same file of the repository.
  const std::string path = fs::path(name).is_absolute()
                               ? path_in_repository(repository_, name)
                               : (fs::path(relative_to).parent_path() / fs::path(name)).generic_string();
  if (const auto file = read(path)) {
    if (file->whole.empty()) return file->source;
    throw Error(path + " is larger than 4 MiB, the limit for a model in text form");
  }
  throw Error("there is no " + path + " in " + short_id(commit_));
}

}  // namespace gpuplan::git

#include "tools/git/commit_files.h"

#include <algorithm>
#include <fstream>

#include "tools/git/commit.h"
#include "tools/git/lfs.h"
#include "tools/git/renames.h"
#include "tools/git/repository.h"

namespace gpuplan::git {

namespace fs = std::filesystem;

namespace {

constexpr std::uintmax_t kMaxTextBytes = std::uintmax_t{4} << 20;  // as of files that are read from disk

}  // namespace

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
    throw Error(file.source->name + " is kept by Git LFS, and this clone lacks its content", ErrorKind::environment)
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
    throw Error(path + " is larger than 4 MiB, which no text of a model is");
  }
  throw Error("there is no " + path + " in " + short_id(commit_));
}

}  // namespace gpuplan::git

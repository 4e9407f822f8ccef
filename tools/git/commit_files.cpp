#include "tools/git/commit_files.h"

#include "tools/git/commit.h"
#include "tools/git/renames.h"
#include "tools/git/repository.h"

namespace gpuplan::git {

namespace fs = std::filesystem;

CommitFiles::CommitFiles(fs::path repository, std::string commit, std::string compared_with)
    : repository_(std::move(repository)),
      commit_(std::move(commit)),
      compared_with_(std::move(compared_with)),
      objects_(repository_) {}

std::shared_ptr<const Source> CommitFiles::read(const std::string& path) {
  std::optional<std::string> text = objects_.file_at(commit_, path);
  if (!text) return nullptr;
  return std::make_shared<const Source>(Source{short_id(commit_) + ":" + path, std::move(*text)});
}

std::optional<CommitFiles::File> CommitFiles::find(const std::string& path) {
  if (auto source = read(path)) return File{path, std::move(source)};
  if (!renames_) renames_ = renames_since(repository_, commit_, compared_with_);
  const auto renamed = renames_->find(path);
  if (renamed == renames_->end()) return std::nullopt;
  auto source = read(renamed->second);
  return source ? std::optional<File>({renamed->second, std::move(source)}) : std::nullopt;
}

std::shared_ptr<const Source> CommitFiles::open(std::string_view name, std::string_view relative_to) {
  const std::string prefix = short_id(commit_) + ":";
  if (relative_to.starts_with(prefix)) relative_to.remove_prefix(prefix.size());
  // A path that has an absolute name means the same file of the repository.
  const std::string path = fs::path(name).is_absolute()
                               ? path_in_repository(repository_, name)
                               : (fs::path(relative_to).parent_path() / fs::path(name)).generic_string();
  if (auto source = read(path)) return source;
  throw Error("there is no " + path + " in " + short_id(commit_));
}

}  // namespace gpuplan::git

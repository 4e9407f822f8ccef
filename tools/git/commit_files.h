// The files of one commit, beside those of the working tree or of another commit that it is compared with.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "estimator/base/error.h"
#include "tools/git/objects.h"

namespace gpuplan::git {

/// From the names of files now to those that they had in `base`, a full id: what git takes for renamed between that
/// commit and `commit`, or the files in the working tree where that is empty. A file that git does not track yet is not
/// among them. Throws Error (environment).
std::map<std::string, std::string> renames_since(const std::filesystem::path& repository, const std::string& base,
                                                 const std::string& commit = {});

class CommitFiles {
 public:
  /// `commit`: the full id. `compared_with`: that of the other commit, empty for the working tree.
  CommitFiles(std::filesystem::path repository, std::string commit, std::string compared_with = {});

  const std::filesystem::path& repository() const { return repository_; }
  const std::string& commit() const { return commit_; }

  struct File {
    std::string path;                      // in the commit: another than was asked for where it has been renamed since
    std::shared_ptr<const Source> source;  // named "3f2c1ab:configs/gpt2.yaml", as git show takes it
    std::string whole;             // of more than 4 MiB: a file that has all of it, the source has its beginning only
    std::shared_ptr<Spool> spool;  // which that may be
  };
  /// The file that is called `path` on the other side: of that name, else the one that git says was renamed to it.
  /// Nothing where it is new. What Git LFS keeps is read from where the clone has it. Throws Error as Objects::file_at.
  std::optional<File> find(const std::string& path);
  /// SpecOptions::open of sources that find() gave: the file `name` as seen from that of the source `relative_to`, in
  /// the same commit. Throws Error: there is none.
  std::shared_ptr<const Source> open(std::string_view name, std::string_view relative_to);

 private:
  std::optional<File> read(const std::string& path);
  void read_lfs_content(const std::string& sha256, File& file) const;

  std::filesystem::path repository_;
  std::string commit_, compared_with_;
  Objects objects_;
  std::optional<std::map<std::string, std::string>> renames_;  // once they have been needed
};

}  // namespace gpuplan::git

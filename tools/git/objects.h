// Files as commits have them, read by one `git cat-file --batch` for as long as an Objects lives: a process for each
// file would make a hundred files a matter of seconds.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/git/child.h"

namespace gpuplan::git {

class Objects {
 public:
  explicit Objects(std::filesystem::path repository);

  /// The text of the file at `path` ("configs/gpt2.yaml", parts joined by '/') in the tree of `commit`, a full id;
  /// nothing where there is no file. Symbolic links are followed within the tree. Throws Error: a path or a link that
  /// leads out of the repository, links that lead to each other, a file that is larger than 4 MiB; environment where
  /// the clone lacks the commit or the file.
  std::optional<std::string> file_at(const std::string& commit, const std::string& path);

 private:
  struct Entry {
    std::string mode;  // "100644", "120000" a symbolic link, "40000" a tree, "160000" a submodule
    std::string id;
  };
  using Tree = std::map<std::string, Entry>;

  /// The id of the file; empty where there is none.
  std::string find(const std::string& commit, const std::string& path);
  const Tree& tree(const std::string& name);
  std::optional<std::string> object(const std::string& name, std::size_t limit);
  std::string require_object(const std::string& name, std::size_t limit);

  std::filesystem::path repository_;
  std::unique_ptr<Child> git_;
  std::map<std::string, Tree> trees_;  // by what was asked for
};

}  // namespace gpuplan::git

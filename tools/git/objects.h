// Files as commits have them, read by one `git cat-file --batch` for as long as an Objects lives: a process for each
// file would make a hundred files a matter of seconds.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/subprocess/child.h"

namespace gpuplan::git {

/// A file without a name, for what is too large to be kept in memory: it is gone when the program is, however that
/// ends.
class Spool {
 public:
  /// In the folder for temporary files. Throws Error (environment).
  Spool();
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  /// Throws Error (environment): the disk is full.
  void write(std::string_view text);
  /// By which it can be opened for reading while it lives: "/dev/fd/5".
  std::string path() const { return "/dev/fd/" + std::to_string(file_); }

 private:
  int file_ = -1;
};

class Objects {
 public:
  explicit Objects(std::filesystem::path repository);

  /// The text of the file at `path` ("configs/gpt2.yaml", parts joined by '/') in the tree of `commit`, a full id;
  /// nothing where there is no file. Symbolic links are followed within the tree, and so are submodules into the commit
  /// that theirs is at. Of a file larger than 4 MiB its beginning, and all of it in `large`. Throws Error: a path or a
  /// link that leads out of the repository, links that lead to each other, a large file without `large` or above 2 GiB;
  /// environment where the clone, or a submodule's, lacks the commit or the file.
  std::optional<std::string> file_at(const std::string& commit, const std::string& path,
                                     std::shared_ptr<Spool>* large = nullptr);

 private:
  struct Entry {
    std::string mode;  // "100644", "120000" a symbolic link, "40000" a tree, "160000" a submodule
    std::string id;
  };
  using Tree = std::map<std::string, Entry>;

  // What a path leads to: a file, or a place in a submodule; an empty id: nothing.
  struct Found {
    std::string id;
    std::string submodule, path;  // the submodule's folder, and the path within it
  };
  Found find(const std::string& commit, const std::string& path);
  std::optional<std::string> file_of_submodule(const Found& found, std::shared_ptr<Spool>* large);
  const Tree& tree(const std::string& name);
  std::optional<std::string> object(const std::string& name, std::size_t limit, std::shared_ptr<Spool>* large);
  std::string require_object(const std::string& name, std::size_t limit, std::shared_ptr<Spool>* large = nullptr);
  void spool(std::string& start, std::size_t rest, Spool& into);

  std::filesystem::path repository_;
  std::unique_ptr<Child> git_;
  std::map<std::string, Tree> trees_;                           // by what was asked for
  std::map<std::string, std::unique_ptr<Objects>> submodules_;  // by their folders
};

}  // namespace gpuplan::git

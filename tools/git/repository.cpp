#include "tools/git/repository.h"

#include <system_error>

#include "tools/git/run.h"

namespace gpuplan::git {

namespace fs = std::filesystem;

namespace {

// Where git can be started for the sake of `path`: the deepest folder of it that is there.
fs::path folder_of(fs::path path) {
  std::error_code ignored;
  path = fs::absolute(path, ignored).lexically_normal();
  if (path.empty()) throw Error("the current folder no longer exists", ErrorKind::environment);
  while (!fs::is_directory(path, ignored) && path.has_relative_path()) path = path.parent_path();
  return path;
}

}  // namespace

std::optional<fs::path> repository_of(const fs::path& path) {
  const Result result = run(folder_of(path), {"rev-parse", "--show-toplevel"});
  if (result.status == 0 && !result.line().empty()) return result.line();
  for (const char* none : {"not a git repository", "must be run in a work tree"})
    if (result.errors.find(none) != std::string::npos) return std::nullopt;
  throw failure(result);
}

std::string path_in_repository(const fs::path& repository, const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  const fs::path name = whole.has_filename() ? whole.filename() : whole.parent_path().filename();
  const fs::path folder =
      fs::weakly_canonical(whole.has_filename() ? whole.parent_path() : whole.parent_path().parent_path());
  const fs::path relative = (folder / name).lexically_relative(fs::weakly_canonical(repository));
  if (relative.empty() || *relative.begin() == "..")
    throw Error(path.string() + " is outside the repository " + repository.string())
        .help("a commit contains only files of its own repository");
  return relative.generic_string();
}

bool is_tracked(const fs::path& repository, const std::string& path) {
  for (fs::path name = path; !name.empty(); name = name.parent_path())
    if (!run(repository, {"ls-files", "-z", "--cached", "--", ":(literal)" + name.generic_string()}).output.empty())
      return name == path || run(repository / name, {"rev-parse", "--show-toplevel"}).line() != repository.string();
  return false;
}

bool is_shallow(const fs::path& repository) {
  return run(repository, {"rev-parse", "--is-shallow-repository"}).line() == "true";
}

}  // namespace gpuplan::git

#include "tools/git/commit.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "tools/git/repository.h"
#include "tools/git/run.h"

namespace gpuplan::git {

namespace fs = std::filesystem;

namespace {

void refuse_impossible(const std::string& name) {
  const auto control = [](char c) { return std::iscntrl(static_cast<unsigned char>(c)) != 0; };
  if (name.empty()) throw Error("a commit needs a name", ErrorKind::usage);
  // It would be an option of git's. No branch or tag may be called so: git-check-ref-format(1).
  if (name.front() == '-')
    throw Error("\"" + name + "\" is not a commit: a commit's name does not start with -", ErrorKind::usage);
  // gitrevisions(7): all that is not reachable from it.
  if (name.front() == '^')
    throw Error("\"" + name + "\" is not a commit: a leading ^ excludes commits", ErrorKind::usage);
  if (std::ranges::any_of(name, control))
    throw Error("\"" + name + "\" is not a commit: a commit's name has no control characters", ErrorKind::usage);
}

std::vector<std::string> names_of_commits(const fs::path& repository) {
  std::istringstream lines(run(repository, {"for-each-ref", "--format=%(refname:short)"}).output);
  std::vector<std::string> names = {"HEAD"};
  for (std::string name; std::getline(lines, name);) names.push_back(name);
  return names;
}

}  // namespace

std::optional<std::string> commit_called(const fs::path& repository, const std::string& name) {
  refuse_impossible(name);
  const Result result = run(repository, {"rev-parse", "--verify", "--quiet", "--end-of-options", name + "^{commit}"});
  if (met_damage(result)) throw failure(result);
  if (result.status != 0 || result.output.empty()) return std::nullopt;
  return result.line();
}

std::string require_commit(const fs::path& repository, const std::string& name) {
  if (const std::optional<std::string> commit = commit_called(repository, name)) return *commit;
  if (name == "HEAD") (void)head_commit(repository);
  const bool shallow = is_shallow(repository);
  Error error("there is no commit \"" + name + "\" in " + repository.string() +
                  (shallow ? ", which is a shallow clone" : did_you_mean(name, names_of_commits(repository))),
              shallow ? ErrorKind::environment : ErrorKind::usage);
  constexpr std::string_view kRemote = "origin/";
  if (shallow)
    error.help("fetch it: git fetch origin " + (name.starts_with(kRemote) ? name.substr(kRemote.size()) : name));
  throw error;
}

std::string head_commit(const fs::path& repository) {
  if (const std::optional<std::string> head = commit_called(repository, "HEAD")) return *head;
  throw Error("nothing has been committed in " + repository.string() + " yet", ErrorKind::environment)
      .help("there is no base to compare with before the first commit");
}

std::vector<std::string> parents_of(const fs::path& repository, const std::string& commit) {
  // The object as it was written: git log leaves out parents that a shallow clone lacks.
  const Result result = run(repository, {"cat-file", "commit", commit});
  if (result.status != 0) throw failure(result);
  std::vector<std::string> parents;
  std::istringstream lines(result.output);
  constexpr std::string_view kParent = "parent ";
  for (std::string line; std::getline(lines, line) && !line.empty();)
    if (line.starts_with(kParent)) parents.push_back(line.substr(kParent.size()));
  return parents;
}

std::optional<std::string> merge_base(const fs::path& repository, const std::string& a, const std::string& b) {
  const Result result = run(repository, {"merge-base", a, b});
  if (result.status == 0) return result.line();
  if (result.status == 1) return std::nullopt;
  throw failure(result);
}

std::string short_id(std::string_view commit) { return std::string(commit.substr(0, 7)); }

}  // namespace gpuplan::git

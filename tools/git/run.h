// Runs git, and says in gpuplan's words what stands in the way.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "tools/subprocess/child.h"

namespace gpuplan::git {

struct Result {
  int status = 0;  // git's: 128 where it gave up with a message
  std::string output;
  std::string errors;

  /// The output without the newline at its end: a path or a name, which may have others within.
  std::string line() const;
};

/// `git -C folder ARGUMENTS`, to its end. What GIT_DIR, GIT_INDEX_FILE and the like say of another repository (hooks
/// have them) does not reach it; nothing is asked of a user, and nothing fetched or locked. Throws Error (environment)
/// where there is no git.
Result run(const std::filesystem::path& folder, const std::vector<std::string>& arguments);
/// The same, to talk with.
std::unique_ptr<Child> start(const std::filesystem::path& folder, const std::vector<std::string>& arguments);

/// Whether git met an object that it cannot read, which is told apart from one that is not there.
bool met_damage(const Result& result);

/// What git said when it gave up: "git: detected dubious ownership in repository at '/src'", kind environment.
Error failure(const Result& result);

}  // namespace gpuplan::git

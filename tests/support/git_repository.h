// A git repository in a folder of its own that goes with it: real commits, the same ids on every machine.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "tools/subprocess/child.h"

namespace gpuplan::tests {

class GitRepository {
 public:
  /// Empty, on branch main.
  GitRepository() {
    std::string name = (std::filesystem::temp_directory_path() / "gpuplan-git-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    top_ = std::filesystem::canonical(name);
    git({"init", "--quiet", "--initial-branch=main"});
  }
  /// A clone of another.
  explicit GitRepository(const GitRepository& other, const std::vector<std::string>& options) : GitRepository() {
    std::filesystem::remove_all(top_ / ".git");
    std::vector<std::string> arguments = {"clone", "--quiet"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    arguments.push_back("file://" + other.top_.string());
    arguments.emplace_back(".");
    git(arguments);
  }
  ~GitRepository() {
    std::error_code ignored;
    std::filesystem::remove_all(top_, ignored);
  }
  GitRepository(const GitRepository&) = delete;
  GitRepository& operator=(const GitRepository&) = delete;

  const std::filesystem::path& top() const { return top_; }

  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((top_ / path).parent_path());
    std::ofstream(top_ / path, std::ios::binary) << text;
  }
  /// Everything that is in the folder. Returns the commit's id.
  std::string commit(const std::string& message) const {
    git({"add", "--all"});
    git({"commit", "--quiet", "--allow-empty", "-m", message});
    return git({"rev-parse", "HEAD"});
  }
  /// Runs git there; its output without the last newline. Fails the test when git does.
  std::string git(const std::vector<std::string>& arguments) const {
    std::vector<std::string> command = {"git", "-C", top_.string()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    Child git(command, environment());
    const Child::Rest rest = git.read_all();
    INFO(command[3], ": ", rest.errors);
    REQUIRE_EQ(git.wait(), 0);
    return rest.output.substr(0, rest.output.find_last_not_of('\n') + 1);
  }

  static bool git_is_there() {
    try {
      Child git({"git", "--version"}, environment());
      return git.wait() == 0;
    } catch (const std::system_error&) {
      return false;
    }
  }

 private:
  // No one's configuration, no clock.
  static std::vector<std::string> environment() {
    const char* const path = std::getenv("PATH");
    return {std::string("PATH=") + (path == nullptr ? "/usr/bin:/bin" : path),
            "HOME=/nonexistent",
            "GIT_CONFIG_GLOBAL=/dev/null",
            "GIT_CONFIG_SYSTEM=/dev/null",
            "GIT_AUTHOR_NAME=A",
            "GIT_AUTHOR_EMAIL=a@example.com",
            "GIT_AUTHOR_DATE=2026-01-01T00:00:00Z",
            "GIT_COMMITTER_NAME=A",
            "GIT_COMMITTER_EMAIL=a@example.com",
            "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z"};
  }

  std::filesystem::path top_;
};

/// Ends the test where git is not installed; skipped, and said, not passed.
#define NEEDS_GIT()                                       \
  if (!::gpuplan::tests::GitRepository::git_is_there()) { \
    MESSAGE("skipped: git is not installed");             \
    return;                                               \
  }

}  // namespace gpuplan::tests

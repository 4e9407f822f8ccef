#include "tools/git/run.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>

extern char** environ;  // NOLINT: macOS' unistd.h has none

namespace gpuplan::git {

namespace {

// Of git's own variables only those stay that say where git and its configuration are; CI systems name the folders
// that they trust (safe.directory) with GIT_CONFIG_COUNT. https://git-scm.com/docs/git#_environment_variables
bool stays(std::string_view variable) {
  static constexpr std::array<std::string_view, 6> kKept = {
      "GIT_EXEC_PATH=", "GIT_CONFIG_",      "GIT_CEILING_DIRECTORIES=", "GIT_DISCOVERY_ACROSS_FILESYSTEM=",
      "GIT_SSH",        "GIT_TEMPLATE_DIR="};
  if (!variable.starts_with("GIT_")) return !variable.starts_with("LC_ALL=") && !variable.starts_with("LANGUAGE=");
  return std::ranges::any_of(kKept, [&](std::string_view kept) { return variable.starts_with(kept); });
}

std::vector<std::string> clean_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (stays(*variable)) variables.emplace_back(*variable);
  // English, so that messages can be quoted in ours; the rest keeps git from writing, asking and fetching.
  for (const char* ours : {"LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1"})
    variables.emplace_back(ours);
  return variables;
}

}  // namespace

std::string Result::line() const { return output.ends_with('\n') ? output.substr(0, output.size() - 1) : output; }

std::unique_ptr<Child> start(const std::filesystem::path& folder, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {
      "git", "-C", folder.string(), "--no-pager", "-c", "core.quotepath=off", "-c", "core.fsmonitor=false"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  try {
    return std::make_unique<Child>(command, clean_environment());
  } catch (const std::system_error& problem) {
    if (problem.code().value() == ENOENT)
      throw Error("git is not installed, or not in PATH", ErrorKind::environment)
          .help("gpuplan reads the files of other commits with git");
    throw Error("cannot run git: " + problem.code().message(), ErrorKind::environment);
  }
}

Result run(const std::filesystem::path& folder, const std::vector<std::string>& arguments) {
  const std::unique_ptr<Child> git = start(folder, arguments);
  Child::Rest rest = git->read_all();
  return {.status = git->wait(), .output = std::move(rest.output), .errors = std::move(rest.errors)};
}

// What is not there is a silent failure with --quiet, else a line that begins with "fatal:".
bool met_damage(const Result& result) {
  return result.status != 0 &&
         (result.errors.starts_with("error: ") || result.errors.find("\nerror: ") != std::string::npos ||
          result.errors.find("corrupt") != std::string::npos);
}

Error failure(const Result& result) {
  std::string words = result.errors.substr(0, result.errors.find('\n'));
  for (const std::string_view start : {"fatal: ", "error: "})
    if (words.starts_with(start)) words.erase(0, start.size());
  if (words.empty()) words = "ended with status " + std::to_string(result.status);
  Error error("git: " + words, ErrorKind::environment);
  if (met_damage(result)) error.help("the repository is damaged: git fsck names what is lost");
  if (words.find("dubious ownership") != std::string::npos)
    error.help("if the folder is yours: git config --global --add safe.directory FOLDER");
  return error;
}

}  // namespace gpuplan::git

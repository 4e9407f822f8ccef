#include "tools/process/programs_on_path.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace gpuplan {

namespace fs = std::filesystem;

namespace {

bool same(const fs::path& one, const fs::path& other) {
  std::error_code ignored;
  return !one.empty() && !other.empty() && fs::equivalent(one, other, ignored);
}

}  // namespace

RunningProgram running_program() {
  std::error_code none;
  RunningProgram running;
  running.file = fs::read_symlink("/proc/self/exe", none);
  std::ifstream words("/proc/self/cmdline");
  std::string first;
  std::getline(words, first, '\0');
  // A shell passes the bare name that it was given; the command of a wheel its own path.
  if (first.find('/') != std::string::npos && fs::exists(first, none) && !same(first, running.file))
    running.started_as = fs::absolute(first, none).lexically_normal();
  return running;
}

std::vector<fs::path> programs_on_path(const std::string& path, const std::string& name) {
  std::vector<fs::path> found;
  for (std::size_t from = 0; from <= path.size();) {
    const std::size_t end = std::min(path.find(':', from), path.size());
    const fs::path file = fs::path(path.substr(from, end - from)) / name;
    from = end + 1;
    std::error_code none;
    if (!file.is_absolute() || !fs::is_regular_file(file, none) || access(file.c_str(), X_OK) != 0) continue;
    if (std::ranges::none_of(found, [&](const fs::path& other) { return same(other, file); })) found.push_back(file);
  }
  return found;
}

std::vector<std::string> installations(const RunningProgram& running, const std::string& path) {
  std::vector<std::string> lines;
  const std::vector<fs::path> found = programs_on_path(path, "gpuplan");
  const auto is_this = [&](const fs::path& file) { return same(file, running.file) || same(file, running.started_as); };
  if (std::ranges::none_of(found, is_this))
    lines.push_back((running.started_as.empty() ? running.file : running.started_as).string() +
                    " (this one, not on PATH)");
  for (const fs::path& file : found)
    lines.push_back(file.string() + (is_this(file)      ? " (this one)"
                                     : file == found[0] ? " (what `gpuplan` starts)"
                                                        : ""));
  return lines;
}

}  // namespace gpuplan

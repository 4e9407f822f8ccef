// Which gpuplan runs, and which others the shell could find: of two installations the first on PATH hides the other.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gpuplan {

/// This program's file, and the file by which it was started where that is another one (a wheel's command in bin/).
/// Empty where the system does not tell (no /proc).
struct RunningProgram {
  std::filesystem::path file, started_as;
};
RunningProgram running_program();

/// The programs of that name in the folders of `path` ("/usr/local/bin:/usr/bin"), in its order and each file once.
std::vector<std::filesystem::path> programs_on_path(const std::string& path, const std::string& name);

/// Lines such as "/usr/bin/gpuplan (this one)".
std::vector<std::string> installations(const RunningProgram& running, const std::string& path);

}  // namespace gpuplan

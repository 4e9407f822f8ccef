#include "validate/shadow/host/directories.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace gpuplan::shadow {

std::optional<std::filesystem::path> find_runtime() {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path binary = fs::read_symlink("/proc/self/exe", ignored);
  const fs::path folder = binary.parent_path();
  for (const fs::path& candidate :
       {folder / "shadow", folder / "../lib/gpuplan/shadow", folder / "../lib64/gpuplan/shadow",
        folder / "../lib/x86_64-linux-gnu/gpuplan/shadow"}) {
    if (fs::exists(candidate / "libgpuplan_shadow.so", ignored)) return fs::weakly_canonical(candidate, ignored);
  }
  return std::nullopt;
}

SessionDirectory::SessionDirectory(const Settings& settings) {
  const char* const folder = std::getenv("TMPDIR");
  path_ = std::string(folder == nullptr || *folder == '\0' ? "/tmp" : folder) + "/gpuplan-shadow-XXXXXX";
  if (mkdtemp(path_.data()) == nullptr) throw std::system_error(errno, std::generic_category(), path_);
  path_ = std::filesystem::absolute(path_).string();  // the command may change its directory
  std::ofstream file(path_ + "/session", std::ios::binary);
  file << write_settings(settings);
  if (file.close(); !file) throw std::system_error(errno, std::generic_category(), path_ + "/session");
}

SessionDirectory::~SessionDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace gpuplan::shadow

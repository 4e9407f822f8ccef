#include "validate/shadow/host/session_directory.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace gpuplan::shadow {

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

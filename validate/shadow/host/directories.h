// Where the runtime lies, and where a session is kept.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "validate/shadow/session.h"

namespace gpuplan::shadow {

/// The directory with libgpuplan_shadow.so, libcuda.so.1, libnvidia-ml.so.1 and python/: beside the program in a build
/// tree, under its prefix when installed. Absent where there is none.
std::optional<std::filesystem::path> find_runtime();

/// The directory of one session, for as long as the object lives.
class SessionDirectory {
 public:
  /// Makes it under $TMPDIR, else /tmp, with the settings written. Throws std::system_error.
  explicit SessionDirectory(const Settings& settings);
  ~SessionDirectory();
  SessionDirectory(const SessionDirectory&) = delete;
  SessionDirectory& operator=(const SessionDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace gpuplan::shadow

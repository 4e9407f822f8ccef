// The directory of one session, for as long as the object lives.
#pragma once

#include <string>

#include "validate/shadow/session.h"

namespace gpuplan::shadow {

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

#include "tools/git/spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "estimator/base/error.h"

namespace gpuplan::git {

namespace {

Error cannot_write(int problem) {
  return Error("cannot write a temporary file: " + std::generic_category().message(problem), ErrorKind::environment)
      .help("TMPDIR names another folder for them");
}

}  // namespace

Spool::Spool() {
  std::error_code error;
  std::string name = (std::filesystem::temp_directory_path(error) / "gpuplan-XXXXXX").string();
  file_ = ::mkstemp(name.data());
  if (file_ < 0) throw cannot_write(errno);
  ::unlink(name.c_str());
  ::fcntl(file_, F_SETFD, FD_CLOEXEC);
}

Spool::~Spool() { ::close(file_); }

void Spool::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(file_, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw cannot_write(errno);
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace gpuplan::git

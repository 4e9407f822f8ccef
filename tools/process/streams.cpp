#include "tools/process/streams.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "estimator/base/error.h"

namespace gpuplan {

void write_stdout(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  if (errno == EPIPE) throw BrokenPipe();
  throw Error(std::string("cannot write to standard output: ") + std::strerror(errno), ErrorKind::environment);
}

void write_stderr(const std::string& text) {
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
  (void)std::fflush(stderr);
}

}  // namespace gpuplan

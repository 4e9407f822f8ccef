#include "tools/files/read_input.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "estimator/base/error.h"

namespace gpuplan {

namespace {

Error cannot_read(const std::string& called, int problem) {
  return Error("cannot read " + called + ": " + std::strerror(problem));
}

// The opening of a FIFO waits for a writer, who may never come, unless it is told not to.
int open_to_read(const std::string& name) {
  return name == "-" ? -1 : ::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

}  // namespace

bool is_stream(const std::string& name) {
  namespace fs = std::filesystem;
  if (name == "-") return true;
  std::error_code ignored;
  const fs::file_status status = fs::status(name, ignored);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

std::string called(const std::string& name) { return name == "-" ? "standard input" : name; }

InputReader::InputReader(const std::string& name, std::chrono::milliseconds silence)
    : called_(called(name)),
      file_(open_to_read(name)),
      number_(name == "-" ? STDIN_FILENO : file_.number()),
      silence_(silence) {
  struct stat status {};
  if (number_ < 0 || ::fstat(number_, &status) != 0) throw cannot_read(called_, errno);
  if (S_ISDIR(status.st_mode)) throw Error("cannot read " + called_ + ": it is a directory");
  may_wait_ = !S_ISREG(status.st_mode);
  if (::isatty(number_) == 1) silence_ = std::chrono::milliseconds(-1);
}

void InputReader::wait() const {
  using std::chrono::milliseconds, std::chrono::steady_clock;
  const auto until = steady_clock::now() + silence_;
  for (;;) {
    const milliseconds left = std::max(std::chrono::ceil<milliseconds>(until - steady_clock::now()), milliseconds(0));
    pollfd input{.fd = number_, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&input, 1, static_cast<int>(silence_.count() < 0 ? -1 : left.count()));
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) throw cannot_read(called_, errno);
    if (ready == 0)
      throw Error("nothing came from " + called_ + " for " +
                      std::to_string(std::chrono::ceil<std::chrono::seconds>(silence_).count()) + " s",
                  ErrorKind::environment)
          .help("if the producer takes longer, let it write a file and name that file here");
  }
}

std::size_t InputReader::read(char* to, std::size_t most) {
  for (;;) {
    if (may_wait_) wait();
    const ::ssize_t got = ::read(number_, to, most);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR && errno != EAGAIN) throw cannot_read(called_, errno);
  }
}

void refuse_larger(const std::string& name, std::size_t bytes, SizeLimit most) {
  if (bytes > most.bytes)
    throw Error(called(name) + " is larger than " + std::to_string(most.bytes >> 20) + " MiB, " + most.why);
}

std::string read_all(const std::string& name, SizeLimit most, std::chrono::milliseconds silence) {
  InputReader input(name, silence);
  std::string text;
  char buffer[1 << 16];
  while (const std::size_t got = input.read(buffer, sizeof buffer)) {
    text.append(buffer, got);
    refuse_larger(name, text.size(), most);
  }
  return text;
}

std::string read_start(const std::string& name, std::size_t bytes) {
  if (is_stream(name)) return "";
  InputReader input(name);
  std::string start(bytes, '\0');
  std::size_t size = 0;
  while (size < bytes) {
    const std::size_t got = input.read(start.data() + size, bytes - size);
    if (got == 0) break;
    size += got;
  }
  start.resize(size);
  return start;
}

}  // namespace gpuplan

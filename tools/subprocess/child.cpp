#include "tools/subprocess/child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>

namespace gpuplan {

namespace {

void close_once(int& file) {
  if (file >= 0) ::close(file);
  file = -1;
}

// Both ends are closed by exec: the child has only the copies that are made its standard streams.
struct Pipe {
  Pipe() {
    int ends[2] = {-1, -1};
    if (::pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    reader = ends[0];
    writer = ends[1];
    for (const int end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
  }
  ~Pipe() {
    close_once(reader);
    close_once(writer);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int reader = -1, writer = -1;
};

struct Actions {
  Actions() { posix_spawn_file_actions_init(&files); }
  ~Actions() { posix_spawn_file_actions_destroy(&files); }
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;

  posix_spawn_file_actions_t files{};
};

struct Attributes {
  // main() ignores them, and an ignored signal stays ignored in a child.
  Attributes() {
    posix_spawnattr_init(&values);
    sigset_t ignored;
    sigemptyset(&ignored);
    for (const int signal : {SIGPIPE, SIGXFSZ}) sigaddset(&ignored, signal);
    posix_spawnattr_setsigdefault(&values, &ignored);
    posix_spawnattr_setflags(&values, POSIX_SPAWN_SETSIGDEF);
  }
  ~Attributes() { posix_spawnattr_destroy(&values); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;

  posix_spawnattr_t values{};
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

// Appends what can be read now. False at the end of the stream.
bool read_some(int file, std::string& text) {
  std::array<char, 1 << 16> buffer{};
  ssize_t n = 0;
  while ((n = ::read(file, buffer.data(), buffer.size())) < 0 && errno == EINTR) continue;
  if (n <= 0) return false;
  text.append(buffer.data(), static_cast<std::size_t>(n));
  return true;
}

}  // namespace

Child::Child(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  Pipe input, output, errors;
  Actions actions;
  posix_spawn_file_actions_adddup2(&actions.files, input.reader, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions.files, output.writer, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions.files, errors.writer, STDERR_FILENO);
  const Attributes attributes;
  const std::vector<char*> arguments = pointers(command), variables = pointers(environment);
  const int problem =
      ::posix_spawnp(&pid_, command[0].c_str(), &actions.files, &attributes.values, arguments.data(), variables.data());
  if (problem != 0) throw std::system_error(problem, std::generic_category(), command[0]);
  std::swap(input_, input.writer);
  std::swap(output_, output.reader);
  std::swap(errors_, errors.reader);
}

Child::~Child() {
  close_once(input_);
  close_once(output_);
  close_once(errors_);
  wait();
}

bool Child::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(input_, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

bool Child::fill() { return read_some(output_, buffer_); }

std::string Child::read_line() {
  std::size_t end = 0;
  while ((end = buffer_.find('\n')) == std::string::npos && fill()) continue;
  end = std::min(end, buffer_.size());
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return line;
}

std::string Child::read(std::size_t bytes) {
  while (buffer_.size() < bytes && fill()) continue;
  std::string text = buffer_.substr(0, bytes);
  buffer_.erase(0, bytes);
  return text;
}

Child::Rest Child::read_all() {
  close_once(input_);
  Rest rest{.output = std::move(buffer_), .errors = {}};
  buffer_.clear();
  std::array<pollfd, 2> files{
      {{.fd = output_, .events = POLLIN, .revents = 0}, {.fd = errors_, .events = POLLIN, .revents = 0}}};
  while (files[0].fd >= 0 || files[1].fd >= 0) {  // poll() passes over a file below 0
    if (::poll(files.data(), files.size(), -1) < 0 && errno != EINTR) break;
    if (files[0].revents != 0 && !read_some(output_, rest.output)) files[0].fd = -1;
    if (files[1].revents != 0 && !read_some(errors_, rest.errors)) files[1].fd = -1;
  }
  return rest;
}

int Child::wait() {
  if (pid_ < 0) return status_;
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
  pid_ = -1;
  status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return status_;
}

}  // namespace gpuplan

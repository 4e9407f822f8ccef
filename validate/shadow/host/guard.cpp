#include "validate/shadow/host/guard.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

#include "validate/shadow/session.h"

namespace gpuplan::shadow {
namespace {

namespace fs = std::filesystem;

// Those whose environment, as it was when they started, has the entry `variable`.
std::vector<pid_t> processes_with(const std::string& variable) {
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || end != name.data() + name.size()) continue;
    std::ifstream file(entry.path() / "environ", std::ios::binary);
    const std::string environment = '\0' + std::string(std::istreambuf_iterator<char>(file), {}) + '\0';
    if (environment.find('\0' + variable + '\0') != std::string::npos) found.push_back(pid);
  }
  return found;
}

// Again until nobody is left, for those that were being forked; not for ever, for those that cannot be killed.
void end_session(const std::string& directory) {
  constexpr timespec kPause = {.tv_sec = 0, .tv_nsec = 20'000'000};
  const std::string variable = std::string(kSessionVariable) + "=" + directory;
  for (int attempt = 0; attempt < 250; ++attempt) {
    const std::vector<pid_t> alive = processes_with(variable);
    if (alive.empty()) break;
    for (const pid_t pid : alive) kill(pid, SIGKILL);
    nanosleep(&kPause, nullptr);
  }
  std::error_code ignored;
  fs::remove_all(directory, ignored);
}

}  // namespace

Guard::Guard(const std::string& session_directory) {
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  process_ = fork();
  if (process_ == 0) {
    setpgid(0, 0);  // out of reach of what is sent to our group, as by a terminal
    close(ends[1]);
    char nothing = 0;
    while (read(ends[0], &nothing, 1) < 0 && errno == EINTR) continue;
    end_session(session_directory);
    _exit(0);
  }
  const int error = errno;
  close(ends[0]);
  alive_ = ends[1];
  if (process_ > 0) return;
  close(alive_);
  throw std::system_error(error, std::generic_category(), "fork");
}

Guard::~Guard() {
  if (waitpid(process_, nullptr, WNOHANG) == 0) {  // else it has ended, with the command's strays
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  close(alive_);
}

}  // namespace gpuplan::shadow

#include "validate/shadow/host/strays.h"

#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace gpuplan::shadow {
namespace {

// The parent of a process, from /proc/PID/stat: "PID (name) state parent ...", where the name may hold anything.
pid_t parent_of(const std::filesystem::path& process) {
  std::ifstream file(process / "stat");
  std::string text;
  std::getline(file, text, '\0');
  const std::size_t end = text.rfind(')');
  int parent = 0;
  char state = 0;
  if (end == std::string::npos || std::sscanf(text.c_str() + end + 1, " %c %d", &state, &parent) != 2) return 0;
  return parent;
}

std::vector<pid_t> descendants() {
  std::multimap<pid_t, pid_t> children;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error == std::errc() && end == name.data() + name.size()) children.emplace(parent_of(entry.path()), pid);
  }
  std::vector<pid_t> found = {getpid()};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto [first, last] = children.equal_range(found[i]);
    for (auto child = first; child != last; ++child) found.push_back(child->second);
  }
  found.erase(found.begin());
  return found;
}

}  // namespace

void end_strays() {
  constexpr std::chrono::seconds kNotice(5);
  constexpr timespec kPause = {.tv_sec = 0, .tv_nsec = 20'000'000};
  const auto start = std::chrono::steady_clock::now();
  std::set<pid_t> asked;
  while (true) {
    while (waitpid(-1, nullptr, WNOHANG) > 0) continue;
    const std::vector<pid_t> alive = descendants();
    if (alive.empty()) return;
    const bool insist = std::chrono::steady_clock::now() - start > kNotice;
    for (const pid_t pid : alive)
      if (insist || asked.insert(pid).second) kill(pid, insist ? SIGKILL : SIGTERM);
    nanosleep(&kPause, nullptr);
  }
}

}  // namespace gpuplan::shadow

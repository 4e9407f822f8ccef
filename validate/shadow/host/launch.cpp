#include "validate/shadow/host/launch.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
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
#include <system_error>
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

// Ends every descendant of this process, what a command leaves behind: asks them to (SIGTERM), and after five seconds
// insists. To be called by a child subreaper, which no descendant can leave.
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

// While it lives, these signals wait for sigtimedwait() in place of ending us.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigemptyset(&waited_for_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD}) sigaddset(&waited_for_, signal);
    sigprocmask(SIG_BLOCK, &waited_for_, &before_);
  }
  ~BlockedSignals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  const sigset_t& before() const { return before_; }
  /// The next signal; 0 where none came within a fifth of a second.
  int wait(siginfo_t& info) const {
    constexpr timespec kTick = {.tv_sec = 0, .tv_nsec = 200'000'000};
    const int signal = sigtimedwait(&waited_for_, &info, &kTick);
    return signal < 0 ? 0 : signal;
  }

 private:
  sigset_t waited_for_{}, before_{};
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

struct Start {
  const char* program;
  char** arguments;
  char** environment;
  sigset_t signals;
  bool own_group;
  pid_t parent;
  int report;  // where an errno goes when the program does not start
};

// In the child, after fork(): only what is safe there.
[[noreturn]] void become(const Start& start) {
  if (start.own_group) setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // also when we are killed without a chance to end it
  if (getppid() != start.parent) _exit(1);
  for (const int ignored : {SIGPIPE, SIGXFSZ}) std::signal(ignored, SIG_DFL);  // by main()
  sigprocmask(SIG_SETMASK, &start.signals, nullptr);
  execvpe(start.program, start.arguments, start.environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(start.report, &error, sizeof error);
  _exit(127);
}

// With a terminal the command stays in our group: the terminal's own signals reach it, and it may read from it.
bool has_terminal() {
  const int terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal >= 0) close(terminal);
  return terminal >= 0;
}

pid_t start_child(Start start) {
  int pipe_ends[2] = {-1, -1};
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  start.parent = getpid();
  start.report = pipe_ends[1];
  const pid_t child = fork();
  const int fork_error = errno;
  if (child == 0) become(start);
  close(pipe_ends[1]);
  int error = child < 0 ? fork_error : 0;
  if (child > 0) {
    if (start.own_group) setpgid(child, child);  // whoever is first
    while (read(pipe_ends[0], &error, sizeof error) < 0 && errno == EINTR) continue;
  }
  close(pipe_ends[0]);
  if (error == 0) return child;
  if (child > 0) waitpid(child, nullptr, 0);
  throw std::system_error(error, std::generic_category(), start.program);
}

// What came from the keyboard has reached the command already, as a member of our group.
void pass_on(int signal, const siginfo_t& info, pid_t child, bool own_group) {
  if (own_group)
    kill(-child, signal);
  else if (info.si_code != SI_KERNEL)
    kill(child, signal);
}

// Collects everything that has ended. True once `child` has.
bool reap(pid_t child, Ending& ending) {
  bool ended = false;
  int status = 0;
  for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    if (pid != child) continue;
    ended = true;
    if (WIFSIGNALED(status))
      ending.signal = WTERMSIG(status);
    else
      ending.status = WEXITSTATUS(status);
  }
  return ended;
}

}  // namespace

Ending run_command(const std::filesystem::path& program, const std::vector<std::string>& command,
                   const std::vector<std::string>& environment, const std::function<void()>& tick) {
  const std::vector<char*> arguments = pointers(command), variables = pointers(environment);
  const std::string path = program.string();
  const BlockedSignals signals;
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // so that processes whose parents are gone become our children
  const bool own_group = !has_terminal();
  const pid_t child = start_child({.program = path.c_str(),
                                   .arguments = const_cast<char**>(arguments.data()),
                                   .environment = const_cast<char**>(variables.data()),
                                   .signals = signals.before(),
                                   .own_group = own_group,
                                   .parent = 0,
                                   .report = -1});
  Ending ending;
  while (!reap(child, ending)) {
    siginfo_t info{};
    const int signal = signals.wait(info);
    if (signal == 0) tick();
    if (signal == 0 || signal == SIGCHLD) continue;
    ending.by_request = true;
    pass_on(signal, info, child, own_group);
  }
  end_strays();
  return ending;
}

}  // namespace gpuplan::shadow

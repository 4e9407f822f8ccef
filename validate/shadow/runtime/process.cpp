// This process's part of the session: settings, counters, what could not be known.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <string>

#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow {
namespace {

struct Process {
  std::string directory;
  Settings settings;
  SessionCounters* session = nullptr;
  std::atomic<ProcessCounters*> counters{nullptr};
  std::mutex mutex;  // of `unknown`, and for taking a slot
  std::set<std::string, std::less<>> unknown;
};

[[noreturn]] void refuse(const std::string& why) {
  std::fprintf(stderr, "gpuplan shadow: %s\n", why.c_str());
  std::_Exit(70);
}

// Never destroyed: Python and PyTorch free device memory after static destructors have run.
Process& process();

// True where there was any.
bool empty_devices(ProcessCounters& process) {
  bool any = false;
  for (ProcessDeviceCounters& device : process.devices) any |= device.used.exchange(0) + device.context.exchange(0) > 0;
  return any;
}

ProcessCounters* take_slot(SessionCounters& session) {
  for (ProcessCounters& slot : session.processes) {
    std::int32_t owner = 0;
    if (slot.pid.compare_exchange_strong(owner, getpid())) {
      slot.rank = -1;
      slot.pytorch = loaded_library("libtorch_python.so").empty() ? 0 : 1;
      return &slot;
    }
    // This process's number before it was replaced by exec(), or an ended process's: either has lost its memory.
    if (owner == getpid()) empty_devices(slot);
  }
  return new ProcessCounters();  // all slots taken: counted, but not seen from outside
}

// A child has none of its parent's CUDA state (CUDA itself refuses to go on in it), so it takes a slot of its own once
// it uses CUDA. Most children never do: DataLoader's workers, a shell.
void after_fork() { process().counters = nullptr; }

std::atomic<Process*> started{nullptr};  // for the destructor: most programs of a session never use CUDA

Process* start_process() {
  auto* const p = new Process;
  if (const char* directory = std::getenv(kSessionVariable)) p->directory = directory;
  try {
    if (!p->directory.empty()) {
      std::ifstream file(p->directory + "/session", std::ios::binary);
      if (!file) refuse("no session at " + p->directory);
      p->settings = read_settings(std::string(std::istreambuf_iterator<char>(file), {}));
      p->session = map_counters(p->directory);
    } else {
      p->session = new SessionCounters();
    }
  } catch (const std::exception& error) {
    refuse(error.what());
  }
  pthread_atfork(nullptr, nullptr, after_fork);
  started = p;
  return p;
}

Process& process() {
  static Process* const instance = start_process();
  return *instance;
}

// A process that ends gives its device memory back; its peaks stay. A child of vfork() runs in its parent's memory, but
// is not the process of its slot.
__attribute__((destructor)) void return_device_memory() {
  ProcessCounters* const taken = started != nullptr ? started.load()->counters.load() : nullptr;
  if (taken != nullptr && taken->pid == getpid()) empty_devices(*taken);
}

// Whether a process has ended, though its parent may not have asked how. Of a name in parentheses, which may hold
// anything, /proc/PID/stat has the state behind.
bool has_ended(std::int32_t pid) {
  if (kill(pid, 0) != 0) return errno == ESRCH;
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::size_t name = text.rfind(')');
  return name != std::string::npos && text.size() > name + 2 && text[name + 2] == 'Z';
}

}  // namespace

const Settings& settings() { return process().settings; }
void use_settings(const Settings& settings) { process().settings = settings; }

ProcessCounters& counters() {
  Process& p = process();
  if (ProcessCounters* const taken = p.counters.load(std::memory_order_acquire)) return *taken;
  const std::lock_guard lock(p.mutex);
  if (p.counters.load(std::memory_order_relaxed) == nullptr) p.counters = take_slot(*p.session);
  return *p.counters.load(std::memory_order_relaxed);
}

SessionCounters& session_counters() { return *process().session; }
const std::string& session_directory() { return process().directory; }

bool reclaim_dead_processes() {
  bool reclaimed = false;
  for (ProcessCounters& slot : session_counters().processes) {
    const std::int32_t pid = slot.pid;
    if (pid == 0) break;
    const bool holds = std::ranges::any_of(
        slot.devices, [](const ProcessDeviceCounters& device) { return device.used + device.context > 0; });
    if (holds && pid != getpid() && has_ended(pid)) reclaimed |= empty_devices(slot);
  }
  return reclaimed;
}

// Python's os._exit() and others leave without destructors, and a driver takes their memory back all the same.
SHADOW_API void _exit(int status) {
  return_device_memory();
  while (true) syscall(SYS_exit_group, status);
}
SHADOW_API void _Exit(int status) noexcept { _exit(status); }

void note_unknown(std::string_view what) {
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  if (p.unknown.contains(what)) return;
  p.unknown.emplace(what);
  if (p.directory.empty()) return;
  const std::string path = p.directory + "/unknown." + std::to_string(getpid());
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return;
  const std::string line = std::string(what) + "\n";
  [[maybe_unused]] const ssize_t written = write(file, line.data(), line.size());
  close(file);
}

}  // namespace gpuplan::shadow

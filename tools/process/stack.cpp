#include "tools/process/stack.h"

#include <pthread.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): pthread_sigmask
#include <sys/resource.h>

namespace gpuplan {

namespace {

constexpr rlim_t kStackBytes = rlim_t{8} << 20;

struct Run {
  const std::function<int()>& program;
  int code = 0;
};

extern "C" void* run_program(void* run) {
  auto* const r = static_cast<Run*>(run);
  r->code = r->program();
  return nullptr;
}

}  // namespace

// The limit is one of the first thread's stack, and with glibc the size of every other one's.
int on_large_stack(const std::function<int()>& program) {
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kStackBytes) return program();
  Run run{.program = program};
  pthread_attr_t attributes;
  pthread_t thread{};
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
#ifdef __linux__
  pthread_setattr_default_np(&attributes);
#endif
  const bool started = pthread_create(&thread, &attributes, run_program, &run) == 0;
  pthread_attr_destroy(&attributes);
  if (!started) return program();
  sigset_t all;  // signals are the program's, which may want them to wait
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_join(thread, nullptr);
  return run.code;
}

}  // namespace gpuplan

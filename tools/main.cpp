// The main program: calls run_command_line(), and turns errors into messages and exit codes.
#include <pthread.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): pthread_sigmask
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/error.h"
#include "tools/commands/commands.h"
#include "tools/options/output_options.h"
#include "tools/process/exit_code.h"
#include "tools/process/streams.h"
#include "tools/process/version.h"

namespace gpuplan {
namespace {

int run(std::vector<std::string> arguments) {
  constexpr int kEnvironment = 4;
  try {
    const int code = run_command_line(std::move(arguments));
    write_stdout("");  // reports what was buffered and could not be written
    return code;
  } catch (const Error& error) {
    write_stderr(error.render());
    return exit_code_of(error);
  } catch (const BrokenPipe&) {
    std::signal(SIGPIPE, SIG_DFL);  // `gpuplan gpus | head -1`: as other programs end there, without a word
    return std::raise(SIGPIPE);
  } catch (const std::bad_alloc&) {
    write_stderr("error: out of memory\n");
    return kEnvironment;
  } catch (const std::exception& error) {
    write_stderr(internal_error(error).render());
    return kInternalErrorCode;
  }
}

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

// What `program` returns, run on a stack of 8 MiB, of its own where the shell's limit is lower; threads that it starts
// have as much. How deep models, expressions and files may nest (estimator/spec/limits.h) needs a part of that.
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

}  // namespace
}  // namespace gpuplan

int main(int argc, char** argv) {
  // Writing to a closed pipe is then an error instead of a signal, so that the program can clean up.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // so is a file above `ulimit -f`
  return gpuplan::on_large_stack([&] { return gpuplan::run({argv + 1, argv + argc}); });
}

// The program: everything is in run_command_line; what goes wrong becomes a message and an exit code here.
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/error.h"
#include "tools/commands/commands.h"
#include "tools/options/output_options.h"
#include "tools/process/exit_code.h"
#include "tools/process/stack.h"
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

}  // namespace
}  // namespace gpuplan

int main(int argc, char** argv) {
  // A reader that is gone is then an error of the write: what runs here is ended in order.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // so is a file above `ulimit -f`
  return gpuplan::on_large_stack([&] { return gpuplan::run({argv + 1, argv + argc}); });
}

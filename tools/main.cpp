// The program: everything is in run_command_line; what goes wrong becomes a message and an exit code here.
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

#include "estimator/error.h"
#include "tools/commands.h"
#include "tools/output_options.h"

int main(int argc, char** argv) {
  constexpr int kInternalError = 70;  // EX_SOFTWARE of sysexits.h
  constexpr int kEnvironment = 4;
  // A reader that is gone is then an error of the write: what runs here is ended in order.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    const int code = gpuplan::run_command_line({argv + 1, argv + argc});
    gpuplan::write_stdout("");  // reports what was buffered and could not be written
    return code;
  } catch (const gpuplan::Error& error) {
    gpuplan::write_stderr(error.render());
    return gpuplan::exit_code_of(error);
  } catch (const gpuplan::BrokenPipe&) {
    std::signal(SIGPIPE, SIG_DFL);  // `gpuplan gpus | head -1`: as other programs end there, without a word
    return std::raise(SIGPIPE);
  } catch (const std::bad_alloc&) {
    gpuplan::write_stderr("error: out of memory\n");
    return kEnvironment;
  } catch (const std::exception& error) {
    gpuplan::write_stderr("error: internal error in " + gpuplan::version_line() + "  " + error.what() +
                          "\n  help: please report it, with the command and the model\n");
    return kInternalError;
  }
}

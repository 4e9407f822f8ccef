// Another program, started with an argument vector and never through a shell, its three streams piped.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace gpuplan {

class Child {
 public:
  /// `command[0]` is looked for in PATH; `environment` is all of it, "NAME=value" each. Throws std::system_error where
  /// it cannot be started (ENOENT: there is no such program).
  Child(const std::vector<std::string>& command, const std::vector<std::string>& environment);
  /// Closes the streams, which ends a well-behaved program, and waits for its end.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// To its standard input. False where it no longer reads.
  bool write(std::string_view text);
  /// Up to the next newline, which is taken and left out, or to the end of its output.
  std::string read_line();
  /// So many bytes of its output, or what there is.
  std::string read(std::size_t bytes);
  /// Reads both streams to their ends, at once, so that a full pipe cannot stop the program.
  struct Rest {
    std::string output, errors;
  };
  Rest read_all();
  /// Its exit status; 128 + N after signal N.
  int wait();

 private:
  bool fill();

  pid_t pid_ = -1;
  int input_ = -1, output_ = -1, errors_ = -1;
  std::string buffer_;  // read and not yet taken
  int status_ = -1;
};

}  // namespace gpuplan

// What is wrong with a spec, a flag or a file.
#pragma once

#include <stdexcept>
#include <string>

namespace gpuplan::v0 {

/// what() is all that the command prints: message, line, caret, help.
struct Error : std::runtime_error {
  explicit Error(const std::string& text) : std::runtime_error(text) {}

  std::string message;       // one line
  std::string file;          // empty where it is in no file
  int line = 0, column = 0;  // from 1; 0 where it is in no file
};

}  // namespace gpuplan::v0

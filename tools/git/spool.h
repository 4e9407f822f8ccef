// A file without a name, for what is too large to be kept in memory: it is gone when the program is, however that ends.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gpuplan::git {

class Spool {
 public:
  /// In the folder for temporary files. Throws Error (environment).
  Spool();
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  /// Throws Error (environment): the disk is full.
  void write(std::string_view text);
  /// By which it can be opened for reading while it lives: "/dev/fd/5".
  std::string path() const { return "/dev/fd/" + std::to_string(file_); }

 private:
  int file_ = -1;
};

}  // namespace gpuplan::git

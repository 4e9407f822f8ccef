// The one way in which what a user names is read: files, pipes, devices and standard input.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "tools/files/descriptor.h"

namespace gpuplan {

/// How long a pipe may send nothing: an exporter imports PyTorch and traces a large model before its first byte.
constexpr std::chrono::minutes kMostSilence{10};

/// Standard input ("-"), a pipe, a socket or a device: what can be read once only.
bool is_stream(const std::string& name);

/// "standard input" for "-", else the name.
std::string called(const std::string& name);

class InputReader {
 public:
  /// Opens a file, or "-". Throws Error: it is missing, a directory or not readable.
  explicit InputReader(const std::string& name, std::chrono::milliseconds silence = kMostSilence);

  /// Reads up to `most` bytes, and none at the end only. Throws Error: input where it cannot be read, environment where
  /// nothing came for as long as `silence`; a terminal has all the time.
  std::size_t read(char* to, std::size_t most);

 private:
  void wait() const;

  std::string called_;
  Descriptor file_;  // of standard input: none of our own
  int number_;
  std::chrono::milliseconds silence_;  // negative: without a limit
  bool may_wait_ = false;
};

struct SizeLimit {
  std::size_t bytes;
  const char* why;  // printed after the size: "the limit for a model or GPU file"
};

/// Throws Error.
void refuse_larger(const std::string& name, std::size_t bytes, SizeLimit most);

/// All of it. Throws Error as InputReader does, and where it is larger.
std::string read_all(const std::string& name, SizeLimit most, std::chrono::milliseconds silence = kMostSilence);

/// The first bytes of a file, at most `bytes` of them; none of a stream, of which they would be lost. Throws Error.
std::string read_start(const std::string& name, std::size_t bytes);

}  // namespace gpuplan

// Messages between the ranks of an NCCL communicator, which are processes (or threads) of one session. A message is a
// file in the communicator's directory, one name for each reader, made complete before it has a name; a reader removes
// the name it has read. So nothing is shared that a killed process could leave locked, and what a run leaves goes with
// the session's directory.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gpuplan::shadow {

struct Message {
  std::size_t size = 0;         // bytes
  std::vector<std::byte> data;  // empty where all `size` bytes are zero

  /// Null where the message is zeros.
  const std::byte* bytes() const { return data.empty() ? nullptr : data.data(); }
};

bool is_zero(const void* bytes, std::size_t size);

/// A copy of `size` bytes, which is not kept where they are all zero.
Message make_message(const void* bytes, std::size_t size);

class Mailbox {
 public:
  /// Messages of the communicator `name` (letters, digits, '-') under `directory`, which is made where it is missing.
  /// Throws std::system_error.
  Mailbox(const std::string& directory, const std::string& name);

  /// Leaves `message` for `readers`, under a subject that the readers know ("all.12"). Never waits for them. Throws
  /// std::system_error where the disk is full.
  void post(const std::string& subject, int sender, std::span<const int> readers, const Message& message) const;

  /// The message of `sender` to `reader`, waited for until `deadline`; absent when it has not come by then.
  std::optional<Message> take(const std::string& subject, int sender, int reader,
                              std::chrono::steady_clock::time_point deadline) const;

  /// Removes what `reader` did not read, and the directory where nobody's message is left in it.
  void leave(int reader) const;

 private:
  std::string path(const std::string& subject, int sender, int reader) const;

  std::string directory_;
};

}  // namespace gpuplan::shadow

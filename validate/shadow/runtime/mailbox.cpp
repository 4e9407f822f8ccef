#include "validate/shadow/runtime/mailbox.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>

namespace gpuplan::shadow {
namespace {

struct Header {
  std::uint64_t size;    // bytes of the message
  std::uint64_t stored;  // bytes that follow: as many, or none
};

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

[[noreturn]] void fail(const std::string& path) { throw std::system_error(errno, std::generic_category(), path); }

void write_all(int file, const void* bytes, std::size_t size, const std::string& path) {
  const auto* at = static_cast<const std::byte*>(bytes);
  while (size > 0) {
    const ssize_t written = write(file, at, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path);
    at += written;
    size -= static_cast<std::size_t>(written);
  }
}

void read_all(int file, void* bytes, std::size_t size, const std::string& path) {
  auto* at = static_cast<std::byte*>(bytes);
  while (size > 0) {
    const ssize_t got = read(file, at, size);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) errno = EIO;
    if (got <= 0) fail(path);
    at += got;
    size -= static_cast<std::size_t>(got);
  }
}

std::optional<Message> read_message(const std::string& path) {
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) {
    if (errno == ENOENT) return std::nullopt;
    fail(path);
  }
  Header header{};
  read_all(file.get(), &header, sizeof header, path);
  Message message{.size = header.size, .data = std::vector<std::byte>(header.stored)};
  read_all(file.get(), message.data.data(), message.data.size(), path);
  return message;
}

}  // namespace

bool is_zero(const void* bytes, std::size_t size) {
  // Zero throughout: the first byte is, and each equals the one before it.
  const auto* const begin = static_cast<const std::byte*>(bytes);
  return size == 0 || (*begin == std::byte{0} && std::memcmp(begin, begin + 1, size - 1) == 0);
}

Message make_message(const void* bytes, std::size_t size) {
  const auto* const begin = static_cast<const std::byte*>(bytes);
  if (is_zero(begin, size)) return {.size = size, .data = {}};
  return {.size = size, .data = std::vector<std::byte>(begin, begin + size)};
}

Mailbox::Mailbox(const std::string& directory, const std::string& name) : directory_(directory + "/nccl-" + name) {
  std::filesystem::create_directories(directory_);
}

std::string Mailbox::path(const std::string& subject, int sender, int reader) const {
  return directory_ + "/" + subject + "." + std::to_string(sender) + "." + std::to_string(reader);
}

void Mailbox::post(const std::string& subject, int sender, std::span<const int> readers, const Message& message) const {
  if (readers.empty()) return;
  static std::atomic<std::uint64_t> next{0};
  const std::string draft = directory_ + "/draft." + std::to_string(getpid()) + "." + std::to_string(next.fetch_add(1));
  {
    const File file(open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file.get() < 0) fail(draft);
    const Header header{.size = message.size, .stored = message.data.size()};
    write_all(file.get(), &header, sizeof header, draft);
    write_all(file.get(), message.data.data(), message.data.size(), draft);
  }
  for (const int reader : readers.subspan(1)) {
    const std::string name = path(subject, sender, reader);
    if (link(draft.c_str(), name.c_str()) != 0) fail(name);
  }
  const std::string name = path(subject, sender, readers.front());
  if (rename(draft.c_str(), name.c_str()) != 0) fail(name);
}

std::optional<Message> Mailbox::take(const std::string& subject, int sender, int reader,
                                     std::chrono::steady_clock::time_point deadline) const {
  using namespace std::chrono_literals;
  const std::string name = path(subject, sender, reader);
  for (std::chrono::microseconds pause = 50us;; pause = std::min<std::chrono::microseconds>(pause * 2, 2ms)) {
    if (std::optional<Message> message = read_message(name)) {
      unlink(name.c_str());
      return message;
    }
    if (std::chrono::steady_clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(pause);
  }
}

void Mailbox::leave(int reader) const {
  const std::string suffix = "." + std::to_string(reader);
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, ignored)) {
    const std::string name = entry.path().filename();
    if (name.ends_with(suffix) && !name.starts_with("draft")) unlink(entry.path().c_str());
  }
  rmdir(directory_.c_str());
}

}  // namespace gpuplan::shadow

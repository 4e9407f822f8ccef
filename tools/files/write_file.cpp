#include "tools/files/write_file.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): pthread_sigmask
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>

#include "estimator/base/error.h"
#include "tools/files/descriptor.h"
#include "tools/files/writable_folders.h"

namespace gpuplan {

namespace {

namespace fs = std::filesystem;

Error cannot_write(const std::string& name, int problem) {
  return Error("cannot write " + name + ": " + std::strerror(problem), ErrorKind::environment);
}

// While it lives, what would end the program between two writes waits.
class SignalsWait {
 public:
  SignalsWait() {
    sigset_t waiting;
    sigemptyset(&waiting);
    for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU}) sigaddset(&waiting, signal);
    pthread_sigmask(SIG_BLOCK, &waiting, &before_);
  }
  ~SignalsWait() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;

 private:
  sigset_t before_{};
};

void write_all(int file, std::string_view text, const std::string& name) {
  while (!text.empty()) {
    const ::ssize_t n = ::write(file, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      pollfd output{.fd = file, .events = POLLOUT, .revents = 0};
      (void)::poll(&output, 1, -1);
    } else if (errno != EINTR) {
      throw cannot_write(name, errno);
    }
  }
}

std::optional<int> open_already(const fs::path& path) {
  const std::string folder = path.parent_path().string(), number = path.filename().string();
  if (folder != "/dev/fd" && folder != "/proc/self/fd") return std::nullopt;
  int descriptor = 0;
  const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), descriptor);
  return problem == std::errc() && end == number.data() + number.size() ? std::optional(descriptor) : std::nullopt;
}

// Where a name leads.
struct Place {
  std::string name;  // as it was given, for messages
  fs::path path;     // behind all symbolic links
  std::optional<int> descriptor;
  bool is_there = false;
  struct stat status {};
};

// A file that standard output goes to is not replaced under it.
void find_standard_stream(Place& place) {
  struct stat stream {};
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO})
    if (::fstat(descriptor, &stream) == 0 && stream.st_dev == place.status.st_dev &&
        stream.st_ino == place.status.st_ino)
      place.descriptor = descriptor;
}

Place place_of(const std::string& name) {
  constexpr int kMostLinks = 40;  // as Linux has it
  std::error_code ignored;        // where the current folder is gone, the name itself cannot be opened
  Place place{.name = name, .path = fs::absolute(name, ignored), .descriptor = {}, .is_there = false, .status = {}};
  if (place.path.empty()) place.path = name;
  for (int links = 0; links < kMostLinks; ++links) {
    place.descriptor = open_already(place.path);
    if (place.descriptor || !fs::is_symlink(place.path, ignored)) break;
    place.path = place.path.parent_path() / fs::read_symlink(place.path, ignored);
  }
  if (place.descriptor) return place;
  refuse_outside_writable(place.path, name);
  place.is_there = ::stat(place.path.c_str(), &place.status) == 0;
  if (!place.is_there && errno != ENOENT) throw cannot_write(name, errno);
  if (place.is_there && S_ISDIR(place.status.st_mode)) throw cannot_write(name, EISDIR);
  if (place.is_there && S_ISREG(place.status.st_mode)) find_standard_stream(place);
  return place;
}

// The file beside the place; it goes unless it was moved there.
class Draft {
 public:
  explicit Draft(const Place& place)
      : path_((place.path.parent_path() / ".gpuplan-XXXXXX").string()), file_(::mkostemp(path_.data(), O_CLOEXEC)) {}
  ~Draft() {
    if (is_open() && !moved_) ::unlink(path_.c_str());
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  bool is_open() const { return file_.number() >= 0 || closed_; }
  int number() const { return file_.number(); }

  // False where it cannot be made like the file in the place.
  bool take_after(const Place& place) const {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    if (!place.is_there) return ::fchmod(number(), 0666 & ~mask) == 0;
    struct stat own {};
    const bool same_owner =
        ::fstat(number(), &own) == 0 && own.st_uid == place.status.st_uid && own.st_gid == place.status.st_gid;
    return (same_owner || ::fchown(number(), place.status.st_uid, place.status.st_gid) == 0) &&
           ::fchmod(number(), place.status.st_mode & 07777) == 0;
  }
  // Some file systems have no fsync().
  bool finish() {
    const bool synced = ::fsync(number()) == 0 || errno == EINVAL || errno == ENOSYS;
    closed_ = true;
    return synced && file_.close();
  }
  bool move_to(const fs::path& path) { return moved_ = ::rename(path_.c_str(), path.c_str()) == 0; }

 private:
  std::string path_;
  Descriptor file_;
  bool closed_ = false, moved_ = false;
};

bool may_be_written_in_place(const Place& place, int problem) {
  return place.is_there && (problem == EACCES || problem == EPERM || problem == EROFS || problem == EBUSY);
}

// False where another file cannot take its place.
bool replace(const Place& place, const TextParts& parts) {
  Draft draft(place);
  if (!draft.is_open()) {
    if (may_be_written_in_place(place, errno)) return false;
    throw cannot_write(place.name, errno);
  }
  if (!draft.take_after(place)) return false;
  parts([&](std::string_view part) { write_all(draft.number(), part, place.name); });
  if (!draft.finish()) throw cannot_write(place.name, errno);
  if (draft.move_to(place.path)) return true;
  if (may_be_written_in_place(place, errno)) return false;
  throw cannot_write(place.name, errno);
}

// The part of the text from byte `from` to byte `to`, at its place in the file. Returns the size of the whole.
off_t write_between(int file, off_t from, off_t to, const TextParts& parts, const std::string& name) {
  off_t at = 0;
  parts([&](std::string_view part) {
    const off_t begin = std::clamp<off_t>(from - at, 0, static_cast<off_t>(part.size()));
    const off_t end = std::clamp<off_t>(to - at, 0, static_cast<off_t>(part.size()));
    if (begin < end) {
      if (::lseek(file, at + begin, SEEK_SET) < 0) throw cannot_write(name, errno);
      write_all(file, part.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)), name);
    }
    at += static_cast<off_t>(part.size());
  });
  return at;
}

void write_in_place(const Place& place, const TextParts& parts) {
  const Descriptor file(::open(place.path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.number() < 0) throw cannot_write(place.name, errno);
  const off_t before = place.status.st_size;
  off_t size = 0;
  try {
    size = write_between(file.number(), before, std::numeric_limits<off_t>::max(), parts, place.name);
  } catch (const Error&) {
    (void)!::ftruncate(file.number(), before);
    throw;
  }
  write_between(file.number(), 0, std::min(before, size), parts, place.name);
  if (::ftruncate(file.number(), size) != 0) throw cannot_write(place.name, errno);
  (void)::fsync(file.number());
}

void write_through(int file, const Place& place, const TextParts& parts) {
  parts([&](std::string_view part) { write_all(file, part, place.name); });
}

}  // namespace

void write_file(const std::string& name, const TextParts& parts) {
  const Place place = place_of(name);
  if (place.descriptor) return write_through(*place.descriptor, place, parts);
  if (place.is_there && !S_ISREG(place.status.st_mode)) {
    const Descriptor file(::open(place.path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
    if (file.number() < 0) throw cannot_write(name, errno);
    return write_through(file.number(), place, parts);
  }
  // Of a folder that one may write to, rename() would replace a file that is write-protected.
  if (place.is_there && ::access(place.path.c_str(), W_OK) != 0) throw cannot_write(name, errno);
  const SignalsWait wait;
  if (!replace(place, parts)) write_in_place(place, parts);
}

void write_file(const std::string& name, std::string_view text) {
  write_file(name, [&](const auto& write) { write(text); });
}

void append_to_file(const std::string& name, std::string_view text) {
  (void)place_of(name);
  const Descriptor file(::open(name.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666));
  struct stat before {};
  if (file.number() < 0 || ::fstat(file.number(), &before) != 0) throw cannot_write(name, errno);
  const SignalsWait wait;
  try {
    write_all(file.number(), text, name);
  } catch (const Error&) {
    if (S_ISREG(before.st_mode)) (void)!::ftruncate(file.number(), before.st_size);
    throw;
  }
}

bool can_be_written(const std::string& name) {
  try {
    const Place place = place_of(name);
    if (place.descriptor) return true;
    const fs::path& path = place.is_there ? place.path : place.path.parent_path();
    return ::access(path.c_str(), W_OK) == 0;
  } catch (const Error& refused) {
    if (refused.kind() == ErrorKind::usage) throw;
    return false;
  }
}

}  // namespace gpuplan

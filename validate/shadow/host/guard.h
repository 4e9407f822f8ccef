// What a session leaves behind where `gpuplan shadow` is killed without a chance to end it.
#pragma once

#include <sys/types.h>

#include <string>

namespace gpuplan::shadow {

/// A process that waits for ours to be gone. Where this object was not destroyed first, it then kills every process
/// that has the session in its environment, and removes the session's directory.
///
/// It finds nobody who has taken the session's name out of the environment (`env -i`, a program that writes its title
/// over it), and nothing helps where it is killed too, as by a container's end, which takes all processes anyway. The
/// command itself dies with us in any case (PR_SET_PDEATHSIG), but that cannot be had for what it starts: a program may
/// mean its children to outlive it.
class Guard {
 public:
  /// Throws std::system_error where no process can be made.
  explicit Guard(const std::string& session_directory);
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  pid_t process_ = -1;
  int alive_ = -1;  // a pipe's end that nobody else has: it closes with us
};

}  // namespace gpuplan::shadow

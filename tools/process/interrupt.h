// Ctrl-C for commands that hold something: they end where they choose to.
#pragma once

#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction

namespace gpuplan {

constexpr int kInterruptedExitCode = 130;  // 128 and SIGINT's number, as shells have it

struct Interrupted {};

/// While it lives the first Ctrl-C only makes check() throw; the second one ends the process as ever. One at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  /// Throws Interrupted once Ctrl-C was pressed.
  void check() const;

 private:
  struct sigaction before_ {};
};

}  // namespace gpuplan

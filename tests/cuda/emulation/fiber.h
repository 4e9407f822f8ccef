// Flows of control that hand over to each other within one thread.
#pragma once

#include <cstddef>

namespace gpuplan::emulation {

/// A fiber's stack and where it stands. The one that calls switch_to() first is the thread's own.
class Fiber {
 public:
  Fiber() = default;  // the thread's own
  /// Runs `entry`, which never returns, when it is first switched to.
  explicit Fiber(void (*entry)());
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  /// From this fiber, which runs, to the other.
  void switch_to(Fiber& other);
  /// What a fiber does first: tells AddressSanitizer where it is.
  static void entered();

 private:
  void* stack_ = nullptr;                    // lowest address
  void* context_ = nullptr;                  // of x86-64 the stack pointer, else a ucontext_t
  [[maybe_unused]] void* shadow_ = nullptr;  // AddressSanitizer's
};

}  // namespace gpuplan::emulation

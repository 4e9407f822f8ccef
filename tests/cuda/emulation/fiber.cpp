#include "tests/cuda/emulation/fiber.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <cstdint>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#define GPUPLAN_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GPUPLAN_ADDRESS_SANITIZER
#endif
#endif
#ifdef GPUPLAN_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#ifdef __x86_64__
// swapcontext() asks the kernel for the signal mask each time, and a block waits some thousand times. What a call
// preserves goes on the stack ("System V ABI, AMD64", 3.2.1).
extern "C" void gpuplan_switch_stacks(void** from, void* to);
asm(R"(
  .text
  .local gpuplan_switch_stacks
  .type gpuplan_switch_stacks, @function
gpuplan_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size gpuplan_switch_stacks, .-gpuplan_switch_stacks
)");
#endif

namespace gpuplan::emulation {
namespace {

constexpr std::size_t kStack = std::size_t{256} << 10, kGuard = 4096;  // bytes; untouched pages take no memory

#ifdef GPUPLAN_ADDRESS_SANITIZER
// Of the thread's own fiber, which is the first to be left.
struct OwnStack {
  const void* bottom = nullptr;
  std::size_t size = 0;
};
OwnStack& own_stack() {
  static OwnStack stack;
  return stack;
}
#endif

}  // namespace

Fiber::Fiber(void (*entry)()) {
  void* const memory =
      mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kGuard, PROT_NONE) != 0) throw std::bad_alloc();
  stack_ = memory;
#ifdef __x86_64__
  auto* const top = reinterpret_cast<std::uint64_t*>(static_cast<std::byte*>(stack_) + kStack) - 2;
  *top = reinterpret_cast<std::uint64_t>(entry);  // at a multiple of 16, which `ret` leaves 8 above
  context_ = top - 6;                             // registers of 0
#else
  auto* const context = new ucontext_t;
  getcontext(context);
  context->uc_stack.ss_sp = stack_;
  context->uc_stack.ss_size = kStack;
  makecontext(context, entry, 0);
  context_ = context;
#endif
}

Fiber::~Fiber() {
  if (stack_ == nullptr) return;
#ifdef GPUPLAN_ADDRESS_SANITIZER
  __asan_unpoison_memory_region(static_cast<std::byte*>(stack_) + kGuard, kStack - kGuard);
#endif
  munmap(stack_, kStack);
#ifndef __x86_64__
  delete static_cast<ucontext_t*>(context_);
#endif
}

void Fiber::switch_to(Fiber& other) {
#ifdef GPUPLAN_ADDRESS_SANITIZER
  const bool to_own = other.stack_ == nullptr;
  __sanitizer_start_switch_fiber(&shadow_, to_own ? own_stack().bottom : static_cast<std::byte*>(other.stack_) + kGuard,
                                 to_own ? own_stack().size : kStack - kGuard);
#endif
#ifdef __x86_64__
  gpuplan_switch_stacks(&context_, other.context_);
#else
  if (context_ == nullptr) context_ = new ucontext_t;
  swapcontext(static_cast<ucontext_t*>(context_), static_cast<ucontext_t*>(other.context_));
#endif
#ifdef GPUPLAN_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(shadow_, nullptr, nullptr);
#endif
}

void Fiber::entered() {
#ifdef GPUPLAN_ADDRESS_SANITIZER
  // Every fiber is first entered from the thread's own.
  __sanitizer_finish_switch_fiber(nullptr, &own_stack().bottom, &own_stack().size);
#endif
}

}  // namespace gpuplan::emulation

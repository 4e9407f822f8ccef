#include "tools/process/interrupt.h"

#include <csignal>

namespace gpuplan {
namespace {

// What a signal handler may write to is global by its nature.
volatile std::sig_atomic_t interrupted = 0;

extern "C" void note_interrupt(int) { interrupted = 1; }

}  // namespace

Interrupt::Interrupt() {
  interrupted = 0;
  struct sigaction action {};
  action.sa_handler = note_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &before_);
}

Interrupt::~Interrupt() { sigaction(SIGINT, &before_, nullptr); }

void Interrupt::check() const {
  if (interrupted != 0) throw Interrupted{};
}

}  // namespace gpuplan

#include "tools/process/progress_line.h"

#include <unistd.h>

#include "tools/process/streams.h"

namespace gpuplan {
namespace {

constexpr std::chrono::milliseconds kFirst{1000}, kInterval{200};
constexpr const char* kClear = "\r\x1b[K";  // to the line's beginning, and the rest of it erased

}  // namespace

ProgressLine::ProgressLine(bool wanted)
    : wanted_(wanted && isatty(STDERR_FILENO) == 1), next_(std::chrono::steady_clock::now() + kFirst) {}

ProgressLine::~ProgressLine() {
  if (shown_) write_stderr(kClear);
}

bool ProgressLine::due() const { return wanted_ && std::chrono::steady_clock::now() >= next_; }

void ProgressLine::show(const std::string& text) {
  next_ = std::chrono::steady_clock::now() + kInterval;
  write_stderr(kClear + text);
  shown_ = true;
}

}  // namespace gpuplan

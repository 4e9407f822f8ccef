// One line on standard error that says how far a command is: rewritten in place, on a terminal only, once it has run
// for a second, and gone when the command is done.
#pragma once

#include <chrono>
#include <string>

namespace gpuplan {

class ProgressLine {
 public:
  explicit ProgressLine(bool wanted);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Whether it is time for a new text: cheap enough to be asked all the time.
  bool due() const;
  void show(const std::string& text);

 private:
  bool wanted_, shown_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace gpuplan

// A line now and then on a terminal while a command runs.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "validate/shadow/session.h"

namespace gpuplan::shadow {

class Progress {
 public:
  explicit Progress(std::string session);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// "step 120, compiling graph 3, needs 12.3 GiB so far" every ten seconds, empty in between and while nothing has
  /// used the GPU. A line of its own, never one that is rewritten: the command writes to the same terminal.
  std::string line();

 private:
  void read_new_events();

  std::string session_;
  SessionCounters* counters_;
  std::chrono::steady_clock::time_point next_;
  std::map<std::string, std::streamoff> read_;  // of each file of events, so far
  int step_ = 0;
  std::int64_t graph_ = 0, graph_said_ = 0;  // that torch.compile has begun; in the last line
};

}  // namespace gpuplan::shadow

// The phases of a training step, and what is read of memory in them.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpuplan {

enum class Phase : std::uint8_t { start, forward, loss, backward, clip, optimizer, end, save };
constexpr int kPhases = 8;
std::string_view name_of(Phase phase);

/// Three readings of one moment: what operators asked for, memory_allocated(), memory_reserved().
struct Reading {
  std::int64_t requested_bytes = 0;
  std::int64_t allocated_bytes = 0;
  std::int64_t reserved_bytes = 0;
};

struct PhaseRow {
  bool steady = true;  // else the first step
  Phase phase = Phase::start;
  Reading live;  // when the phase ends
  Reading peak;  // highest within it
  std::int64_t kernels = 0;
};

/// One point a schedule step: the level after it and the highest within it, allocated bytes.
struct TimelinePoint {
  Phase phase = Phase::start;
  std::int64_t allocated_bytes = 0;
  std::int64_t peak_bytes = 0;
};

}  // namespace gpuplan

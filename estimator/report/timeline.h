// Memory use over a step, as one line of text.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "estimator/plan/report.h"

namespace gpuplan {

/// `columns` blocks, each as high as the highest point it stands for, the highest of all full.
std::string sparkline(std::span<const TimelinePoint> points, std::size_t columns, bool unicode);
/// The phases under it: "forward ─────┤ backward ────┤ optimizer"; a phase too narrow for its name is a line only.
std::string phase_ruler(std::span<const TimelinePoint> points, std::size_t columns, bool unicode);
/// What marks the highest column: "      ▲ TEXT", or "TEXT ▲" where there is no room behind it.
std::string peak_mark(std::span<const TimelinePoint> points, std::size_t columns, const std::string& text,
                      bool unicode);

}  // namespace gpuplan

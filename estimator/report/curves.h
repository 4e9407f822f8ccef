// Figures over a variable, such as a sweep's memory over its batch: as an SVG, and in a terminal.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "estimator/report/text_style.h"

namespace gpuplan {

struct CurvePoint {
  double x = 0, y = 0;
  std::string words;  // of a tooltip, and where points are named
};

struct Curve {
  std::string name;
  std::vector<CurvePoint> points;  // in the order of x
};

/// A height that is not to be passed.
struct CurveLimit {
  std::string name;
  double y = 0;
};

/// One frame of a drawing.
struct CurveFrame {
  std::string title, x_name;
  bool bytes = false;                // whether y is an amount of memory, whose ticks are powers of two
  bool x_log = false;                // x grows by factors
  bool names_points = false;         // points stand for themselves and are not joined
  std::vector<std::string> x_words;  // where x counts words that are no numbers
  std::function<std::string(double)> y_text;
  std::vector<Curve> curves;
  std::vector<CurveLimit> limits;
};

/// Where to write figures on an axis from 0 to `most`: round ones, five or so, the last not below `most`.
std::vector<double> ticks_to(double most, bool bytes);

/// A file of its own, frames below each other; nothing is fetched, no script runs. Empty where no frame has a point.
std::string curves_svg(const std::string& title, const std::vector<CurveFrame>& frames);
/// Curves by letter, limits as lines.
std::string curves_text(const CurveFrame& frame, const TextStyle& style);

}  // namespace gpuplan

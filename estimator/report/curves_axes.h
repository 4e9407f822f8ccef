// Where the points of a frame lie.
#pragma once

#include "estimator/report/curves.h"

namespace gpuplan {

class CurveAxes {
 public:
  explicit CurveAxes(const CurveFrame& frame);
  /// From 0 to 1.
  double part_of_x(double x) const;
  double part_of_y(double y) const { return y / most_y_; }
  const std::vector<double>& y_ticks() const { return y_ticks_; }
  /// At most so many of the values of x, the first and the last among them, with their words.
  std::vector<std::pair<double, std::string>> x_ticks(std::size_t most) const;

 private:
  const CurveFrame& frame_;
  double first_x_ = 0, last_x_ = 1, most_y_ = 1;
  std::vector<double> y_ticks_;
};

}  // namespace gpuplan

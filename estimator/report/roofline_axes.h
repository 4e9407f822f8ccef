// The logarithmic axes that a roofline is drawn on.
#pragma once

#include <string>

#include "estimator/report/roofline.h"

namespace gpuplan {

/// Whole decades.
struct LogAxis {
  int first = 0, decades = 1;       // begins at 10^first
  double part(double value) const;  // from 0 to 1; what is beyond an end is at it
  double value(double part) const;
  double begin() const { return value(0); }
  double end() const { return value(1); }
};

/// FLOP a byte and FLOP/s. Both have room for every ridge and every point with a thousandth of the time, up to
/// seven decades; what is beyond is drawn at the edge.
struct RooflineAxes {
  LogAxis intensity, rate;
};
RooflineAxes axes_of(const Roofline& roofline);

/// "0.01", "1", "1,000"
std::string name_of_decade(int power);
/// "100 GFLOP/s"
std::string rate_of_decade(int power);

}  // namespace gpuplan

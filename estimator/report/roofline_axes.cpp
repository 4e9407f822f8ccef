#include "estimator/report/roofline_axes.h"

#include <algorithm>
#include <cmath>

#include "estimator/report/time_text.h"

namespace gpuplan {
namespace {

constexpr int kMostDecades = 7;
constexpr std::int64_t kNotSeen = 5;  // of the time, per mille: a point with less makes no axis longer
constexpr double kBesideRidge = 4;    // the flat part of the highest roof is this wide at least, as a factor

LogAxis axis_of(double least, double most) {
  const int last = static_cast<int>(std::ceil(std::log10(most)));
  const int first = std::max(static_cast<int>(std::floor(std::log10(least))), last - kMostDecades);
  return {first, std::max(last - first, 1)};
}

}  // namespace

double LogAxis::part(double value) const { return std::clamp((std::log10(value) - first) / decades, 0.0, 1.0); }
double LogAxis::value(double part) const { return std::pow(10.0, first + part * decades); }

RooflineAxes axes_of(const Roofline& roofline) {
  const Roof &highest = roofline.roofs.front(), &lowest = roofline.roofs.back();
  double least_x = roofline.ridge(lowest), most_x = roofline.ridge(highest) * kBesideRidge;
  double least_y = lowest.flops_per_second, most_y = highest.flops_per_second;
  for (const RooflinePoint& p : roofline.points) {
    if (p.per_mille < kNotSeen) continue;
    least_x = std::min(least_x, p.intensity), most_x = std::max(most_x, p.intensity);
    least_y = std::min(least_y, p.flops_per_second), most_y = std::max(most_y, p.flops_per_second);
  }
  return {axis_of(least_x, most_x), axis_of(least_y, most_y)};
}

std::string name_of_decade(int power) {
  if (power >= 0) return format_count(std::llround(std::pow(10.0, power)));
  return "0." + std::string(static_cast<std::size_t>(-power - 1), '0') + "1";
}

std::string rate_of_decade(int power) {
  std::string name = format_flops_per_second(std::pow(10.0, power));
  const std::size_t point = name.find('.'), space = name.find(' ');
  if (point < space) name.erase(point, space - point);
  return name;
}

}  // namespace gpuplan

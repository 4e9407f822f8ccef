#include "estimator/report/curves_axes.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "estimator/report/time_text.h"

namespace gpuplan {

namespace {

std::string number_words(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15 ? format_count(std::llround(value))
                                                              : format_figure(value);
}

}  // namespace

std::vector<double> ticks_to(double most, bool bytes) {
  constexpr double kSteps = 5;
  if (!(most > 0)) return {0, 1};
  const double raw = most / kSteps;
  // 1, 2, 5, 10 and so on; of bytes in their unit, up to the next one.
  const double unit = bytes ? std::pow(2.0, std::floor(std::log2(raw) / 10) * 10) : 1;
  const double power = std::pow(10.0, std::floor(std::log10(raw / unit)));
  double step = unit * power * 10;
  for (const double round : {5.0, 2.0, 1.0})
    if (unit * power * round >= raw) step = unit * power * round;
  if (bytes && step > 500 * unit) step = 1024 * unit;
  std::vector<double> ticks;
  for (int i = 0; ticks.empty() || ticks.back() < most; ++i) ticks.push_back(i * step);
  return ticks;
}

CurveAxes::CurveAxes(const CurveFrame& frame) : frame_(frame) {
  double most = 0;
  bool first = true;
  for (const Curve& curve : frame.curves)
    for (const CurvePoint& p : curve.points) {
      first_x_ = first ? p.x : std::min(first_x_, p.x);
      last_x_ = first ? p.x : std::max(last_x_, p.x);
      most = std::max(most, p.y);
      first = false;
    }
  // A limit far above what there is would press it to the ground.
  constexpr double kFar = 2.5;
  const double drawn = most;
  for (const CurveLimit& limit : frame.limits)
    if (limit.y <= kFar * drawn) most = std::max(most, limit.y);
  y_ticks_ = ticks_to(most, frame.bytes);
  most_y_ = y_ticks_.back();
}

double CurveAxes::part_of_x(double x) const {
  if (!(last_x_ > first_x_)) return 0.5;
  if (frame_.x_log) return std::log(x / first_x_) / std::log(last_x_ / first_x_);
  return (x - first_x_) / (last_x_ - first_x_);
}

std::vector<std::pair<double, std::string>> CurveAxes::x_ticks(std::size_t most) const {
  std::set<double> values;
  for (const Curve& curve : frame_.curves)
    for (const CurvePoint& p : curve.points) values.insert(p.x);
  const std::vector<double> all(values.begin(), values.end());
  std::vector<std::pair<double, std::string>> ticks;
  const std::size_t stride = all.size() <= most ? 1 : (all.size() + most - 2) / (most - 1);
  for (std::size_t i = 0; i < all.size(); i += stride) {
    const auto place = static_cast<std::size_t>(all[i]);
    ticks.emplace_back(all[i], place < frame_.x_words.size() ? frame_.x_words[place] : number_words(all[i]));
  }
  return ticks;
}

}  // namespace gpuplan

#include "estimator/report/roofline.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "estimator/base/list_text.h"
#include "estimator/plan/run_names.h"

namespace gpuplan {
namespace {

// What two parts of a path begin with, then *: "bn1" and "bn2" are "bn*", "bn*" and "bn3" too.
std::string common_part(std::string_view a, std::string_view b) {
  if (a == b) return std::string(a);
  std::size_t same = 0;
  while (same < std::min(a.size(), b.size()) && a[same] == b[same]) ++same;
  return std::string(a.substr(0, same)) + "*";
}

std::string common_name(const std::string& a, const std::string& b) {
  const std::vector<std::string_view> as = split(a, '.'), bs = split(b, '.');
  if (as.size() != bs.size()) return a;
  std::string name;
  for (std::size_t i = 0; i < as.size(); ++i) name += (i > 0 ? "." : "") + common_part(as[i], bs[i]);
  return name;
}

std::string run_words(const RunConfig& run) {
  std::string words = std::string(name_of(run.mode)) + ", batch " + format_count(run.batch) + ", ";
  return words + precision_words(run);
}

}  // namespace

double Roofline::roof(double intensity) const {
  const double most = roofs.empty() ? 0 : roofs.front().flops_per_second;
  return std::min(most, intensity * peak_bytes);
}

Roofline roofline(const Report& report) {
  Roofline r;
  r.model = report.model.name;
  r.gpu = report.gpu ? report.gpu->title : "";
  r.run = run_words(report.run);
  r.roofs = report.time->roofs;
  r.peak_bytes = report.time->peak_bytes;
  using Work = std::tuple<std::string_view, std::int64_t, std::int64_t, std::int64_t>;
  std::map<Work, std::size_t> places;
  std::int64_t all_ns = 0;
  for (const LayerRow& layer : report.layers) {
    all_ns += layer.busy_ns;
    if (layer.work_flops <= 0 || layer.work_bytes <= 0 || layer.busy_ns <= 0) {
      ++r.without;
      continue;
    }
    const auto [at, is_new] =
        places.try_emplace({layer.type, layer.work_flops, layer.work_bytes, layer.busy_ns}, r.points.size());
    if (is_new) {
      r.points.push_back({layer.name, layer.type, 0,
                          static_cast<double>(layer.work_flops) / static_cast<double>(layer.work_bytes),
                          static_cast<double>(layer.work_flops) / (1e-9 * static_cast<double>(layer.busy_ns)), 0, 0});
    }
    RooflinePoint& point = r.points[at->second];
    point.name = common_name(point.name, layer.name);
    point.layers += 1;
    point.busy_ns += layer.busy_ns;
  }
  for (RooflinePoint& p : r.points) p.per_mille = in_tenths(100 * p.busy_ns, std::max<std::int64_t>(all_ns, 1));
  std::ranges::stable_sort(r.points, std::ranges::greater{}, &RooflinePoint::busy_ns);
  return r;
}

std::string point_mark(std::size_t place) {
  constexpr std::string_view kMarks = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  return place < kMarks.size() ? std::string(1, kMarks[place]) : "";
}

}  // namespace gpuplan

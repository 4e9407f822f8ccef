#include "estimator/serve/slo.h"

#include <charconv>

#include "estimator/base/error.h"
#include "estimator/base/list_text.h"

namespace gpuplan {
namespace {

[[noreturn]] void refuse_slo(std::string_view text) {
  throw Error(
      "--slo expects times such as ttft=500ms,tpot=50ms, and p50, p90 or p99, not \"" + std::string(text) + "\"",
      ErrorKind::usage)
      .help(
          "ttft: time to the first token; tpot: time of each further token; p90 (the default): of nine requests in "
          "ten");
}

double seconds_in(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (error != std::errc{} || !(value > 0 && value < 1e6) || (unit != "ms" && unit != "s")) refuse_slo(text);
  return unit == "ms" ? value / 1000 : value;
}

}  // namespace

double at_share(const Quantiles& seconds, double share) {
  return share == 0.5 ? seconds.p50 : share == 0.99 ? seconds.p99 : seconds.p90;
}

Slo read_slo(std::string_view text) {
  Slo slo;
  for (const std::string_view part : split(text, ',')) {
    if (part.starts_with("ttft="))
      slo.first_token = seconds_in(part.substr(5));
    else if (part.starts_with("tpot="))
      slo.token = seconds_in(part.substr(5));
    else if (part == "p50" || part == "p90" || part == "p99")
      slo.share = part == "p50" ? 0.5 : part == "p90" ? 0.9 : 0.99;
    else
      refuse_slo(part);
  }
  if (!slo.first_token && !slo.token) refuse_slo(text);
  return slo;
}

bool meets(const ServedLoad& load, const Slo& slo) {
  if (slo.first_token && at_share(load.first_token, slo.share) > *slo.first_token) return false;
  return !slo.token || at_share(load.token, slo.share) <= *slo.token;
}

LoadPoint LoadedEngine::at(double rate) const {
  std::vector<Request> requests = requests_;
  for (Request& r : requests) r.arrival /= rate;
  return {rate, simulate_load(requests, limits_, seconds_, prefix_)};
}

double LoadedEngine::most_requests() const {
  std::vector<Request> requests = requests_;
  for (Request& r : requests) r.arrival = 0;
  return simulate_load(requests, limits_, seconds_, prefix_).request_rate;
}

std::vector<LoadPoint> LoadedEngine::curve() const {
  const double most = most_requests();
  std::vector<LoadPoint> out;
  for (const double share : {0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2})
    out.push_back(at(share * most));
  return out;
}

std::optional<LoadPoint> LoadedEngine::highest(const Slo& slo) const {
  double low = 0, high = most_requests();
  std::optional<LoadPoint> best;
  if (LoadPoint all = at(high); meets(all.load, slo)) return all;
  constexpr int kDescents = 10, kHalvings = 6;  // down to a thousandth; then to 2 % of what lies between
  for (int i = 0, halved = 0; (low == 0 && i < kDescents) || (low > 0 && halved < kHalvings); ++i) {
    if (low > 0) ++halved;
    const double middle = low == 0 ? high / 2 : (low + high) / 2;
    LoadPoint tried = at(middle);
    if (meets(tried.load, slo)) {
      low = middle;
      best = std::move(tried);
    } else {
      high = middle;
    }
  }
  return best;
}

}  // namespace gpuplan

// Service levels: how long users may wait, and the highest rate of requests that an engine meets them at.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/serve/load.h"

namespace gpuplan {

/// Seconds that may not be exceeded by `share` of the requests; nothing: any.
struct Slo {
  std::optional<double> first_token, token;
  double share = 0.9;  // 0.5, 0.9 or 0.99
};

/// "ttft=500ms,tpot=50ms", "ttft=1s,p99". Throws Error (usage).
Slo read_slo(std::string_view text);

/// Seconds that `share` of the requests do not exceed, of those that are kept: 0.5, 0.9 or 0.99.
double at_share(const Quantiles& seconds, double share);

/// Whether a load met it.
bool meets(const ServedLoad& load, const Slo& slo);

/// A load at one rate.
struct LoadPoint {
  double rate = 0;  // requests a second that arrive
  ServedLoad load;
};

/// Requests with arrivals at a rate of one a second, which other rates stretch.
class LoadedEngine {
 public:
  LoadedEngine(std::vector<Request> at_unit_rate, const EngineLimits& limits, StepSeconds seconds,
               std::int64_t shared_prefix)
      : requests_(std::move(at_unit_rate)), limits_(limits), seconds_(std::move(seconds)), prefix_(shared_prefix) {}

  LoadPoint at(double rate) const;
  /// What the engine finishes a second where all requests are there from the beginning.
  double most_requests() const;
  /// Rates from little to more than it can serve.
  std::vector<LoadPoint> curve() const;
  /// The highest rate that meets the levels, to 2 %, and not more than the engine finishes; nothing where none does.
  std::optional<LoadPoint> highest(const Slo& slo) const;

 private:
  std::vector<Request> requests_;
  EngineLimits limits_;
  StepSeconds seconds_;
  std::int64_t prefix_;
};

}  // namespace gpuplan

// A load on an engine that has started, in a report: what users wait for, and what a million tokens cost.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/report/text_style.h"
#include "estimator/serve/slo.h"

namespace gpuplan {

/// What is rented for it.
struct ServingOffer {
  std::string name;   // "aws g6.xlarge"
  double usd = 0;     // an hour
  std::string dated;  // the day of the price
};

struct LoadAnswer {
  std::string words;  // "512 tokens in, 128 out"
  std::optional<double>
      asked;        // requests a second; nothing: the load is the highest that meets the levels, or all of it
  LoadPoint point;  // the load that is told of
  std::optional<Slo> slo;
  std::string slo_words;             // as it was given
  std::optional<LoadPoint> highest;  // that meets it
  std::vector<LoadPoint> curve;
  std::optional<ServingOffer> offer;

  /// Dollars for a million tokens that are generated.
  std::optional<double> usd_per_million() const;
};

/// The lines below the verdict of a start.
std::string load_text(const LoadAnswer& load, const TextStyle& style);

}  // namespace gpuplan

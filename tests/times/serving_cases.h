// Published speeds of engines that serve decoders (tests/times/serving_readings.csv), and what pace_of() says of them.
#pragma once

#include <string>
#include <vector>

#include "estimator/serve/pace.h"

namespace gpuplan {

enum class ServingQuantity : std::uint8_t { decode, prefill, whole };

struct ServingReading {
  bool held = false;  // the constants were not fitted on it
  std::string engine, model, gpu;
  ServingQuantity quantity = ServingQuantity::decode;
  PaceSettings settings;
  std::int64_t batch = 1, prompt = 0, generated = 0;
  double seconds = 0;  // of the prompts' forward, of one token of each sequence, or of all
};
std::vector<ServingReading> serving_readings();
double predicted_seconds(const ServingReading& reading, const PaceModel& pace, const TimeModel& time = {});

/// A row of tests/times/serving_models.csv.
const ServedModel& sized_model(const std::string& name);

/// The median of max(p / m, m / p).
double median_factor(std::vector<double> predicted_over_measured);

}  // namespace gpuplan

// Where a model is served at what cost: a row for each GPU, the cheapest million tokens first.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/report/serve_load.h"

namespace gpuplan {

struct ServingRow {
  std::string gpu, title;
  std::int64_t count = 1;         // that share the model
  std::string refused;            // why it is not served there; empty: it is
  std::int64_t cache_tokens = 0;  // of the engine that starts
  std::optional<LoadAnswer> load;
  bool meets = true;  // the service levels, at some rate
};

struct ServingOffers {
  std::string model, engine, words, slo;
  std::vector<ServingRow> rows;  // in the order of what a million tokens cost; then those without a price; refused last

  const ServingRow* best() const;  // that meets the levels and has a price
};

std::string serving_offers_text(const ServingOffers& offers, const TextStyle& style);
std::string serving_offers_json(const ServingOffers& offers, std::string_view version);
std::string serving_offers_json_schema();

}  // namespace gpuplan

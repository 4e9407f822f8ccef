// The flags of a load on an engine: how many requests arrive, and how long they are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/serve/load.h"
#include "estimator/serve/slo.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's name
class App;
}

namespace gpuplan {

/// As written; empty: not given.
struct LoadOptions {
  std::string rate, prompt, answer, requests, prefix, slo;

  bool given() const { return !(rate + prompt + answer + requests + prefix + slo).empty(); }
};

struct AskedLoad {
  std::optional<double> rate;     // requests a second; nothing: as many as the engine serves
  std::vector<Request> requests;  // at one a second
  std::int64_t prefix = 0;
  std::optional<Slo> slo;
  std::string slo_words;
  std::string words;  // "800 tokens in, 200 out"
};

void add_load_options(CLI::App& command, LoadOptions& options);

/// Throws Error (usage).
AskedLoad load_of(const LoadOptions& options);

}  // namespace gpuplan

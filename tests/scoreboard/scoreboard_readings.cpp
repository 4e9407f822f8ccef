// Runs that people recorded, with tools/add_reading: the peaks of a snapshot beside those of a plan.
#include <CLI/CLI.hpp>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/plan/plan.h"
#include "layers/catalog.h"
#include "tests/scoreboard/scoreboard.h"
#include "tools/options/run_options.h"

namespace gpuplan {
namespace {

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream in(line);
  for (std::string cell; std::getline(in, cell, '\t');) cells.push_back(cell);
  return cells;
}

Report planned_reading(const std::string& folder, const std::string& flags) {
  CLI::App app;
  RunOptions options;
  add_run_options(app, options);
  app.parse(flags);
  if (std::filesystem::exists(folder + "/" + options.model)) options.model = folder + "/" + options.model;
  const std::optional<Gpu> gpu = load_gpu(options);
  return plan(load_model(options), make_catalog(), run_config(options), gpu ? &*gpu : nullptr);
}

}  // namespace

Scored score_readings(const std::string& root) {
  const std::string folder = root + "/tests/readings";
  std::ifstream in(folder + "/readings.tsv");
  Scored scored;
  std::string line;
  std::getline(in, line);  // the columns' names
  while (std::getline(in, line)) {
    const std::vector<std::string> cells = cells_of(line);
    if (cells.size() < 5) throw Error(folder + "/readings.tsv: a line without figures: " + line);
    const Report report = planned_reading(folder, cells[1]);
    const Reading& peak = report.peak.reading;
    const std::array<std::pair<const char*, std::int64_t>, 3> figures = {{{"peak.requested", peak.requested_bytes},
                                                                          {"peak.allocated", peak.allocated_bytes},
                                                                          {"peak.reserved", peak.reserved_bytes}}};
    for (std::size_t i = 0; i < figures.size(); ++i)
      scored.rows.push_back({.suite = "readings",
                             .run = cells[0],
                             .quantity = figures[i].first,
                             .expected = std::stoll(cells[2 + i]),
                             .got = figures[i].second});
  }
  return scored;
}

}  // namespace gpuplan

// Several GPUs against one, as published: nothing is fitted to it.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tools/answers/every_rank.h"
#include "tools/answers/shared_planning.h"

namespace gpuplan {
namespace {

struct Scaling {
  std::string gpu, precision;
  std::int64_t batch = 0, gpus = 8;
  double one = 0, all = 0;
  double measured() const { return all / (static_cast<double>(gpus) * one); }
};

// Columns as in the file; those without "gpus" are of eight.
std::vector<Scaling> published(const std::string& file, bool of_eight) {
  std::ifstream in(GPUPLAN_SOURCE_DIR "/tests/times/" + file);
  std::vector<Scaling> rows;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line.starts_with('#') || line.starts_with("gpu,")) continue;
    std::istringstream fields(line);
    std::string batch, gpus = "8", one, all;
    Scaling row;
    for (std::string* field : {&row.gpu, &row.precision, &batch}) std::getline(fields, *field, ',');
    if (!of_eight) std::getline(fields, gpus, ',');
    for (std::string* field : {&one, &all}) std::getline(fields, *field, ',');
    row.batch = std::stoll(batch), row.gpus = std::stoll(gpus), row.one = std::stod(one), row.all = std::stod(all);
    rows.push_back(row);
  }
  return rows;
}

double planned(const Scaling& row) {
  RunOptions run;
  run.model = "zoo:resnet50";
  run.optimizer = "sgd";
  run.gpu = row.gpu;
  run.batch = std::to_string(row.gpus * row.batch);
  if (row.precision == "amp") run.amp = "fp16", run.layout = "nhwc";
  if (row.precision == "fp32" && row.gpu.starts_with("a100")) run.precision = "tf32";
  SeveralGpusOptions several;
  several.gpus = std::to_string(row.gpus);
  several.zero = "ddp";
  if (row.gpus > 8) several.gpus_per_node = std::to_string(row.gpus);
  const auto [planning, strategy] = prepare_shared(run, several);
  const Topology topology = topology_of(several, planning.gpu);
  return plan_worst_rank(planning, *strategy, topology).report.rank->time->efficiency();
}

double say(const Scaling& row) {
  const double says = planned(row);
  MESSAGE(row.gpus << " " << row.gpu << " " << row.precision << ": measured " << row.measured() << ", planned "
                   << says);
  return says;
}

TEST_CASE("several GPUs that decode their images themselves scale as planned") {
  const std::vector<Scaling> rows = published("nvidia_resnet50_scaling.csv", false);
  REQUIRE_EQ(rows.size(), 20);
  double error = 0, greatest = 0;
  for (const Scaling& row : rows) {
    const double off = std::abs(say(row) - row.measured());
    error += off / 20;
    if (off > greatest) greatest = off;
  }
  MESSAGE("mean error " << error << ", greatest " << greatest);
  CHECK_LT(error, 0.0145);
  CHECK_LT(greatest, 0.085);  // sixteen V100s in mixed precision
}

TEST_CASE("eight GPUs whose images the node's CPUs decode scale worse in mixed precision") {
  const std::vector<Scaling> rows = published("nvidia_resnet50_8gpus.csv", true);
  REQUIRE_EQ(rows.size(), 6);
  for (const Scaling& row : rows) {
    const double says = say(row);
    CHECK(says >= row.measured());
    CHECK(says - row.measured() < (row.precision == "amp" ? 0.14 : 0.016));
  }
}

}  // namespace
}  // namespace gpuplan

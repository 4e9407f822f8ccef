// Eight GPUs against one, as published: nothing is fitted to it.
#include <doctest/doctest.h>

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
  std::int64_t batch = 0;
  double one = 0, eight = 0;
  double measured() const { return eight / (8 * one); }
};

std::vector<Scaling> published() {
  std::ifstream in(GPUPLAN_SOURCE_DIR "/tests/times/nvidia_resnet50_8gpus.csv");
  std::vector<Scaling> rows;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line.starts_with('#') || line.starts_with("gpu,")) continue;
    std::istringstream fields(line);
    std::string batch, one, eight;
    Scaling row;
    for (std::string* field : {&row.gpu, &row.precision, &batch, &one, &eight}) std::getline(fields, *field, ',');
    row.batch = std::stoll(batch), row.one = std::stod(one), row.eight = std::stod(eight);
    rows.push_back(row);
  }
  return rows;
}

double planned(const Scaling& row) {
  RunOptions run;
  run.model = "zoo:resnet50";
  run.optimizer = "sgd";
  run.gpu = row.gpu;
  run.batch = std::to_string(8 * row.batch);
  if (row.precision == "amp") run.amp = "fp16", run.layout = "nhwc";
  if (row.precision == "fp32" && row.gpu.starts_with("a100")) run.precision = "tf32";
  SeveralGpusOptions several;
  several.gpus = "8";
  several.zero = "ddp";
  const auto [planning, strategy] = prepare_shared(run, several);
  const Topology topology = topology_of(several, planning.gpu);
  return plan_worst_rank(planning, *strategy, topology).report.rank->time->efficiency();
}

TEST_CASE("eight GPUs scale worse than the links say, by what is known") {
  double by_plan = 0, by_reading = 0;
  const std::vector<Scaling> rows = published();
  REQUIRE_EQ(rows.size(), 6);
  for (const Scaling& row : rows) {
    const double says = planned(row);
    MESSAGE(row.gpu << " " << row.precision << ": measured " << row.measured() << ", planned " << says);
    CHECK(says >= row.measured());
    CHECK(says - row.measured() < (row.precision == "amp" ? 0.15 : 0.03));
    by_plan += says / 6, by_reading += row.measured() / 6;
  }
  CHECK(by_reading == doctest::Approx(0.914).epsilon(0.002));
  CHECK(by_plan == doctest::Approx(0.99).epsilon(0.01));
}

}  // namespace
}  // namespace gpuplan

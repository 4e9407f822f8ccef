// A step on a line is the one that lowering makes, value for value; where there is no line, none is found.
#include <doctest/doctest.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "estimator/device/find_gpu.h"
#include "estimator/search/affine_step.h"
#include "layers/catalog.h"
#include "tests/support/zoo_models.h"
#include "tools/answers/sweep_points.h"
#include "tools/options/run_options.h"
#include "tools/options/swept_flags.h"

using namespace gpuplan;

namespace {

RunConfig run_of(RunOptions options) {
  if (options.mode.empty()) options.optimizer = "adam";
  return run_config(options);
}

AffineStep::Found line_of(const Model& model, const RunConfig& run, std::int64_t lowest, std::int64_t highest) {
  return AffineStep::through(model, make_catalog(), run, assumed_gpu(), lowest, highest, true);
}

bool same_scratch(const Schedule& a, const Schedule& b) {
  return a.scratch == b.scratch && std::ranges::equal(a.ops, b.ops, [](const ScheduledOp& s, const ScheduledOp& t) {
           return s.scratch.begin == t.scratch.begin && s.scratch.end == t.scratch.end;
         });
}

// What the line says of a batch, beside what lowering does.
void check_at(AffineStep& line, const Model& model, RunConfig run, std::int64_t batch) {
  CAPTURE(model.name);
  CAPTURE(batch);
  run.batch = batch;
  RankStep whole = make_step(model, make_catalog(), run, assumed_gpu(), {}, true);
  REQUIRE(line.at(batch) != nullptr);
  RankStep& on_line = line.at(batch)->step;
  const StepValues expected = values_of(whole), found = values_of(on_line);
  CHECK(expected.others == found.others);
  CHECK(std::ranges::equal(expected.sizes, found.sizes, [](const auto* a, const auto* b) { return *a == *b; }));
  for (std::size_t i = 0; i < whole.micro_batches.schedules.size(); ++i)
    CHECK(same_scratch(whole.micro_batches.schedules[i], on_line.micro_batches.schedules[i]));
}

void check_line(const std::string& name, const RunConfig& run, std::int64_t lowest, std::int64_t highest,
                std::initializer_list<std::int64_t> batches) {
  const Model model = zoo_model(name);
  AffineStep::Found found = line_of(model, run, lowest, highest);
  CAPTURE(name);
  REQUIRE(found.line.has_value());
  for (const std::int64_t batch : batches) check_at(*found.line, model, run, batch);
}

void check_alone(const std::string& name, SweepPoints& points, const SweepRow& row) {
  CAPTURE(name);
  CAPTURE(row.point);
  const SweepRow alone = points.plan_point(static_cast<std::size_t>(row.point));
  CHECK(alone.values == row.values);
  CHECK(alone.error == row.error);
  CHECK(alone.figures == row.figures);
}

}  // namespace

TEST_CASE("a step at a batch between two is the one that lowering makes") {
  RunOptions options;
  check_line("resnet18", run_of(options), 2, 80, {2, 3, 17, 40, 41, 42, 79, 80});
  check_line("mobilenet_v2", run_of(options), 2, 40, {3, 32, 33});
  check_line("unet_small", run_of(options), 2, 20, {7, 13});
  check_line("alexnet", run_of(options), 3, 300, {5, 128, 256, 299});
  options.layout = "nhwc";
  check_line("resnet18", run_of(options), 2, 40, {9, 31});
  options = {};
  options.precision = "amp-bf16";
  check_line("densenet121", run_of(options), 2, 20, {11});
  options.precision = "amp-fp16";
  check_line("vgg16", run_of(options), 2, 20, {3, 12});
  options = {};
  options.mode = "infer";
  check_line("resnet50", run_of(options), 2, 40, {3, 39});
}

TEST_CASE("micro-batches lie on a line of those batches that split into them") {
  RunOptions options;
  options.micro_batches = "4";
  options.batch = "8";
  const RunConfig run = run_of(options);
  const Model model = zoo_model("resnet18");
  AffineStep::Found found = line_of(model, run, 8, 80);
  REQUIRE(found.line.has_value());
  check_at(*found.line, model, run, 44);
  CHECK(found.line->at(45) == nullptr);
  CHECK_FALSE(line_of(model, run, 8, 81).line.has_value());
}

TEST_CASE("a line ends at its batches, and few are none") {
  const Model model = zoo_model("resnet18");
  AffineStep::Found found = line_of(model, run_of({}), 8, 32);
  REQUIRE(found.line.has_value());
  CHECK(found.line->at(7) == nullptr);
  CHECK(found.line->at(33) == nullptr);
  CHECK_FALSE(line_of(model, run_of({}), 8, 8 + AffineStep::kFewest - 1).line.has_value());
  CHECK_FALSE(line_of(model, run_of({}), -40, 8).line.has_value());
}

// A matrix of one row is contiguous however it is turned.
TEST_CASE("there is no line over a limit, but parts of the range may have one") {
  const Model model = zoo_model("mlp");
  const AffineStep::Found found = line_of(model, run_of({}), 1, 40);
  CHECK_FALSE(found.line.has_value());
  CHECK(found.parts_may);
  check_line("mlp", run_of({}), 2, 40, {2, 3, 40});
}

TEST_CASE("kernels that are chosen by ranges of the batch, and sizes that are rounded, lie on no line") {
  RunOptions options;
  options.precision = "fp16";
  const AffineStep::Found depthwise = line_of(zoo_model("mobilenet_v2"), run_of(options), 2, 40);
  CHECK_FALSE(depthwise.line.has_value());
  CHECK_FALSE(depthwise.parts_may);
  const AffineStep::Found attention = line_of(zoo_model("gpt2"), run_of({}), 2, 40);
  CHECK_FALSE(attention.line.has_value());
  CHECK_FALSE(attention.parts_may);
}

// Of every kind: on a line, on none, over a limit, refused, and of GPUs that share a step.
TEST_CASE("a sweep's rows are the same whether its batches share a line or not") {
  const auto check_rows = [](const std::string& name, const std::vector<std::string>& over, RunOptions base) {
    base.model = name;
    std::vector<SweptFlag> flags;
    for (const std::string& text : over) flags.push_back(read_swept_flag(text));
    SweepPoints points(base, flags);
    std::map<std::string, std::map<std::string, std::vector<std::size_t>>> lines;
    for (std::size_t i = 0; i < points.count(); ++i) lines[points.line_of(i)][points.group_of(i)].push_back(i);
    std::size_t rows = 0;
    for (const auto& [line, groups] : lines) {
      std::vector<std::vector<std::size_t>> of_line;
      for (const auto& [group, members] : groups) of_line.push_back(members);
      points.plan_line(of_line, [&](const std::vector<SweepRow>& of_group) {
        rows += of_group.size();
        for (const SweepRow& row : of_group) check_alone(name, points, row);
      });
    }
    CHECK_EQ(rows, points.count());
  };
  check_rows("zoo:mlp", {"batch=1:60", "precision=fp32,amp-bf16", "gpu=t4,l4,16 GiB"}, {});
  check_rows("zoo:resnet18", {"batch=2:60:2", "micro-batches=1,4"}, {});
  check_rows("zoo:mlp", {"batch=1:40", "gpus=1,2"}, {});
  RunOptions offloaded;
  offloaded.offload = "saved";
  check_rows("zoo:mlp", {"batch=1:20"}, offloaded);
}

// The files for viewers, by what their authors publish: speedscope's src/lib/file-format-spec.ts, of which
// speedscope.app/file-format-schema.json is made, and the Trace Event Format of chrome://tracing and Perfetto.
#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "estimator/device/read_gpu.h"
#include "estimator/report/snapshot_viewers.h"
#include "estimator/snapshot/snapshot_history.h"
#include "estimator/snapshot/write_snapshot.h"
#include "estimator/time/step_time.h"
#include "layers/catalog.h"
#include "tests/support/zoo_models.h"
#include "tools/process/read_source.h"

namespace gpuplan {
namespace {

using nlohmann::json;

struct Planned {
  Model model = zoo_model("resnet18");
  Gpu gpu = read_gpu(*read_file_source(std::string(GPUPLAN_SOURCE_DIR) + "/configs/gpus/a100-80gb.yaml"));
  Plan plan = make_plan(model, make_catalog(), run(), &gpu, {}, true);
  Snapshot snapshot = snapshot_of(plan);

  static RunConfig run() {
    RunConfig run;
    run.batch = 4;
    return run;
  }
};

// Keys that are there, and no others.
void check_keys(const json& object, const std::set<std::string>& required, const std::set<std::string>& optional) {
  for (const std::string& key : required) CHECK_MESSAGE(object.contains(key), key);
  for (const auto& entry : object.items()) {
    const std::string& key = entry.key();
    CHECK_MESSAGE((required.contains(key) || optional.contains(key)), key);
  }
}

// An event by its phase: "X" complete, "C" counter, "M" metadata.
void check_event(const json& event, std::map<std::string, std::int64_t>& counted) {
  const std::string phase = event.at("ph");
  ++counted[phase];
  CHECK(event.at("name").is_string());
  CHECK(event.at("pid").is_number_integer());
  if (phase != "M") CHECK_GE(event.at("ts").get<double>(), 0);
  if (phase == "X") {
    check_keys(event, {"name", "ph", "pid", "tid", "ts", "dur"}, {"cat", "args"});
    CHECK_GE(event.at("dur").get<double>(), 0);
  } else if (phase == "C") {
    check_keys(event, {"name", "ph", "pid", "ts", "args"}, {"id"});
    for (const auto& series : event.at("args").items()) CHECK_GE(series.value().get<std::int64_t>(), 0);
  } else {
    CHECK_EQ(phase, "M");
    const std::string name = event.at("name");
    CHECK((name == "process_name" || name == "thread_name"));
    CHECK(event.at("args").at("name").is_string());
  }
}

}  // namespace

TEST_CASE("a speedscope file is one by its published types, and has the bytes of the peak") {
  const Planned p;
  const json file = json::parse(snapshot_speedscope(p.snapshot));
  check_keys(file, {"$schema", "shared", "profiles"}, {"name", "activeProfileIndex", "exporter"});
  CHECK_EQ(file["$schema"], "https://www.speedscope.app/file-format-schema.json");
  check_keys(file["shared"], {"frames"}, {});
  const std::size_t frames = file["shared"]["frames"].size();
  for (const json& frame : file["shared"]["frames"]) {
    check_keys(frame, {"name"}, {"file", "line", "col"});
    CHECK(frame["name"].is_string());
    if (frame.contains("line")) CHECK_GT(frame["line"].get<std::int64_t>(), 0);
  }
  REQUIRE_EQ(file["profiles"].size(), 1);
  const json& profile = file["profiles"][0];
  check_keys(profile, {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}, {});
  CHECK_EQ(profile["type"], "sampled");
  CHECK_EQ(profile["unit"], "bytes");
  REQUIRE_EQ(profile["samples"].size(), profile["weights"].size());
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < profile["samples"].size(); ++i) {
    CHECK_FALSE(profile["samples"][i].empty());
    for (const json& frame : profile["samples"][i]) CHECK_LT(frame.get<std::size_t>(), frames);
    sum += profile["weights"][i].get<std::int64_t>();
  }
  CHECK_EQ(sum, follow(p.snapshot, 0).peak.allocated_bytes);
  CHECK_EQ(profile["endValue"].get<std::int64_t>() - profile["startValue"].get<std::int64_t>(), sum);
}

TEST_CASE("a trace's events are those of the format, with memory, phases and modelled operations") {
  const Planned p;
  const std::optional<ModelledTimes> times = modelled_times(p.plan.step, HostCopy::pinned);
  REQUIRE(times);
  const TimedSnapshot timed = timed_snapshot_of(p.plan, *times);
  for (const bool with_times : {false, true}) {
    const json file = json::parse(with_times ? snapshot_trace_events(timed.snapshot, timed.operations)
                                             : snapshot_trace_events(p.snapshot));
    check_keys(file, {"traceEvents", "displayTimeUnit"}, {});
    std::map<std::string, std::int64_t> counted;
    std::int64_t most = 0;
    for (const json& event : file["traceEvents"]) {
      check_event(event, counted);
      if (event["ph"] == "C") most = std::max(most, event["args"]["allocated"].get<std::int64_t>());
    }
    CHECK_EQ(most, follow(p.snapshot, 0).peak.allocated_bytes);
    const std::int64_t operations = with_times ? static_cast<std::int64_t>(timed.operations.size()) : 0;
    // Model construction, and start, forward, loss, backward, optimizer and end of three steps.
    CHECK_EQ(counted["X"] - operations, 1 + 3 * 6);
    CHECK_EQ(counted["M"], with_times ? 4 : 2);
  }
}

TEST_CASE("folded stacks add up to the peak") {
  const Planned p;
  const std::string text = snapshot_folded(p.snapshot, 0);
  std::int64_t sum = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at), space = text.rfind(' ', end);
    REQUIRE_NE(end, std::string::npos);
    sum += std::stoll(text.substr(space + 1, end - space - 1));
    at = end + 1;
  }
  CHECK_EQ(sum, follow(p.snapshot, 0).peak.allocated_bytes);
}

}  // namespace gpuplan
